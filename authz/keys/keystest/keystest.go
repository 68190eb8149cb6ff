// Package keystest puts signing keys into the stores of tests. Making an RSA key takes longer than most tests.
package keystest

import (
	"context"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

var (
	mu      sync.Mutex                      // guards planted
	planted = map[string][]storage.Record{} // by keyrings
)

// Plant puts signing keys into a store without any. A test binary makes them once for each keyring, so the clock
// must show about the same time at each call.
func Plant(store storage.Store, keyring *secret.Keyring, now func() time.Time) error {
	records, err := sharedKeys(keyring, now)
	if err != nil {
		return err
	}
	return store.Update(context.Background(), func(tx storage.Tx) error {
		for _, err := range tx.Scan(storage.Range{Prefix: []byte("authz_key/"), Limit: 1}) {
			return err // it has keys of its own
		}
		for _, rec := range records {
			if err := tx.Put(rec.Key, rec.Value, time.Time{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func sharedKeys(keyring *secret.Keyring, now func() time.Time) ([]storage.Record, error) {
	mu.Lock()
	defer mu.Unlock()
	of := string(keyring.Derive("the keys of tests"))
	if _, made := planted[of]; !made {
		records, err := makeKeys(keyring, now)
		if err != nil {
			return nil, err
		}
		planted[of] = records
	}
	return planted[of], nil
}

func makeKeys(keyring *secret.Keyring, now func() time.Time) (records []storage.Record, err error) {
	store, err := badgerstore.OpenMemory()
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // in memory
	ctx := context.Background()
	if _, err := keys.New(ctx, store, keyring, now, nil, nil); err != nil {
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
