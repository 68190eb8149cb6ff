package token

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// The grants that a client has of a person are one record, which a new grant reads by its key. With a key for each
// grant, every grant that had made room left a mark that each later scan passed inside the writer, so that one account
// which signed in again and again slowed the writes of all. (docs/decisions/tokens.md#grants)
//
// Earlier versions had a key for each. Such a list is moved when a grant is added to it or all are dropped. Until then
// it is read where it is.

// findEarlier tells whether the store has lists of earlier versions. No server of this version makes one, so a store
// without any is not asked again.
func findEarlier(ctx context.Context, store storage.Store) (found bool, err error) {
	err = store.View(ctx, func(tx storage.Tx) error {
		found = false
		for _, err := range grantsOf.Scan(tx, storage.Range{Limit: 1}) {
			if err != nil {
				return err
			}
			found = true
		}
		return nil
	})
	return found, err
}

// takeHeld returns the grants that a client has of a person, the oldest first, of which the caller writes a new list. A
// list of an earlier version is removed.
func (l *Ledger) takeHeld(tx storage.Tx, subject, clientID string) ([]heldGrant, error) {
	list, found, err := heldGrants.Find(tx, storage.Key(subject, clientID))
	if err != nil || found || !l.global.earlier.Load() {
		return list.Held, err
	}
	all, err := earlierHeld(tx, storage.Prefix(subject, clientID))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	for _, id := range all[0].keys {
		if err := grantsOf.Delete(tx, storage.Key(subject, clientID, id)); err != nil {
			return nil, err
		}
	}
	return all[0].held, nil
}

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

// unlist takes a grant out of the list of its person and client, wherever that is.
func unlist(tx storage.Tx, subject, clientID, id string) error {
	list, found, err := heldGrants.Find(tx, storage.Key(subject, clientID))
	if err != nil {
		return err
	}
	if !found {
		return grantsOf.Delete(tx, storage.Key(subject, clientID, id))
	}
	return putHeld(tx, subject, clientID, slices.DeleteFunc(list.Held, func(h heldGrant) bool { return h.ID == id }))
}

// clientGrants are the grants that one client has of a person, the oldest first.
type clientGrants struct {
	client string
	held   []heldGrant
	keys   []string // ids in the list of an earlier version; some can have ended
}

// heldBy returns the grants of a person by client.
func (l *Ledger) heldBy(tx storage.Tx, person string) (all []clientGrants, err error) {
	for e, err := range heldGrants.Scan(tx, storage.Range{Prefix: storage.Prefix(person)}) {
		if err != nil {
			return nil, err
		}
		all = append(all, clientGrants{client: storage.Parts(e.Key)[1], held: e.Value.Held})
	}
	if !l.global.earlier.Load() {
		return all, nil
	}
	earlier, err := earlierHeld(tx, storage.Prefix(person))
	if err != nil {
		return nil, err
	}
	all = append(all, earlier...) // a client is in one of the two
	slices.SortFunc(all, func(a, b clientGrants) int { return strings.Compare(a.client, b.client) })
	return all, nil
}

// earlierHeld reads the lists of earlier versions.
func earlierHeld(tx storage.Tx, prefix []byte) (all []clientGrants, err error) {
	for e, err := range grantsOf.Scan(tx, storage.Range{Prefix: prefix}) {
		if err != nil {
			return nil, err
		}
		parts := storage.Parts(e.Key)
		if len(all) == 0 || all[len(all)-1].client != parts[1] {
			all = append(all, clientGrants{client: parts[1]})
		}
		c := &all[len(all)-1]
		c.keys = append(c.keys, parts[2])
		g, found, err := grants.Find(tx, parts[2])
		if err != nil {
			return nil, err
		}
		if found {
			c.held = append(c.held, heldGrant{ID: parts[2], Session: g.SessionID, ExpiresAt: g.ExpiresAt})
		}
	}
	return all, nil
}
