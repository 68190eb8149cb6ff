package keystore

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	ownKeyBits  = 3072
	ownKeyYears = 10
)

// own returns Gatehouse's own key pair, and makes it when storage holds none. When several nodes make one at once, the
// first to be stored counts.
func (s *Service) own(ctx context.Context) (*Material, error) {
	rec, err := s.storedOwn(ctx)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		s.making.Lock()
		defer s.making.Unlock()
		if rec, err = s.storedOwn(ctx); err != nil {
			return nil, err
		}
	}
	if rec == nil {
		if rec, err = s.makeOwn(ctx); err != nil {
			return nil, fmt.Errorf("make a key pair: %w", err)
		}
	}
	return s.material("", *rec)
}

// storedOwn returns nil when storage holds none.
func (s *Service) storedOwn(ctx context.Context) (found *record, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		found = nil
		rec, ok, err := ownKeys.Find(tx, ownKey)
		if ok {
			found = &rec
		}
		return err
	})
	return found, err
}

func (s *Service) makeOwn(ctx context.Context) (*record, error) {
	key, err := rsa.GenerateKey(s.random, ownKeyBits)
	if err != nil {
		return nil, err
	}
	public, ends, err := s.selfSigned(pkix.Name{CommonName: "Gatehouse"}, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	rec := record{Type: RSA, Public: public, Certificate: true, NotAfter: ends}
	if rec.Private, err = s.keyring.Seal(sealPurpose(""), private); err != nil {
		return nil, err
	}
	made := rec
	// Making it takes seconds on a busy machine, so it is kept even if the request has ended: the next one needs it.
	err = s.store.Update(context.WithoutCancel(ctx), func(tx storage.Tx) error {
		made = rec
		err := ownKeys.Create(tx, ownKey, rec, time.Time{})
		if errors.Is(err, storage.ErrExists) {
			made, err = ownKeys.Get(tx, ownKey)
		}
		return err
	})
	return &made, err
}
