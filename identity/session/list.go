package session

import (
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Session is a live session of a person.
type Session struct {
	ID     string
	Record Record
}

// OpenSessions returns the live sessions of a person, the one used last first.
func (s *Service) OpenSessions(tx storage.Tx, personID string, epoch int64, now time.Time) (out []Session, err error) {
	ids, err := listed(tx, personID)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		rec, err := s.Live(tx, id, now)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if rec.PersonID == personID && rec.Epoch == epoch {
			out = append(out, Session{id, rec})
		}
	}
	slices.SortStableFunc(out, func(a, b Session) int { return b.Record.Seen.Compare(a.Record.Seen) })
	return out, nil
}

// Stored returns the sessions of a person that have a record: the live ones, and others that do not count now and would
// count again, as when their provider is enabled. Who ends the sessions of a person ends these.
func Stored(tx storage.Tx, personID string) (out []Session, err error) {
	ids, err := listed(tx, personID)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		rec, found, err := Records.Find(tx, id)
		if err != nil {
			return nil, err
		}
		if found && rec.PersonID == personID {
			out = append(out, Session{id, rec})
		}
	}
	return out, nil
}

// Get returns a live session, or storage.ErrNotFound if it has ended, has expired or never existed. The caller compares
// its epoch with the person's.
func (s *Service) Get(tx storage.Tx, id string, now time.Time) (authn.Session, error) {
	rec, err := s.Live(tx, id, now)
	if err != nil {
		return authn.Session{}, err
	}
	c := Current{ID: id, Session: rec}
	return authn.Session{Result: *c.Result(), Epoch: rec.Epoch, Ends: s.ends(rec), Seen: rec.Seen}, nil
}

// List returns the live sessions of a person, the oldest first.
func (s *Service) List(tx storage.Tx, subject string, now time.Time) ([]authn.Session, error) {
	p, err := person.Records.Get(tx, subject)
	if err != nil || p.State != person.Active {
		return nil, err
	}
	var out []authn.Session
	ids, err := listed(tx, subject)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		one, err := s.Get(tx, id, now)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if one.Epoch == p.Epoch && one.Subject == subject {
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(a, b authn.Session) int { return a.AuthTime.Compare(b.AuthTime) })
	return out, nil
}

// Count returns how many sessions are kept, up to most.
func Count(tx storage.Tx, most int) (n int, err error) {
	for _, err := range tx.Scan(storage.Range{Prefix: keyRecords.Key(""), Limit: most}) { // each has one
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
