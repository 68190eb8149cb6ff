package actiontoken

import (
	"errors"
)

// Errors of action tokens.
var (
	// ErrNoActionToken says that an action token is unknown, used, over or revoked.
	ErrNoActionToken = errors.New("identity: no such action token")
	// ErrAction says that an action cannot be done.
	ErrAction = errors.New("identity: the action cannot be done")
)
