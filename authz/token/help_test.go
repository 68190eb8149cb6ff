package token_test

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

var uses = storage.NewTable[struct{}]("authz_access_use")

// loseUses removes the count of uses of an access token, as a damaged store would.
func loseUses(ctx context.Context, store storage.Store, text string) error {
	return store.Update(ctx, func(tx storage.Tx) error { return uses.Delete(tx, secret.Hash(text)) })
}

// forgetAlgorithms makes a store one of an earlier version, which kept no algorithm of access tokens.
func forgetAlgorithms(ctx context.Context, store storage.Store) error {
	type clientRecord struct {
		Client    []byte    `cbor:"1,keyasint"`
		CreatedAt time.Time `cbor:"2,keyasint"`
	}
	clients := storage.NewTable[clientRecord]("authz_client")
	return store.Update(ctx, func(tx storage.Tx) error {
		for rec, err := range tx.Scan(storage.Range{Prefix: []byte("authz_client_alg/")}) {
			if err != nil {
				return err
			}
			if err := tx.Delete(rec.Key); err != nil {
				return err
			}
		}
		for e, err := range clients.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if err := clients.Put(tx, e.Key, e.Value, time.Time{}); err != nil {
				return err
			}
		}
		return nil
	})
}

type heldList struct {
	Held []struct {
		ID        string    `cbor:"1,keyasint"`
		Session   string    `cbor:"2,keyasint,omitempty"`
		ExpiresAt time.Time `cbor:"3,keyasint"`
	} `cbor:"1,keyasint,omitempty"`
}

type listedGrant struct {
	Session string `cbor:"1,keyasint,omitempty"`
}

var heldGrants = storage.NewTable[heldList]("authz_grants")

var grantsOf = storage.NewTable[listedGrant]("authz_grant_of")

// listGrantsAsBefore stores the lists of grants as versions before did: a key for each grant.
func listGrantsAsBefore(ctx context.Context, store storage.Store) error {
	return store.Update(ctx, func(tx storage.Tx) error {
		for e, err := range heldGrants.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			of := storage.Parts(e.Key)
			for _, h := range e.Value.Held {
				if err := grantsOf.Put(tx, storage.Key(of[0], of[1], h.ID), listedGrant{h.Session}, h.ExpiresAt); err != nil {
					return err
				}
			}
			if err := heldGrants.Delete(tx, e.Key); err != nil {
				return err
			}
		}
		return nil
	})
}

// grantsListedAsBefore returns how many keys listGrantsAsBefore has left of a person and client.
func grantsListedAsBefore(ctx context.Context, store storage.Store, person, clientID string) (n int, err error) {
	err = store.View(ctx, func(tx storage.Tx) error {
		n = 0
		for _, err := range grantsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(person, clientID)}) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}
