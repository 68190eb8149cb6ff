package session

import (
	"errors"
	"time"

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

// MostEnded is the maximum number of valid sessions that a new one replaces.
const MostEnded = 2

// Begin opens a session in tx. token is the new cookie, old the hash of the browser's present cookie, and id the id of
// a new session. If the same person is signed in in this browser, their session continues under the new cookie, so
// tokens bound to it stay valid. Another person's session in this browser ends, and a session of the same person if
// they have too many.
func (s *Service) Begin(tx storage.Tx, id, token, old string, rec Record) (sessionID string, ended []Ended, err error) {
	u, err := s.deps.Units(tx)
	if err != nil {
		return "", nil, err
	}
	if !u.Features.LoginEnabled {
		return "", nil, ErrClosed
	}
	rec.Cookie, sessionID = secret.Hash(token), id
	present := Record{} // of the session that continues
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
			sessionID, present = before.ID, before.Session
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
	list, _, err := lists.Find(tx, rec.PersonID)
	if err != nil {
		return "", nil, err
	}
	if sessionID == id {
		dropped, err := s.makeRoom(tx, rec.PersonID, &list, rec.Global, rec.Seen)
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
	if err := s.place(tx, sessionID, &present, &rec); err != nil {
		return "", nil, err
	}
	list.add(sessionID, s.knownOf(rec), s.Collect(rec))
	if err := lists.Put(tx, rec.PersonID, list, list.Ends); err != nil {
		return "", nil, err
	}
	return sessionID, ended, keyRecords.Create(tx, rec.Cookie, keyRecord{SessionID: sessionID}, s.Collect(rec))
}

// PerPerson returns the number of browsers of a person that are recognised at once.
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

// MarkSignedIn records that a person signs in, and reports whether they have signed in before.
func MarkSignedIn(tx storage.Tx, personID string, now time.Time) (before bool, err error) {
	err = FirstSignIns.Create(tx, personID, FirstSignInRecord{First: now}, time.Time{})
	if errors.Is(err, storage.ErrExists) {
		return true, nil
	}
	return false, err
}
