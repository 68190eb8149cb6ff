package session

import (
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// All returns live sessions of all persons in the order of their ids, which is random, past after. next is the value of
// after for the following part, empty at the end. A part can hold fewer sessions than most, since records of sessions
// that have ended are passed over.
func (s *Service) All(tx storage.Tx, after string, most int, now time.Time) (list []Session, next string, err error) {
	r := storage.Range{Limit: most}
	if after != "" {
		r.After = []byte(after)
	}
	var ids []string
	for e, err := range Records.Scan(tx, r) {
		if err != nil {
			return nil, "", err
		}
		ids = append(ids, e.Key)
	}
	if len(ids) == most && most > 0 {
		next = ids[most-1]
	}
	list, err = s.ActiveOf(tx, ids, now)
	return list, next, err
}

// OfActive returns a live session of a person who can sign in, or storage.ErrNotFound.
func (s *Service) OfActive(tx storage.Tx, id string, now time.Time) (Session, error) {
	found, err := s.ActiveOf(tx, []string{id}, now)
	if err != nil {
		return Session{}, err
	}
	if len(found) == 0 {
		return Session{}, storage.ErrNotFound
	}
	return found[0], nil
}

// ActiveOf returns those of some sessions that are live, of persons who can sign in, in their order. It reads all of
// them at once.
func (s *Service) ActiveOf(tx storage.Tx, ids []string, now time.Time) (list []Session, err error) {
	global, err := GlobalEpoch(tx)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = Records.Key(id)
	}
	found, err := tx.GetMany(keys...)
	if err != nil {
		return nil, err
	}
	var whose [][]byte
	for i, raw := range found {
		if raw == nil {
			continue
		}
		rec, err := Records.Decode(raw)
		if err != nil {
			return nil, err
		}
		counts, err := s.counts(tx, &rec)
		if err != nil {
			return nil, err
		}
		if counts && s.alive(rec, global, now) {
			list, whose = append(list, Session{ids[i], rec}), append(whose, person.Records.Key(rec.PersonID))
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	if found, err = tx.GetMany(whose...); err != nil {
		return nil, err
	}
	live := list[:0]
	for i, raw := range found {
		if raw == nil {
			continue
		}
		p, err := person.Records.Decode(raw)
		if err != nil {
			return nil, err
		}
		if p.State == person.Active && p.Epoch == list[i].Record.Epoch {
			live = append(live, list[i])
		}
	}
	return live, nil
}

// OfPerson returns the live sessions of a person, the one used last first. Someone who cannot sign in has none.
func (s *Service) OfPerson(tx storage.Tx, personID string, now time.Time) ([]Session, error) {
	p, found, err := person.Records.Find(tx, personID)
	if err != nil || !found || p.State != person.Active {
		return nil, err
	}
	return s.OpenSessions(tx, personID, p.Epoch, now)
}
