package session

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The times of idle marks and of collection.
const (
	markEvery    = time.Minute // how often the idle mark is written at most
	CollectAfter = time.Hour   // how long after its end a record can be collected
)

// Live returns a session that has not ended by itself, or storage.ErrNotFound. The caller checks the person's state
// and epoch.
func (s *Service) Live(tx storage.Tx, id string, now time.Time) (Record, error) {
	rec, err := s.Unended(tx, id, now)
	if err != nil {
		return rec, err
	}
	if counts, err := s.counts(tx, &rec); err != nil {
		return rec, err
	} else if !counts {
		return rec, storage.ErrNotFound
	}
	return rec, nil
}

// Unended is Live for who ends a session. It also finds one that does not count now, and would count again.
func (s *Service) Unended(tx storage.Tx, id string, now time.Time) (Record, error) {
	rec, err := Records.Get(tx, id)
	if err != nil {
		return rec, err
	}
	global, err := GlobalEpoch(tx)
	if err != nil {
		return rec, err
	}
	if !s.alive(rec, global, now) {
		return rec, storage.ErrNotFound
	}
	return rec, nil
}

// counts reports whether the sign-in of a session still counts. One by a provider that was disabled or removed since
// does not. One by the word of an API client, or of a login method that is not for them, does not count for a person
// with a role in the admin console, whenever they got the role.
func (s *Service) counts(tx storage.Tx, rec *Record) (bool, error) {
	if s.signsIn != nil {
		if is, err := s.signsIn(tx, rec.Provider); err != nil || !is {
			return false, err
		}
	}
	if !rec.Vouched {
		return true, nil
	}
	p, found, err := person.Records.Find(tx, rec.PersonID)
	return found && !s.deps.Person.HasRole(&p), err
}

// alive reports whether a session has not ended by itself.
func (s *Service) alive(rec Record, global int64, now time.Time) bool {
	return rec.Global == global && s.ends(rec).After(now)
}

// ends returns when a session ends if it is not used again, by today's configuration.
func (s *Service) ends(rec Record) time.Time {
	at := s.Latest(rec)
	if idle := rec.Seen.Add(s.cfg.Idle); idle.Before(at) && !s.remembers(rec) {
		at = idle
	}
	return at
}

// Ends returns when a session ends if it is not used again.
func (s *Service) Ends(rec Record) time.Time { return s.ends(rec) }

// Latest returns when a session ends at the latest, however often it is used.
func (s *Service) Latest(rec Record) time.Time {
	at := rec.OpenedAt().Add(s.cfg.Absolute)
	if s.remembers(rec) {
		at = rec.OpenedAt().Add(s.cfg.Remember)
	}
	if !rec.NotAfter.IsZero() && rec.NotAfter.Before(at) { // SAML core 2.7.2: SessionNotOnOrAfter
		return rec.NotAfter
	}
	return at
}

func (s *Service) remembers(rec Record) bool {
	return rec.Remembered && s.OffersRemember()
}

// OffersRemember reports whether a person can choose to stay signed in.
func (s *Service) OffersRemember() bool { return s.cfg.Remember > 0 }

// OpenedAt returns the time from which the lifetimes of a session count.
func (r *Record) OpenedAt() time.Time {
	if r.Opened.IsZero() {
		return r.AuthTime
	}
	return r.Opened
}

// Collect returns when the records of a session can be collected.
func (s *Service) Collect(rec Record) time.Time {
	return rec.OpenedAt().Add(max(s.cfg.Absolute, s.cfg.Remember) + CollectAfter)
}

// Touch marks a session as used now, at most once a minute.
func (s *Service) Touch(ctx context.Context, id string) error { return s.mark(ctx, id, nil) }

// mark is Touch, and records where the session was used from if that is known.
func (s *Service) mark(ctx context.Context, id string, from *audit.Origin) error {
	now := s.deps.Now()
	due := func(tx storage.Tx) (Record, bool, error) {
		rec, err := s.Live(tx, id, now)
		if errors.Is(err, storage.ErrNotFound) {
			return rec, false, nil
		}
		return rec, err == nil && (now.Sub(rec.Seen) >= markEvery || rec.Address == "" && from != nil), err
	}
	var write bool
	err := s.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		_, write, err = due(tx)
		return err
	})
	if err != nil || !write {
		return err
	}
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		rec, ok, err := due(tx)
		if err != nil || !ok {
			return err
		}
		before := rec
		if rec.Seen = now; from != nil {
			rec.From(*from)
		}
		if rec.Address != before.Address || rec.Agent != before.Agent {
			if err := s.place(tx, id, &before, &rec); err != nil {
				return err
			}
		}
		return Records.Put(tx, id, rec, s.Collect(rec))
	})
}

// Use is Touch for a request that continues even if the mark cannot be written.
func (s *Service) Use(r *http.Request, c *Current) {
	if s.deps.Now().Sub(c.Session.Seen) < markEvery && c.Session.Address != "" {
		return
	}
	from := s.deps.Origin(r)
	if err := s.mark(r.Context(), c.ID, &from); err != nil {
		s.deps.Log.Error("idle mark not written", zap.String("session_id", c.ID), zap.Error(err))
	}
}
