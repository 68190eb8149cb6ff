package keys

import (
	"bytes"
	"context"
	"fmt"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Reseal seals private keys with the current key of the keyring where an older one has sealed them, and returns how
// many. Until then the older key is needed: no server starts without a key that it can open.
func (k *Keys) Reseal(ctx context.Context) (sealed int, err error) {
	for id, key := range k.snapshot() {
		if k.keyring.IsCurrent(key.Private) {
			continue
		}
		der, err := k.keyring.Open(keyPurpose(id), key.Private)
		if err != nil {
			return sealed, fmt.Errorf("signing key %s: %w", id, err)
		}
		fresh, err := k.keyring.Seal(keyPurpose(id), der)
		if err != nil {
			return sealed, err
		}
		changed := false
		err = k.store.Update(ctx, func(tx storage.Tx) error {
			now, found, err := signingKeys.Find(tx, id)
			changed = err == nil && found && bytes.Equal(now.Private, key.Private)
			if !changed { // another server was faster, or it was collected
				return err
			}
			now.Private = fresh
			return signingKeys.Put(tx, id, now, now.collectAt())
		})
		if err != nil {
			return sealed, err
		}
		if changed {
			sealed++
		}
	}
	if sealed > 0 {
		err = k.load(ctx)
	}
	return sealed, err
}
