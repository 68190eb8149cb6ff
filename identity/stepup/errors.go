package stepup

import (
	"errors"
)

// Errors of step-ups.
var (
	// ErrNoMethod says that the person has no such method to reach a higher level.
	ErrNoMethod = errors.New("identity: the person has no such method")
)
