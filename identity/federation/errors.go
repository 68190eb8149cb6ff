package federation

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Errors of identity providers.
var (
	// ErrNoProvider says that there is no such provider, or that its identities cannot be coupled with people.
	ErrNoProvider = errors.New("there is no such identity provider")
	// ErrBlocked says that the person of an identity is not active.
	ErrBlocked = errors.New("the person is not active")
	// ErrUsed says that another request has used the answer of the provider.
	ErrUsed = errors.New("the answer was used before")
	// ErrAsk says that the identity can belong to an existing account: only its password tells.
	ErrAsk = errors.New("the person has to be asked")

	// errSeveral and errUntrusted are reasons to ask that an administrator could remove.
	errSeveral   = fmt.Errorf("%w: several accounts have the address", ErrAsk)
	errUntrusted = fmt.Errorf("%w: another provider of the account is not trusted with addresses", ErrAsk)
	// errLinked says that a password would not help: the account is linked to another identity at the provider.
	errLinked = fmt.Errorf("%w: the account with the address is linked to another name at the provider", ErrAsk)
	// errStepUp says that linking needs more than the password.
	errStepUp = errors.New("the person has to step up before an identity is linked")
	// errRegister says that the person is new and has to fill in a form before the account is created.
	errRegister = errors.New("the person has to register")
	// errNameTaken says that the username of a new person belongs to another one.
	errNameTaken = errors.New("the username of a new person is another person's")
	// errPlanted says that an API client has linked the identity of a person with a role in the admin console.
	errPlanted = errors.New("an API client has linked the identity, and the person has a role in the admin console")
	// errRole says that the provider is not allowed for people with a role in the admin console.
	errRole = errors.New("the provider is not allowed for people with a role in the admin console")
	// errOtherBrowser says that an answer came to another browser than the one that was sent to the provider.
	errOtherBrowser = errors.New("the answer belongs to another browser")
)

// expired answers that a flow is unknown, used or too old.
func expired() error {
	return &webflow.Answer{Status: http.StatusBadRequest, Key: "error.expired", Again: person.DefaultReturn}
}

// forbidden answers with a page that leads nowhere.
func forbidden(key string) error { return &webflow.Answer{Status: http.StatusForbidden, Key: key} }

// providerError is a failure of the provider, not ours.
type providerError struct{ cause error }

func (p *providerError) Error() string { return "provider: " + p.cause.Error() }

func (p *providerError) Unwrap() error { return p.cause }
