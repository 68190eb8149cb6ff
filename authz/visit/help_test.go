package visit_test

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

var earlierLogouts = storage.NewTable[struct{}]("authz_logout")

// putEarlierLogout stores a logout token as versions before the outbox did, after two tries.
func putEarlierLogout(tx storage.Tx, person, session, clientID string, due time.Time) error {
	type record struct {
		DueAt time.Time `cbor:"1,keyasint,omitempty"`
		Tries int       `cbor:"2,keyasint,omitempty"`
	}
	table := storage.NewTable[record]("authz_logout")
	return table.Put(tx, storage.Key(person, session, clientID), record{due, 2}, time.Time{})
}

// countEarlierLogouts returns how many of those records there are.
func countEarlierLogouts(ctx context.Context, store storage.Store) (n int, err error) {
	err = store.View(ctx, func(tx storage.Tx) error {
		n = 0
		for _, err := range earlierLogouts.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}
