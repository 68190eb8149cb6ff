package actiontoken

import (
	"errors"
)

// Errors of action tokens.
var (
	// ErrNoToken says that an action token is unknown, used, expired or revoked.
	ErrNoToken = errors.New("no such action token")
	// ErrAction says that an action is impossible.
	ErrAction = errors.New("the action cannot be done")
	// ErrHasRole says that the person has a role in the admin console, and that the token is that of an API client.
	ErrHasRole = errors.New("an action token of an API client signs in no one with a role in the admin console")
)

// FeatureOffError names the feature that an action token needs and that is switched off.
type FeatureOffError struct{ Feature string }

// The features of action tokens.
const (
	FeatureLogin    = "login"
	FeatureAppToWeb = "app_to_web"
	FeatureCoupling = "coupling"
)

func (e *FeatureOffError) Error() string {
	return "action tokens: " + e.Feature + " is switched off"
}

// FailedError names the actions of a token that have failed. Cause is person.ErrCoupled, person.ErrCoupledOther,
// person.ErrHasRole, ErrHasRole, federation.ErrNoProvider, a *person.StateError, or ErrAction. Nothing was done,
// and the token can be used again.
type FailedError struct {
	Actions []string // types
	Cause   error
}

func (e *FailedError) Error() string { return "an action failed: " + e.Cause.Error() }

func (e *FailedError) Unwrap() error { return e.Cause }
