package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// ErrUnknown says that there is no signing key of an id.
var ErrUnknown = errors.New("there is no such signing key")

// never is the time of what does not end.
var never time.Time

// signing are those of the keys that sign now.
func signing(list []*signingKey, now time.Time) []*signingKey {
	return slices.DeleteFunc(slices.Clone(list), func(k *signingKey) bool {
		return k.ActiveFrom.After(now) || !k.RetiresAt.IsZero() && !k.RetiresAt.After(now)
	})
}

// Retire takes a key out of use at once, such as one that others may have: it signs nothing more, is not published, and
// what it has signed is not believed here. If no other key of its algorithm signs, its successor does from now on, or a
// new key. also runs in the transaction. Errors: ErrUnknown.
func (k *Keys) Retire(ctx context.Context, id string, also func(tx storage.Tx) error) error {
	key := k.snapshot()[id]
	if key == nil {
		return ErrUnknown
	}
	now := k.now().UTC()
	freshID, sealed, err := k.generate(jose.SignatureAlgorithm(key.Algorithm)) // it may not be needed
	if err != nil {
		return fmt.Errorf("make %s key: %w", key.Algorithm, err)
	}
	err = k.store.Update(ctx, func(tx storage.Tx) error {
		if found, err := signingKeys.Has(tx, id); err != nil {
			return err
		} else if !found {
			return ErrUnknown
		}
		var others []*signingKey
		for e, err := range signingKeys.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if e.Key != id && e.Value.Algorithm == key.Algorithm {
				others = append(others, &signingKey{keyRecord: e.Value, id: e.Key})
			}
		}
		if err := signingKeys.Delete(tx, id); err != nil {
			return err
		}
		newest := newestKey(others, key.Algorithm)
		switch {
		case newest == nil || !newest.RetiresAt.IsZero() && !newest.RetiresAt.After(now):
			if err := signingKeys.Create(tx, freshID, keyRecord{Algorithm: key.Algorithm, Private: sealed, CreatedAt: now, ActiveFrom: now},
				never); err != nil {
				return err
			}
		case newest.ActiveFrom.After(now) && len(signing(others, now)) == 0:
			newest.ActiveFrom = now
			if err := signingKeys.Put(tx, newest.id, newest.keyRecord, never); err != nil {
				return err
			}
		case newest.RetiresAt.After(now): // its successor was the one that goes
			newest.keyRecord.RetiresAt, newest.keyRecord.GoneAt = never, never
			if err := signingKeys.Put(tx, newest.id, newest.keyRecord, never); err != nil {
				return err
			}
		}
		return also(tx)
	})
	if err != nil {
		return err
	}
	k.log.Warn("signing key retired", zap.String("algorithm", key.Algorithm), zap.String("kid", id))
	return k.load(ctx)
}
