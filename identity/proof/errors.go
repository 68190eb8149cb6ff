package proof

import (
	"errors"
)

// Errors of proofs.
var (
	// ErrCodesOff says that the configuration has switched off what a code is asked for.
	ErrCodesOff = errors.New("identity: codes for this are switched off")
	// ErrNoLink says that a link that a person was sent is good for nothing, or for nothing any more.
	ErrNoLink = errors.New("identity: the link was used, or is too old")
	// ErrTextsOff says that no code is sent to telephones for backends.
	ErrTextsOff = errors.New("identity: the validation of numbers is switched off")
	// ErrWrongCode says that a code is wrong, or not good any more.
	ErrWrongCode = errors.New("identity: the code is wrong, or not good any more")
)
