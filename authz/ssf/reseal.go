package ssf

import (
	"bytes"
	"context"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Reseal seals the authorization headers of streams with the first key of the keyring where an older one has sealed
// them. What no key opens stays as it is; left counts it.
func (s *Service) Reseal(ctx context.Context) (left int, err error) {
	var all []storage.Entry[streamRecord]
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		all = nil
		for e, err := range streams.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			all = append(all, e)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, e := range all {
		if len(e.Value.Header) == 0 || s.deps.Keyring.IsCurrent(e.Value.Header) {
			continue
		}
		plain, err := s.deps.Keyring.Open(headerPurpose, e.Value.Header)
		if err != nil {
			left++
			continue
		}
		fresh, err := s.deps.Keyring.Seal(headerPurpose, plain)
		if err != nil {
			return left, err
		}
		err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
			rec, found, err := streams.Find(tx, e.Key)
			if err != nil || !found || !bytes.Equal(rec.Header, e.Value.Header) { // changed or deleted meanwhile
				return err
			}
			rec.Header = fresh
			return streams.Put(tx, e.Key, rec, never)
		})
		if err != nil {
			return left, err
		}
	}
	return left, nil
}
