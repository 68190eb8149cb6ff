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
// federation.ErrNoProvider, a *person.StateError, or ErrAction. Nothing was done, and the token can be used again.
type FailedError struct {
	Actions []string // types
	Cause   error
}

func (e *FailedError) Error() string { return "an action failed: " + e.Cause.Error() }

func (e *FailedError) Unwrap() error { return e.Cause }
