package enrol

import (
	"errors"
)

// Errors of enrolment.
var (
	// ErrInvitationsOff says that nobody can be invited.
	ErrInvitationsOff = errors.New("identity: invitations are switched off")
	// errLocked says that an invitation takes no more answers.
	errLocked = errors.New("identity: the invitation is locked")
)
