package identity

import (
	"errors"
	"strconv"
)

// Errors of persons.
var (
	// ErrUsernameTaken says that another person has the username, regardless of case and spelling.
	ErrUsernameTaken = errors.New("identity: the username is taken")
	// ErrNoPerson says that nobody has the username or id.
	ErrNoPerson = errors.New("identity: no such person")
	// ErrNoGroup says that no group has the name or id.
	ErrNoGroup = errors.New("identity: no such group")
	// ErrGroupTaken says that another group has the name.
	ErrGroupTaken = errors.New("identity: the name of the group is taken")
	// ErrCoupled says that the identity at a provider is another person's already.
	ErrCoupled = errors.New("identity: the external identity is coupled with another person")
	// ErrCoupledOther says that the person has another identity at the provider already.
	ErrCoupledOther = errors.New("identity: the person is coupled with another identity of the provider")
	// errMismatch is every reason why a username and password do not sign anybody in.
	errMismatch = errors.New("identity: username and password do not match")
)

// Errors of sessions.
var (
	// errClosed says that nobody may sign in at all.
	errClosed = errors.New("identity: signing in is switched off")
)

// Errors of proofs.
var (
	// ErrCodesOff says that the configuration has switched off what a code is asked for.
	ErrCodesOff = errors.New("identity: codes for this are switched off")
	// errNoLink says that a link that a person was sent is good for nothing, or for nothing any more.
	errNoLink = errors.New("identity: the link was used, or is too old")
	// ErrTextsOff says that no code is sent to telephones for backends.
	ErrTextsOff = errors.New("identity: the validation of numbers is switched off")
	// ErrWrongCode says that a code is wrong, or not good any more.
	ErrWrongCode = errors.New("identity: the code is wrong, or not good any more")
)

// Errors of sign-ins under way.
var (
	// errTooMany says that too many sign-ins were begun from one network.
	errTooMany = errors.New("identity: too many sign-ins were begun from this network")
)

// Errors of identity providers.
var (
	// ErrNoProvider says that there is no such provider, or that nobody can be coupled with its identities.
	ErrNoProvider = errors.New("identity: there is no such identity provider")
)

// Errors of step-ups.
var (
	// ErrNoMethod says that the person has no such method to reach a higher level.
	ErrNoMethod = errors.New("identity: the person has no such method")
)

// Errors of action tokens.
var (
	// ErrNoActionToken says that an action token is unknown, used, over or revoked.
	ErrNoActionToken = errors.New("identity: no such action token")
	// ErrAction says that an action cannot be done.
	ErrAction = errors.New("identity: the action cannot be done")
)

// Errors of enrolment.
var (
	// ErrInvitationsOff says that nobody can be invited.
	ErrInvitationsOff = errors.New("identity: invitations are switched off")
	// errLocked says that an invitation takes no more answers.
	errLocked = errors.New("identity: the invitation is locked")
)

// ValidationError says which member of a person cannot be stored and why. It repeats no value.
type ValidationError struct{ Field, Problem string }

func (e *ValidationError) Error() string { return "identity: " + e.Field + " " + e.Problem }

// TooManyError says that a change concerns more of something than one change may.
type TooManyError struct {
	Field string
	Most  int
}

func (e *TooManyError) Error() string {
	return "identity: more than " + strconv.Itoa(e.Most) + " " + e.Field + " in one change"
}
