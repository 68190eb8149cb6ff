package person

import (
	"context"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// BreachCheck reports whether passwords are known from breaches. It is safe for concurrent use.
type BreachCheck interface {
	// Breached reports whether a password is known, within a bounded time. It returns an error if it cannot tell.
	Breached(ctx context.Context, password string) (bool, error)
	// Closed says that a password is refused if Breached cannot tell.
	Closed() bool
}

// BreachedProblem is the problem of a password that is known from a breach.
const BreachedProblem = "is known from a breach: others try it, so choose another"

// UncertainError says that the breach check cannot tell. Every surface answers it with 503, like an unavailable
// storage.
type UncertainError struct{ cause error }

func (e *UncertainError) Error() string {
	return "cannot tell whether the password is known from a breach: " + e.cause.Error()
}

func (e *UncertainError) Unwrap() error { return storage.ErrUnavailable }

// checkBreached refuses a password that is known from a breach. The password has the form that is hashed.
func (s *Service) checkBreached(ctx context.Context, password string) error {
	if s.deps.Breached == nil {
		return nil
	}
	known, err := s.deps.Breached.Breached(ctx, password)
	switch {
	case err != nil && (s.deps.Breached.Closed() || ctx.Err() != nil):
		return &UncertainError{err}
	case err != nil:
		return s.unsure(ctx, err)
	case known:
		return &ValidationError{"password", BreachedProblem}
	}
	return nil
}

// unsure records that a password was accepted without an answer of the breach check. The events are limited, since a
// check that is down is down for everyone.
func (s *Service) unsure(ctx context.Context, why error) error {
	s.deps.Log.Warn("password accepted without an answer of the breach check", zap.NamedError("cause", why))
	if !s.doubts.Allow() {
		return nil
	}
	ev, err := s.NewEvents(audit.Self, breachUnknown)
	if err != nil {
		return err
	}
	ev[0].Reason = "a password was taken without it"
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error { return s.deps.Events.Append(tx, ev[0]) })
}
