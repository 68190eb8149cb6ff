package settings

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// upkeep is the interval at which Run looks at the certificates.
const upkeep = time.Hour

// Run logs the certificates that end soon, every hour until ctx ends. Failures are logged and tried again.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(upkeep)
	defer tick.Stop()
	for {
		if err := s.keyPairs.ReportExpiries(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("certificates not looked at", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Reseal seals secrets and private keys with the current key of the keyring where an older one has sealed them, so the
// older key can be removed from the Caddyfile. What no key opens stays as it is; left counts it.
func (s *Service) Reseal(ctx context.Context) (left int, err error) {
	if left, err = s.resealSecrets(ctx); err != nil {
		return left, err
	}
	if err := s.forgetOlder(ctx); err != nil {
		return left, err
	}
	more, err := s.keyPairs.Reseal(ctx)
	return left + more, err
}

// resealSecrets does it for the secrets of the units. It makes no new version.
func (s *Service) resealSecrets(ctx context.Context) (left int, err error) {
	const name = "login_methods"
	var (
		rec    unitRecord
		stored bool
	)
	err = s.store.View(ctx, func(tx storage.Tx) (err error) {
		rec, stored, err = units.Find(tx, name)
		return err
	})
	if err != nil || !stored {
		return 0, err
	}
	fresh := maps.Clone(rec.Secrets)
	changed := false
	for key, sealed := range rec.Secrets {
		if s.keyring.IsCurrent(sealed) {
			continue
		}
		plain, err := s.keyring.Open(sealPurpose(key), sealed)
		if err != nil { // which is logged when it is read
			left++
			continue
		}
		if fresh[key], err = s.keyring.Seal(sealPurpose(key), plain); err != nil {
			return left, err
		}
		changed = true
	}
	if !changed {
		return left, nil
	}
	return left, s.store.Update(ctx, func(tx storage.Tx) error {
		now, err := units.Get(tx, name)
		if err != nil || now.Revision != rec.Revision { // changed meanwhile, and sealed by that
			return err
		}
		now.Secrets = fresh
		return units.Put(tx, name, now, time.Time{})
	})
}
