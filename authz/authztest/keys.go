package authztest

import (
	"context"
	"crypto/rand"
	"io"
	"sync"

	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

var randomReader io.Reader = rand.Reader

// planted are the signing keys of every harness of a test binary: making an RSA key takes longer than most tests.
var planted struct {
	once    sync.Once
	records []storage.Record
	err     error
}

// plantKeys puts the shared signing keys into a store without keys. keyring must be the same each time.
func plantKeys(store storage.Store, keyring *secret.Keyring) error {
	planted.once.Do(func() { planted.records, planted.err = makeKeys(keyring) })
	if planted.err != nil {
		return planted.err
	}
	return store.Update(context.Background(), func(tx storage.Tx) error {
		for _, err := range tx.Scan(storage.Range{Prefix: []byte("authz_key/"), Limit: 1}) {
			return err // it has keys of its own
		}
		for _, rec := range planted.records {
			if err := tx.Put(rec.Key, rec.Value, never); err != nil {
				return err
			}
		}
		return nil
	})
}

func makeKeys(keyring *secret.Keyring) (records []storage.Record, err error) {
	store, err := badgerstore.OpenMemory()
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // in memory
	ctx := context.Background()
	if _, err := keys.New(ctx, store, keyring, NewClock().Now, nil, nil); err != nil {
		return nil, err
	}
	err = store.View(ctx, func(tx storage.Tx) error {
		records = nil
		for rec, err := range tx.Scan(storage.Range{Prefix: []byte("authz_key/")}) {
			if err != nil {
				return err
			}
			records = append(records, rec)
		}
		return nil
	})
	return records, err
}
