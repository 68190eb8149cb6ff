package webflow

import "errors"

// Errors of sign-ins under way.
var (
	// ErrTooMany says that too many sign-ins were begun from one network.
	ErrTooMany = errors.New("too many sign-ins were started from this network")
)
