package person

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
	// ErrMismatch is every reason why a username and password do not sign anybody in.
	ErrMismatch = errors.New("identity: username and password do not match")
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
