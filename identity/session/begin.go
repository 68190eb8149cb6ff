package session

import (
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The level of a sign-in by password, and the name of the local sign-in among providers.
const (
	PasswordLevel = 1
	LocalProvider = "identity"
)

// Ended is a session that has made room for a new one. Each is an event.
type Ended struct {
	*Current

	Reason string // of the event
}

// MostEnded is how many sessions of which a new one takes the place are still good, at most.
const MostEnded = 2

// Begin opens a session in tx. token is the new cookie, old the hash of the browser's present cookie, and id the id of
// a new session. If the same person is signed in in this browser, their session continues under the new cookie, so
// tokens bound to it stay valid. Another person's session in this browser ends, and a session of the same person if
// they have too many.
func (s *Service) Begin(tx storage.Tx, id, token, old string, rec Record) (sessionID string, ended []Ended, err error) {
	u, err := s.units(tx)
	if err != nil {
		return "", nil, err
	}
	if !u.Features.LoginEnabled {
		return "", nil, ErrClosed
	}
	rec.Cookie, sessionID = secret.Hash(token), id
	if rec.Global, err = GlobalEpoch(tx); err != nil {
		return "", nil, err
	}
	before, err := s.Open(tx, old, rec.Seen)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", nil, err
	}
	if err == nil {
		if err := keyRecords.Delete(tx, old); err != nil {
			return "", nil, err
		}
		if before.Session.PersonID == rec.PersonID {
			sessionID = before.ID
			if before.Session.Held && !rec.Held {
				if err := ProviderRecords.Delete(tx, sessionID); err != nil {
					return "", nil, err
				}
			}
		} else {
			ended = append(ended, Ended{before, "another person signed in"})
			if err := s.End(tx, before.ID, before.Session); err != nil {
				return "", nil, err
			}
		}
	}
	if sessionID == id {
		dropped, err := s.makeRoom(tx, rec.PersonID, rec.Seen)
		if err != nil {
			return "", nil, err
		}
		if dropped != nil {
			ended = append(ended, Ended{dropped, "too many sessions"})
		}
	}
	if err := Records.Put(tx, sessionID, rec, s.Collect(rec)); err != nil {
		return "", nil, err
	}
	if err := s.enlist(tx, sessionID, rec); err != nil {
		return "", nil, err
	}
	return sessionID, ended, keyRecords.Create(tx, rec.Cookie, keyRecord{SessionID: sessionID}, s.Collect(rec))
}

// makeRoom ends sessions of a person until there is room for one more: those that have ended by themselves, and one
// that is still good, which it returns. Stores of earlier versions can hold more; then the number does not grow.
func (s *Service) makeRoom(tx storage.Tx, personID string, now time.Time) (*Current, error) {
	all, err := s.sessionsOf(tx, personID)
	if err != nil || len(all) < s.cfg.PerPerson {
		return nil, err
	}
	p, err := person.Records.Get(tx, personID)
	if err != nil {
		return nil, err
	}
	global, err := GlobalEpoch(tx)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b Session) int { return a.Record.Seen.Compare(b.Record.Seen) })
	left := len(all)
	var good []Session
	for _, x := range all {
		if s.alive(x.Record, global, now) && x.Record.Epoch == p.Epoch {
			good = append(good, x)
			continue
		}
		if err := s.End(tx, x.ID, x.Record); err != nil {
			return nil, err
		}
		if left--; left < s.cfg.PerPerson {
			return nil, nil //nolint:nilnil // there is room
		}
	}
	if len(good) == 0 {
		return nil, nil //nolint:nilnil // there is room
	}
	oldest := good[0]
	return &Current{ID: oldest.ID, Session: oldest.Record, Person: p}, s.End(tx, oldest.ID, oldest.Record)
}

// sessionsOf returns the stored sessions of a person, ended ones too.
func (s *Service) sessionsOf(tx storage.Tx, personID string) (out []Session, err error) {
	list, err := s.move(tx, personID)
	if err != nil {
		return nil, err
	}
	var gone []string
	for _, id := range list.Sessions {
		rec, found, err := Records.Find(tx, id)
		switch {
		case err != nil:
			return nil, err
		case found && rec.PersonID == personID:
			out = append(out, Session{id, rec})
		default:
			gone = append(gone, id)
		}
	}
	if len(gone) == 0 {
		return out, nil
	}
	return out, unlist(tx, personID, gone...)
}

// PerPerson is how many browsers of a person are recognised at once.
func (s *Service) PerPerson() int { return s.cfg.PerPerson }

// Renew gives a session another cookie. The cookie before opens it no longer.
func (s *Service) Renew(tx storage.Tx, id, token string) (Record, error) {
	rec, err := Records.Get(tx, id)
	if err != nil {
		return rec, err
	}
	if err := keyRecords.Delete(tx, rec.Cookie); err != nil {
		return rec, err
	}
	rec.Cookie = secret.Hash(token)
	if err := Records.Put(tx, id, rec, s.Collect(rec)); err != nil {
		return rec, err
	}
	return rec, keyRecords.Create(tx, rec.Cookie, keyRecord{SessionID: id}, s.Collect(rec))
}

// MarkSignedIn records that a person signs in, and tells whether they have signed in before.
func MarkSignedIn(tx storage.Tx, personID string, now time.Time) (before bool, err error) {
	err = FirstSignIns.Create(tx, personID, FirstSignInRecord{First: now}, time.Time{})
	if errors.Is(err, storage.ErrExists) {
		return true, nil
	}
	return false, err
}
