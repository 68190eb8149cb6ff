package session

import (
	"github.com/gatehouse-id/gatehouse/storage"
)

// The sessions of a person are one record, which a sign-in reads by its key. With a key for each session, every session
// that had made room left a mark that each later scan passed inside the writer, so that one account which signed in
// again and again slowed the writes of all. (docs/decisions/sign-in.md#sessions)
//
// Earlier versions had a key for each. They are moved when a session is added or makes room, and read where they are
// until then.

// listed returns the ids of the stored sessions of a person; some can have ended.
func listed(tx storage.Tx, personID string) ([]string, error) {
	list, found, err := lists.Find(tx, personID)
	if err != nil || found {
		return list.Sessions, err
	}
	return listedBefore(tx, personID, 0)
}

// listedBefore reads the keys of earlier versions, all of them or up to most.
func listedBefore(tx storage.Tx, personID string, most int) (ids []string, err error) {
	for e, err := range recordsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID), Limit: most}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, storage.Parts(e.Key)[1])
	}
	return ids, nil
}

// move returns the list of a person, which the caller writes. Keys of an earlier version become a list.
func (s *Service) move(tx storage.Tx, personID string) (listRecord, error) {
	list, found, err := lists.Find(tx, personID)
	if err != nil || found {
		return list, err
	}
	ids, err := listedBefore(tx, personID, 0)
	if err != nil || len(ids) == 0 {
		return list, err
	}
	for _, id := range ids {
		if err := recordsOf.Delete(tx, storage.Key(personID, id)); err != nil {
			return list, err
		}
		rec, found, err := Records.Find(tx, id)
		if err != nil {
			return list, err
		}
		if found && rec.PersonID == personID {
			list.add(id, s.knownOf(rec), s.Collect(rec))
		}
	}
	return list, nil
}

// unlist takes sessions out of the list of their person, wherever that is.
func unlist(tx storage.Tx, personID string, ids ...string) error {
	list, found, err := lists.Find(tx, personID)
	if err != nil {
		return err
	}
	if !found {
		for _, id := range ids {
			if err := recordsOf.Delete(tx, storage.Key(personID, id)); err != nil {
				return err
			}
		}
		return nil
	}
	list.remove(ids...)
	return lists.Put(tx, personID, list, list.Ends)
}
