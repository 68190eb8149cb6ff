package config

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	ownKeyBits  = 3072
	ownKeyYears = 10
)

// ownPair returns Gatehouse's own key pair, and makes it when storage holds none. Of several that are made at once, by other nodes too, one counts.
func (s *Service) ownPair(ctx context.Context) (*KeyMaterial, error) {
	rec, err := s.storedOwnPair(ctx)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		s.pairs.making.Lock()
		defer s.pairs.making.Unlock()
		if rec, err = s.storedOwnPair(ctx); err != nil {
			return nil, err
		}
	}
	if rec == nil {
		if rec, err = s.makeOwnPair(ctx); err != nil {
			return nil, fmt.Errorf("make a key pair: %w", err)
		}
	}
	return s.material("", *rec)
}

func (s *Service) storedOwnPair(ctx context.Context) (found *keyPairRecord, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		found = nil
		rec, err := ownKeys.Get(tx, ownKey)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		found = &rec
		return err
	})
	return found, err
}

func (s *Service) makeOwnPair(ctx context.Context) (*keyPairRecord, error) {
	key, err := rsa.GenerateKey(s.Random, ownKeyBits)
	if err != nil {
		return nil, err
	}
	serial, err := s.nonce() // RFC 5280 4.1.2.2: a positive number of at most 20 octets
	if err != nil {
		return nil, err
	}
	now := s.Now()
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(append([]byte{1}, serial...)), Subject: pkix.Name{CommonName: "Gatehouse"},
		NotBefore: now.Add(-time.Hour).UTC(), NotAfter: now.AddDate(ownKeyYears, 0, 0).UTC(),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(s.Random, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	rec := keyPairRecord{Type: KeyRSA, Public: public, Certificate: true, NotAfter: template.NotAfter}
	if rec.Private, err = s.Keyring.Seal(keyPurpose(""), private); err != nil {
		return nil, err
	}
	made := rec
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		made = rec
		err := ownKeys.Create(tx, ownKey, rec, time.Time{})
		if errors.Is(err, storage.ErrExists) {
			made, err = ownKeys.Get(tx, ownKey)
		}
		return err
	})
	return &made, err
}
