package identity

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// typedPassword is what somebody has typed to sign in.
type typedPassword struct {
	username, password string
	client             string // id of the application that asked for the sign-in, for events
	// activates says that a person who has to be activated first is an *inactiveError.
	activates bool
}

// provePassword counts the try and checks the password. What a right one is good for is the caller's to decide. wait is how long no try is taken,
// errMismatch every reason that is the person's; both have been logged.
func (s *Service) provePassword(r *http.Request, c typedPassword) (p proof, wait time.Duration, err error) {
	ctx, from := r.Context(), s.Origin(r)
	a, err := s.lookUp(ctx, c.username)
	if err != nil {
		return p, 0, err
	}
	device := s.device(r)
	at, err := s.countTry(ctx, a, c.username, whence{address: from.ClientIP, device: hashed(device)})
	if err != nil {
		return p, 0, err
	}
	if at.wait > 0 {
		s.Log.Info("sign-in not taken: too many tries", zap.String("person_id", a.id), zap.String("client_ip", from.ClientIP))
		return p, at.wait, nil
	}
	fresh, err := s.compare(ctx, s.Hasher, a, c.password)
	if err == nil && a.person.State != Active {
		if err = errMismatch; c.activates {
			err = s.ofInactive(ctx, a)
		}
	}
	switch {
	case errors.Is(err, errMismatch):
		s.Log.Info("sign-in refused", zap.String("person_id", a.id), zap.String("client_ip", from.ClientIP))
		if err := s.failed(ctx, c.client, a, at, from); err != nil {
			return p, 0, err
		}
		return p, 0, errMismatch
	case err != nil:
		s.notEvaluated(ctx, at)
		return p, 0, err
	}
	return proof{account: a, attempt: at, fresh: fresh, device: device, from: from}, 0, nil
}

// notEvaluated takes back a try whose password nobody could look at.
func (s *Service) notEvaluated(ctx context.Context, at attempt) {
	now := s.Now()
	if err := s.Store.Update(ctx, func(tx storage.Tx) error { return s.giveBack(tx, at, false, now) }); err != nil {
		s.Log.Error("try not given back", zap.Error(err))
	}
}

// failed writes the events of a refused sign-in.
func (s *Service) failed(ctx context.Context, clientID string, a account, at attempt, from event.Origin) error {
	ev, err := s.newEvents(from, loginFailed, loginThrottled)
	if err != nil {
		return err
	}
	if !at.exhausted {
		ev = ev[:1]
	}
	now := s.Now()
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		if at.exhausted {
			if err := s.tellBlocked(tx, a, now); err != nil {
				return err
			}
		}
		for _, e := range ev {
			e.PersonID, e.ClientID = a.id, clientID
			if err := s.Events.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// proof is a password that was right.
type proof struct {
	account account
	attempt attempt
	fresh   string // hash at the present cost; empty: it has that already
	device  string
	from    event.Origin
}

// proven writes what a good password leaves behind and returns the person, or errMismatch when what was verified holds no more.
func (s *Service) proven(tx storage.Tx, p proof, now time.Time) (personRecord, error) {
	rec, pw, err := p.account.unchanged(tx)
	if err != nil {
		return rec, err
	}
	if p.fresh != "" {
		if err := passwords.Put(tx, p.account.id, passwordRecord{PHC: p.fresh, ChangedAt: pw.ChangedAt}, time.Time{}); err != nil {
			return rec, err
		}
	}
	if err := s.giveBack(tx, p.attempt, true, now); err != nil {
		return rec, err
	}
	return rec, devices.Put(tx, storage.Key(p.account.id, hashed(p.device)), deviceRecord{Epoch: rec.Epoch, Seen: now}, now.Add(deviceLife))
}
