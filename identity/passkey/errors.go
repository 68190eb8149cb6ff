package passkey

import (
	"errors"
	"fmt"

	"github.com/go-webauthn/webauthn/protocol"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// ErrCopied says that a passkey's counter has gone back.
var ErrCopied error = Refuse("the counter of the passkey went back")

// answerError is an answer that does not come from a passkey as it should. It is a person.ErrMismatch; its text is for
// the log.
type answerError struct{ cause error }

func (e *answerError) Error() string { return e.cause.Error() }

// Is tells that the error is a person.ErrMismatch.
func (e *answerError) Is(target error) bool { return target == person.ErrMismatch }

// Refuse returns the error of an answer that is not accepted, for a reason.
func Refuse(reason string) error { return &answerError{errors.New(reason)} }

// refused wraps an error of the library, which keeps its details apart.
func refused(err error) error {
	if p := new(protocol.Error); errors.As(err, &p) && p.DevInfo != "" && len(p.DevInfo) < 300 {
		err = fmt.Errorf("%s (%s)", p.Details, p.DevInfo)
	}
	return &answerError{err}
}
