package challenge

import (
	"errors"
	"fmt"
	"time"
)

// Errors of proofs.
var (
	// ErrCodesOff says that the configuration has switched off what the code is for.
	ErrCodesOff = errors.New("codes for this are switched off")
	// ErrNoLink says that a link is unknown, used or expired.
	ErrNoLink = errors.New("the link was used or has expired")
	// ErrTextsOff says that API clients cannot have numbers verified by text message.
	ErrTextsOff = errors.New("the verification of numbers is switched off")
	// ErrWrongCode says that a code is wrong or has expired.
	ErrWrongCode = errors.New("the code is wrong or has expired")
)

// TooSoonError says how long no other code is made for the same purpose.
type TooSoonError struct{ Wait time.Duration }

func (e *TooSoonError) Error() string {
	return fmt.Sprintf("a code was made a moment ago; another one can be made in %s", e.Wait.Round(time.Second))
}
