package qrlogin

import (
	"errors"
	"fmt"
)

// Errors of codes that a phone has scanned.
var (
	// ErrNoCode says that there is no such code, or that it belongs to someone else by now.
	ErrNoCode = errors.New("there is no such code")
	// ErrOff says that phones sign no one in this way.
	ErrOff = errors.New("signing in by a phone is switched off")
	// ErrOver says that a code waits no longer: it was approved, denied, guessed at too often, or it has expired.
	ErrOver = errors.New("the code is no longer waiting")
	// ErrNumber says that the number is not the one next to the code.
	ErrNumber = errors.New("the number is another one")
	// ErrFactor says that the person has not shown what a phone has to show to approve.
	ErrFactor = errors.New("the phone has not confirmed who uses it")
	// ErrPerson says that the person cannot be signed in.
	ErrPerson = errors.New("the person cannot be signed in")

	errWaits   = fmt.Errorf("%w: another page was faster", ErrOver)
	errTooMany = errors.New("too many codes were asked for from this network")
)
