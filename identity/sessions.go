package identity

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// OpenSession is a session of a person as backends see it. Nothing of it opens the session.
// (docs/decisions/events.md#session-api)
type OpenSession struct {
	ID         string    `json:"id" rest:"required"`
	PersonID   string    `json:"person_id" rest:"required"`
	CreatedAt  time.Time `json:"created_at" rest:"required"`
	SignedInAt time.Time `json:"signed_in_at" rest:"required"`
	LastUsedAt time.Time `json:"last_used_at" rest:"required"`
	ExpiresAt  time.Time `json:"expires_at" rest:"required"` // unless it is used again
	Level      int       `json:"authentication_level" rest:"required"`
	AMR        []string  `json:"amr,omitempty"`
	Provider   string    `json:"provider,omitempty"`
	Remembered bool      `json:"remembered,omitempty"`
	ClientIP   string    `json:"client_ip,omitempty"` // of its last use on pages of this service
	UserAgent  string    `json:"user_agent,omitempty"`
	// DeviceBound says that the session counts on the device of its browser alone. (docs/device-bound-sessions.md)
	DeviceBound bool `json:"device_bound,omitempty"`
}

func (s *Service) openSession(o session.Session) OpenSession {
	rec := o.Record
	return OpenSession{
		ID: o.ID, PersonID: rec.PersonID, CreatedAt: rec.OpenedAt(), SignedInAt: rec.AuthTime, LastUsedAt: rec.Seen,
		ExpiresAt: s.Session.Ends(rec), Level: rec.Level,
		AMR: rec.AMR, Provider: rec.Provider, Remembered: rec.Remembered, ClientIP: rec.Address, UserAgent: rec.Agent,
		DeviceBound: rec.IsBound(),
	}
}

// OpenSessions returns up to most live sessions of a person in the order of their ids, past after. more says that there
// are further ones.
func (s *Service) OpenSessions(ctx context.Context, personID, after string, most int) (list []OpenSession, more bool, err error) {
	now := s.now()
	err = s.store.View(ctx, func(tx storage.Tx) error {
		list, more = []OpenSession{}, false
		if _, _, err := s.Person.Find(tx, personID); err != nil {
			return err
		}
		all, err := s.Session.OfPerson(tx, personID, now)
		if err != nil {
			return err
		}
		slices.SortFunc(all, func(a, b session.Session) int { return strings.Compare(a.ID, b.ID) })
		for _, o := range all {
			if o.ID <= after {
				continue
			}
			if more = len(list) == most; more {
				break
			}
			list = append(list, s.openSession(o))
		}
		return nil
	})
	return list, more, err
}

// ReadSession returns a live session, or storage.ErrNotFound.
func (s *Service) ReadSession(ctx context.Context, id string) (out OpenSession, err error) {
	now := s.now()
	err = s.store.View(ctx, func(tx storage.Tx) error {
		o, err := session.One(s.Session.ActiveOf(tx, []string{id}, now))
		out = s.openSession(o)
		return err
	})
	return out, err
}

// HolderOf returns the person of a session that EndSession can end, or storage.ErrNotFound.
func (s *Service) HolderOf(ctx context.Context, id string) (personID string, err error) {
	now := s.now()
	err = s.store.View(ctx, func(tx storage.Tx) error {
		o, err := session.One(s.Session.UnendedOf(tx, []string{id}, now))
		personID = o.Record.PersonID
		return err
	})
	return personID, err
}

// EndSession ends a session with its tokens, also one that does not count now, or returns storage.ErrNotFound.
func (s *Service) EndSession(ctx context.Context, id string, by audit.Actor) error {
	ev, err := s.Person.NewEvents(by.Origin, webflow.SignedOut)
	if err != nil {
		return err
	}
	now := s.now()
	return s.store.Update(ctx, func(tx storage.Tx) error {
		o, err := session.One(s.Session.UnendedOf(tx, []string{id}, now))
		if err != nil {
			return err
		}
		err = errors.Join(s.Person.Watcher().TokensEnded(tx, o.Record.PersonID, id), s.Session.End(tx, id, o.Record))
		if err != nil {
			return err
		}
		e := by.Fill(ev[0], o.Record.PersonID, "ended by a backend")
		e.SessionID = id
		return s.events.Append(tx, e)
	})
}
