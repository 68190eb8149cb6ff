package person

import (
	"context"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// BreachCheck tells whether passwords are known from breaches. It is safe for concurrent use.
type BreachCheck interface {
	// Breached tells whether a password is known, within a bounded time. An error: nobody can tell.
	Breached(ctx context.Context, password string) (bool, error)
	// Closed says that a password of which nobody can tell is not taken.
	Closed() bool
}

const BreachedProblem = "is known from a breach: others try it, so choose another"

// uncertainError says that nobody can tell whether a password is known from a breach. Every surface answers it with 503, as any doubt.
type uncertainError struct{ cause error }

func (e *uncertainError) Error() string {
	return "identity: nobody can tell whether the password is known from a breach: " + e.cause.Error()
}

// Unwrap makes it a doubt.
func (e *uncertainError) Unwrap() error { return storage.ErrUnavailable }

// checkBreached refuses a password that is known from a breach. The password is in the form that is hashed.
func (s *Service) checkBreached(ctx context.Context, password string) error {
	if s.breached == nil {
		return nil
	}
	known, err := s.breached.Breached(ctx, password)
	switch {
	case err != nil && (s.breached.Closed() || ctx.Err() != nil):
		return &uncertainError{err}
	case err != nil:
		return s.unsure(ctx, err)
	case known:
		return &ValidationError{"password", BreachedProblem}
	}
	return nil
}

// unsure writes down that a password was taken of which nobody can tell. How often it does is bounded: a service that is down is down for all.
func (s *Service) unsure(ctx context.Context, why error) error {
	s.log.Warn("password taken though nobody can tell whether it is known from a breach", zap.NamedError("cause", why))
	if !s.doubts.Allow() {
		return nil
	}
	ev, err := s.NewEvents(event.Self, breachUnknown)
	if err != nil {
		return err
	}
	ev[0].Reason = "a password was taken without it"
	return s.store.Update(ctx, func(tx storage.Tx) error { return s.events.Append(tx, ev[0]) })
}
