package saml

import (
	"context"
	"time"
)

// EvenStep is evenStep for the tests outside of the package.
const EvenStep = evenStep

// SchemeLevels is schemeLevels for them.
func SchemeLevels(name string) []string { return schemeLevels(name) }

// SetPause replaces the wait before a failure is answered.
func SetPause(p *Provider, pause func(context.Context, time.Duration)) { p.verifier.pause = pause }
