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

// ActiveOf returns those of some sessions that are live, of persons who can sign in, in their order. It reads all of
// them at once.
func (s *Service) ActiveOf(tx storage.Tx, ids []string, now time.Time) (list []Session, err error) {
	return s.unendedOf(tx, ids, now, s.counts)
}

// UnendedOf is ActiveOf for who ends the sessions. It also returns those that do not count now, and would count again.
func (s *Service) UnendedOf(tx storage.Tx, ids []string, now time.Time) (list []Session, err error) {
	return s.unendedOf(tx, ids, now, func(storage.Tx, *Record) (bool, error) { return true, nil })
}

// One returns the only session of a list, or storage.ErrNotFound for an empty one.
func One(found []Session, err error) (Session, error) {
	if err != nil {
		return Session{}, err
	}
	if len(found) == 0 {
		return Session{}, storage.ErrNotFound
	}
	return found[0], nil
}

func (s *Service) unendedOf(tx storage.Tx, ids []string, now time.Time, which func(storage.Tx, *Record) (bool, error)) (list []Session,
	err error,
) {
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
		wanted, err := which(tx, &rec)
		if err != nil {
			return nil, err
		}
		if wanted && s.alive(rec, global, now) {
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
