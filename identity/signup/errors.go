package signup

import (
	"errors"
)

// Errors of the registration after a sign-in at a provider.
var (
	// errKnown says that the provider's identity signs in a person already.
	errKnown = errors.New("the identity is known")
	// errAddressTaken says that another person has the address.
	errAddressTaken = errors.New("the address is taken")
)
