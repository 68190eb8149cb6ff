package person

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Errors of persons.
var (
	// ErrUsernameTaken says that another person has the username, regardless of case and spelling.
	ErrUsernameTaken = errors.New("the username is taken")
	// ErrNameKept says that the configuration names the person by the username, so it stays. It is an ErrUsernameTaken
	// too: where a username follows an address, the address changes without it.
	ErrNameKept = fmt.Errorf("the configuration names the person by the username: change it there first (%w)", ErrUsernameTaken)
	// ErrNoPerson says that no person has the username or id.
	ErrNoPerson = errors.New("no such person")
	// ErrNoGroup says that no group has the name or id.
	ErrNoGroup = errors.New("no such group")
	// ErrGroupTaken says that another group has the name.
	ErrGroupTaken = errors.New("the name of the group is taken")
	// ErrCoupled says that the identity at a provider is linked to another person.
	ErrCoupled = errors.New("the external identity is coupled with another person")
	// ErrCoupledOther says that the person is linked to another identity at the provider.
	ErrCoupledOther = errors.New("the person is coupled with another identity of the provider")
	// ErrEmailTaken says that the address is verified for another person.
	ErrEmailTaken error = &ValidationError{"email", "is the verified address of another person"}
	// ErrPlanted says that an untrusted actor has set the password of a person with a role in the admin console.
	ErrPlanted = errors.New("the password was set by a program or an administrator below owner, and the person has a role in the admin console")
	// ErrHasRole says that the person has a role in the admin console, and that only they can link an identity.
	ErrHasRole = errors.New("a person with a role in the admin console links identities on the account page alone")
	// ErrSpared says that a program must not make the change: it would take the account of a person with a role in the
	// admin console, or give a role.
	ErrSpared = errors.New("programs give no roles in the admin console, and change nothing that people with a role sign in with")
	// ErrMismatch is every reason why a username and password do not sign in.
	ErrMismatch = errors.New("username and password do not match")
)

// IsRefusal reports whether err says that a change of a person or a group is not allowed as things are, and not that it
// has failed.
func IsRefusal(err error) bool {
	for _, refusal := range []error{
		ErrUsernameTaken, ErrNoPerson, ErrNoGroup, ErrGroupTaken, ErrSpared, storage.ErrTooLarge,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return errors.As(err, new(*ValidationError)) || errors.As(err, new(*TooManyError))
}

// ValidationError says which member of a person cannot be stored, and why. It repeats no value.
type ValidationError struct{ Field, Problem string }

func (e *ValidationError) Error() string { return e.Field + " " + e.Problem }

// CheckHash returns a *ValidationError for a password hash of another system that cannot be used here.
func CheckHash(phc string) error {
	if secret.CheckImported(phc) == nil {
		return nil
	}
	if over := secret.TooCostly(phc); over != "" {
		return &ValidationError{"password_hash", over}
	}
	return &ValidationError{"password_hash", "is not a hash that is understood"}
}

// TooManyError says that a change concerns more than one change can.
type TooManyError struct {
	Field string
	Most  int
}

func (e *TooManyError) Error() string {
	return "more than " + strconv.Itoa(e.Most) + " " + e.Field + " in one change"
}

// UnknownMembersError names ids in a change of a group of people who are not in its partition. It is an ErrNoPerson.
type UnknownMembersError struct{ IDs []string }

func (e *UnknownMembersError) Error() string {
	return "no such person: " + strings.Join(e.IDs, ", ")
}

// Is implements the interface of errors.Is.
func (e *UnknownMembersError) Is(target error) bool { return target == ErrNoPerson }

// StateError says that the password is right, but the state of the person forbids its use.
type StateError struct{ State State }

func (e *StateError) Error() string {
	return "the person is " + strings.ToLower(string(e.State))
}

// InactiveError says that the password is right, but the person is inactive.
type InactiveError struct{ Account Holder }

func (e *InactiveError) Error() string { return "the person has to be activated first" }
