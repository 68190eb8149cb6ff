package session

import (
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// All returns live sessions of all persons in the order of their ids, which is random, from behind after. next is the
// value of after for the following part, empty at the end. A part can hold fewer sessions than most, since records of
// sessions that have ended are passed over.
func (s *Service) All(tx storage.Tx, after string, most int, now time.Time) (list []Session, next string, err error) {
	r := storage.Range{Limit: most}
	if after != "" {
		r.After = []byte(after)
	}
	read := 0
	for e, err := range Records.Scan(tx, r) {
		if err != nil {
			return nil, "", err
		}
		read++
		next = e.Key
		one, err := s.OfActive(tx, e.Key, now)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		list = append(list, one)
	}
	if read < most {
		next = ""
	}
	return list, next, nil
}

// OfActive returns a live session of a person who can sign in, or storage.ErrNotFound.
func (s *Service) OfActive(tx storage.Tx, id string, now time.Time) (Session, error) {
	rec, err := s.Live(tx, id, now)
	if err != nil {
		return Session{}, err
	}
	p, err := person.Records.Get(tx, rec.PersonID)
	if err == nil && (p.State != person.Active || p.Epoch != rec.Epoch) {
		err = storage.ErrNotFound
	}
	return Session{id, rec}, err
}

// OfPerson returns the live sessions of a person, the one used last first. Somebody who cannot sign in has none.
func (s *Service) OfPerson(tx storage.Tx, personID string, now time.Time) ([]Session, error) {
	p, found, err := person.Records.Find(tx, personID)
	if err != nil || !found || p.State != person.Active {
		return nil, err
	}
	return s.OpenSessions(tx, personID, p.Epoch, now)
}
