package keystore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// sealedEntry is a record whose private key was sealed with an older key of the keyring.
type sealedEntry struct {
	table storage.Table[record]
	key   string // in the table
	id    string
	rec   record
}

// Reseal seals private keys with the current key of the keyring where an older one has sealed them, so the older key
// can be removed from the Caddyfile. A private key that no key opens is logged and left alone; left counts the records.
func (s *Service) Reseal(ctx context.Context) (left int, err error) {
	var old []sealedEntry
	err = s.store.View(ctx, func(tx storage.Tx) (err error) {
		old, err = s.sealedByOlderKeys(tx)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, o := range old {
		next, err := s.sealed(o.id, o.rec)
		if errors.Is(err, errUnopened) {
			s.log.Error("a key pair cannot be opened: is encryption_key the one that sealed it?", zap.String("key_pair", o.rec.Name), zap.Error(err))
			left++
			continue
		}
		if err != nil {
			return left, err
		}
		err = s.store.Update(ctx, func(tx storage.Tx) error {
			now, err := o.table.Get(tx, o.key)
			if err != nil || !now.same(o.rec) { // changed or removed meanwhile
				return err
			}
			return o.table.Put(tx, o.key, next, time.Time{})
		})
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return left, err
		}
	}
	return left, nil
}

// errUnopened says that no key of the keyring opens a private key.
var errUnopened = errors.New("no encryption key opens it")

// sealed is a record whose private keys are sealed with the current key.
func (s *Service) sealed(id string, rec record) (record, error) {
	seal := func(old []byte) ([]byte, error) {
		private, err := s.keyring.Open(sealPurpose(id), old)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnopened, err)
		}
		return s.keyring.Seal(sealPurpose(id), private)
	}
	var err error
	if rec.Private, err = seal(rec.Private); err != nil {
		return rec, err
	}
	for _, beside := range []**spare{&rec.Next, &rec.Former} {
		if *beside == nil {
			continue
		}
		next := **beside
		if next.Private, err = seal(next.Private); err != nil {
			return rec, err
		}
		*beside = &next
	}
	return rec, nil
}

// isSealedByOlder reports whether an older key has sealed one of the private keys of a record.
func (s *Service) isSealedByOlder(rec record) bool {
	older := func(private []byte) bool { return len(private) > 0 && !s.keyring.IsCurrent(private) }
	return older(rec.Private) || slices.ContainsFunc(rec.spares(), func(b *spare) bool { return older(b.Private) })
}

func (s *Service) sealedByOlderKeys(tx storage.Tx) (old []sealedEntry, err error) {
	look := func(table storage.Table[record], key, id string) error {
		rec, err := table.Get(tx, key)
		if err == nil && s.isSealedByOlder(rec) {
			old = append(old, sealedEntry{table, key, id, rec})
		}
		return err
	}
	if err := look(ownKeys, ownKey, ""); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return nil, err
	}
	for e, err := range keyNames.Scan(tx, storage.Range{}) {
		if err == nil {
			err = look(keyPairs, e.Value, e.Value)
		}
		if err != nil {
			return nil, err
		}
	}
	return old, nil
}
