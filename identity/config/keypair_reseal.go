package config

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Reseal seals the private keys, and the secrets of the units, anew that an older key of the keyring has sealed, so that it can leave the configuration. What none of them opens is
// logged and left.
func (s *Service) Reseal(ctx context.Context) error {
	if err := s.resealSecrets(ctx); err != nil {
		return err
	}
	type entry struct {
		of  storage.Table[keyPairRecord]
		key string // in the table
		id  string
		rec keyPairRecord
	}
	var old []entry
	err := s.Store.View(ctx, func(tx storage.Tx) error {
		old = nil
		look := func(of storage.Table[keyPairRecord], key, id string) error {
			rec, err := of.Get(tx, key)
			if err == nil && len(rec.Private) > 0 && !s.Keyring.IsCurrent(rec.Private) {
				old = append(old, entry{of, key, id, rec})
			}
			return err
		}
		if err := look(ownKeys, ownKey, ""); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		for e, err := range keyNames.Scan(tx, storage.Range{}) {
			if err == nil {
				err = look(keyPairs, e.Value, e.Value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, o := range old {
		private, err := s.Keyring.Open(keyPurpose(o.id), o.rec.Private)
		if err != nil {
			s.Log.Error("a key pair cannot be opened: is encryption_key the one that sealed it?", zap.String("key_pair", o.rec.Name), zap.Error(err))
			continue
		}
		next := o.rec
		if next.Private, err = s.Keyring.Seal(keyPurpose(o.id), private); err != nil {
			return err
		}
		err = s.Store.Update(ctx, func(tx storage.Tx) error {
			now, err := o.of.Get(tx, o.key)
			if err != nil || !now.same(o.rec) { // somebody has changed or removed it
				return err
			}
			return o.of.Put(tx, o.key, next, time.Time{})
		})
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return nil
}
