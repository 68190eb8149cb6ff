package invitation

import (
	"errors"
)

// Errors of invitations.
var (
	// ErrInvitationsOff says that invitations are switched off.
	ErrInvitationsOff = errors.New("invitations are switched off")

	// errLocked says that an invitation accepts no more answers.
	errLocked = errors.New("the invitation is locked")
)
