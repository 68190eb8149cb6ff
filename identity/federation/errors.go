package federation

import (
	"errors"
)

// Errors of identity providers.
var (
	// ErrNoProvider says that there is no such provider, or that nobody can be coupled with its identities.
	ErrNoProvider = errors.New("identity: there is no such identity provider")
)
