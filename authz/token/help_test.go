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
