package enrol

import (
	"errors"
)

// Errors of enrolment.
var (
	// ErrInvitationsOff says that invitations are switched off.
	ErrInvitationsOff = errors.New("invitations are switched off")

	// errLocked says that an invitation accepts no more answers.
	errLocked = errors.New("the invitation is locked")
	// errKnown says that the provider's identity signs in a person already.
	errKnown = errors.New("the identity is known")
	// errAddressTaken says that another person has the address.
	errAddressTaken = errors.New("the address is taken")
)
