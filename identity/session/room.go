package session

import (
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Room for one more session of a person. The list says of each session what was known of it when it was last read:
// that it was used since can only let it live longer. So a session that seems to have ended, or to be the one that was
// not used for longest, is read before it makes room, and the others are not.

// makeRoom ends sessions of a person until there is room for one more: those that have ended by themselves, and one
// that is still good, which it returns. Stores of earlier versions can hold more; then the number does not grow.
func (s *Service) makeRoom(tx storage.Tx, personID string, global int64, now time.Time) (*Current, error) {
	list, err := s.move(tx, personID)
	if err != nil || len(list.Sessions) < s.cfg.PerPerson {
		return nil, err
	}
	p, err := person.Records.Get(tx, personID)
	if err != nil {
		return nil, err
	}
	list.align()
	learned := false // something about sessions that stay, which End does not write
	for len(list.Sessions) >= s.cfg.PerPerson {
		at, seemsDead := list.candidate(p.Epoch, global, now)
		id := list.Sessions[at]
		rec, found, err := Records.Find(tx, id)
		switch {
		case err != nil:
			return nil, err
		case !found || rec.PersonID != personID:
			list.remove(id)
			learned = true
			continue
		}
		known := s.knownOf(rec)
		good := s.alive(rec, global, now) && rec.Epoch == p.Epoch
		if good && (seemsDead || known != list.Known[at]) {
			list.Known[at] = known
			learned = true
			continue
		}
		if learned {
			if err := lists.Put(tx, personID, list, list.Ends); err != nil {
				return nil, err
			}
			learned = false
		}
		if err := s.End(tx, id, rec); err != nil {
			return nil, err
		}
		list.remove(id) // as End has done in the store
		if good {
			return &Current{ID: id, Session: rec, Person: p}, nil
		}
	}
	if !learned {
		return nil, nil //nolint:nilnil // there is room
	}
	return nil, lists.Put(tx, personID, list, list.Ends)
}

// knownOf is what a list says of a session.
func (s *Service) knownOf(rec Record) knownRecord {
	return knownRecord{Seen: rec.Seen.UnixMicro(), Ends: s.ends(rec).UnixMicro(), Epoch: rec.Epoch, Global: rec.Global}
}

// candidate returns the session that makes room first by what is known: one that seems to have ended, else the one that
// was not used for longest.
func (l *listRecord) candidate(epoch, global int64, now time.Time) (at int, seemsDead bool) {
	for i, k := range l.Known {
		if k.Ends < now.UnixMicro() || k.Epoch != epoch || k.Global != global {
			return i, true
		}
		if k.Seen < l.Known[at].Seen {
			at = i
		}
	}
	return at, false
}

// align gives a list of an earlier version room for what is known.
func (l *listRecord) align() {
	if len(l.Known) != len(l.Sessions) {
		l.Known = make([]knownRecord, len(l.Sessions))
	}
}
