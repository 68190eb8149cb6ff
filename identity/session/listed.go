package session

import (
	"github.com/gatehouse-id/gatehouse/storage"
)

// The sessions of a person are one record, which a sign-in reads by its key. With a key for each session, every session
// that had made room left a mark that each later scan passed inside the writer, so one account which signed in again
// and again slowed the writes of all. (docs/decisions/sign-in.md#sessions)

// listed returns the ids of the stored sessions of a person; some can have ended.
func listed(tx storage.Tx, personID string) ([]string, error) {
	list, _, err := lists.Find(tx, personID)
	return list.Sessions, err
}

// unlist takes sessions out of the list of their person.
func unlist(tx storage.Tx, personID string, ids ...string) error {
	list, found, err := lists.Find(tx, personID)
	if err != nil || !found {
		return err
	}
	list.remove(ids...)
	return lists.Put(tx, personID, list, list.Ends)
}
