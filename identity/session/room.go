package session

import (
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Room for one more session of a person. The list says of each session what was known of it when it was last read:
// that it was used since can only let it live longer. So a session that seems to have ended, or to be the one that was
// not used for longest, is read before it makes room, and the others are not.

// makeRoom ends sessions of a person until their list has room for one more: those that have ended by themselves, and
// one that is still good, which it returns. The caller writes the list.
func (s *Service) makeRoom(tx storage.Tx, personID string, list *listRecord, global int64, now time.Time) (*Current, error) {
	if len(list.Sessions) < s.cfg.PerPerson {
		return nil, nil //nolint:nilnil // there is room
	}
	p, err := person.Records.Get(tx, personID)
	if err != nil {
		return nil, err
	}
	for len(list.Sessions) >= s.cfg.PerPerson {
		at, seemsDead := list.candidate(p.Epoch, global, now)
		id := list.Sessions[at]
		rec, found, err := Records.Find(tx, id)
		switch {
		case err != nil:
			return nil, err
		case !found: // it was collected, and what others keep of it was not
			if err := s.deps.Person.Watcher().SessionEnded(tx, personID, id); err != nil {
				return nil, err
			}
			list.remove(id)
			continue
		case rec.PersonID != personID:
			list.remove(id)
			continue
		}
		known := s.knownOf(rec)
		good := s.alive(rec, global, now) && rec.Epoch == p.Epoch
		if good && (seemsDead || !known.same(list.Known[at])) {
			list.Known[at] = known
			continue
		}
		if err := s.endUnlisted(tx, id, rec); err != nil {
			return nil, err
		}
		list.remove(id)
		if good {
			return &Current{ID: id, Session: rec, Person: p}, nil
		}
	}
	return nil, nil //nolint:nilnil // there is room
}

// knownOf returns the data of a session for a list.
func (s *Service) knownOf(rec Record) knownRecord {
	return knownRecord{Seen: rec.Seen.UnixMicro(), Ends: s.ends(rec).UnixMicro(), Epoch: rec.Epoch, Global: rec.Global}
}

// same reports whether nothing was learned. A stored time can differ from the one that was stored by its rounding.
func (k knownRecord) same(other knownRecord) bool {
	const rounding = 1000 // microseconds
	near := func(a, b int64) bool { return a-b < rounding && b-a < rounding }
	return k.Epoch == other.Epoch && k.Global == other.Global && near(k.Seen, other.Seen) && near(k.Ends, other.Ends)
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
