package challenge

import (
	"context"
	"fmt"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// ErrFallbackDown says that a password cannot be checked now, because another server does not answer. Callers that
// do not know it answer as for secret.ErrBusy.
var ErrFallbackDown = fmt.Errorf("another server cannot say now whether the password is right: %w", secret.ErrBusy)

// Unknown is a username that no one has here, with what was typed as the password.
type Unknown struct {
	Username, Password string
	Client             string // id of the application that asked for the sign-in, for events
	From               audit.Origin
	Device             string // the device cookie. Empty: none came
}

// Fallback returns the person that an unknown username belongs to after all, whose password is then checked as ever.
// more is an attempt that it has counted in addition, Refused if a server has refused the password. An empty Holder:
// no one. Errors: ErrFallbackDown.
type Fallback func(ctx context.Context, who Unknown) (a person.Holder, more Attempt, err error)

// SetFallback sets who is asked about unknown usernames. New calls it before the service is used.
func (s *Service) SetFallback(ask Fallback) { s.fallback = ask }

// Seek replaces a, if its username is unknown here, by the person that it belongs to elsewhere. It is called after the
// attempt was counted and accepted: no more passwords reach the other server than the limits allow. After it, at can
// have to wait.
func (s *Service) Seek(ctx context.Context, a *person.Holder, at *Attempt, who Unknown) error {
	if a.ID != "" || s.fallback == nil {
		return nil
	}
	known, more, err := s.fallback(ctx, who)
	at.Counters = append(at.Counters, more.Counters...)
	at.Wait, at.Exhausted, at.Refused = more.Wait, at.Exhausted || more.Exhausted, more.Refused
	if err == nil && known.ID != "" {
		*a = known
	}
	return err
}
