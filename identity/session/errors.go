package session

import (
	"errors"
)

// Errors of sessions.
var (
	// ErrClosed says that nobody may sign in at all.
	ErrClosed = errors.New("identity: signing in is switched off")
)
