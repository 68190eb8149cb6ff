package token

import (
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// The grants that a client has of a person are one record, which a new grant reads by its key. With a key for each
// grant, every grant that had made room left a mark that each later scan passed inside the writer, so one account which
// signed in again and again slowed the writes of all. (docs/decisions/tokens.md#grants)

// putHeld writes the grants that a client has of a person. It lasts as long as the last of them.
func putHeld(tx storage.Tx, subject, clientID string, held []heldGrant) error {
	key := storage.Key(subject, clientID)
	if len(held) == 0 {
		return heldGrants.Delete(tx, key)
	}
	// Ids sort by time. Of two grants at once the earlier one can be written later.
	slices.SortFunc(held, func(a, b heldGrant) int { return strings.Compare(a.ID, b.ID) })
	var ends time.Time
	for _, h := range held {
		if h.ExpiresAt.After(ends) {
			ends = h.ExpiresAt
		}
	}
	return heldGrants.Put(tx, key, heldList{Held: held}, ends.Add(CollectMargin))
}

// unlist takes a grant out of the list of its person and client.
func unlist(tx storage.Tx, subject, clientID, id string) error {
	list, found, err := heldGrants.Find(tx, storage.Key(subject, clientID))
	if err != nil || !found {
		return err
	}
	return putHeld(tx, subject, clientID, slices.DeleteFunc(list.Held, func(h heldGrant) bool { return h.ID == id }))
}

// clientGrants are the grants that one client has of a person, the oldest first.
type clientGrants struct {
	client string
	held   []heldGrant
}

// heldBy returns the grants of a person by client.
func heldBy(tx storage.Tx, person string) (all []clientGrants, err error) {
	for e, err := range heldGrants.Scan(tx, storage.Range{Prefix: storage.Prefix(person)}) {
		if err != nil {
			return nil, err
		}
		all = append(all, clientGrants{client: storage.Parts(e.Key)[1], held: e.Value.Held})
	}
	return all, nil
}
