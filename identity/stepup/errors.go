package stepup

import (
	"errors"
	"fmt"

	"github.com/go-webauthn/webauthn/protocol"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// Errors of step-ups and of their methods.
var (
	// ErrNoMethod says that the person does not have such a method.
	ErrNoMethod = errors.New("identity: the person has no such method")
	// ErrLastWay says that the person could not sign in without it.
	ErrLastWay = errors.New("identity: it is the only way to sign in")
	// ErrCopied says that a passkey's counter has gone back.
	ErrCopied error = &passkeyError{errors.New("the counter of the passkey went back")}

	errKnownPasskey  = errors.New("identity: the passkey exists already")
	errPromptWaiting = errors.New("identity: a prompt is waiting already")
	errPromptOver    = fmt.Errorf("the prompt is over: %w", person.ErrMismatch)
)

// passkeyError is an answer that does not come from a passkey as it should. It is a person.ErrMismatch; its text is for
// the log.
type passkeyError struct{ cause error }

func (e *passkeyError) Error() string { return "passkey: " + e.cause.Error() }

// Is tells that the error is a person.ErrMismatch.
func (e *passkeyError) Is(target error) bool { return target == person.ErrMismatch }

// refusedPasskey wraps an error of the library, which keeps its details apart.
func refusedPasskey(err error) error {
	if p := new(protocol.Error); errors.As(err, &p) && p.DevInfo != "" && len(p.DevInfo) < 300 {
		err = fmt.Errorf("%s (%s)", p.Details, p.DevInfo)
	}
	return &passkeyError{err}
}
