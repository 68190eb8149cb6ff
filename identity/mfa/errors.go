package mfa

import (
	"errors"
	"fmt"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// Errors of step-ups and of their methods.
var (
	// ErrNoMethod says that the person does not have such a method.
	ErrNoMethod = errors.New("the person has no such method")
	// ErrLastWay says that the person could not sign in without it.
	ErrLastWay = errors.New("it is the only way to sign in")

	errKnownPasskey  = errors.New("the passkey exists already")
	errPromptWaiting = errors.New("a prompt is waiting already")
	errPromptOver    = fmt.Errorf("the prompt is over: %w", person.ErrMismatch)
)
