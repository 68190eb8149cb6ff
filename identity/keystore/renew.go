package keystore

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/mldsa"
)

// successor makes a record with new keys.
func (s *Service) successor(id string, old record) (record, error) {
	next := record{Name: old.Name, Type: old.Type, Certificate: old.Certificate}
	m, err := s.open(id, old)
	if err != nil {
		return next, err
	}
	var signer crypto.Signer
	switch key := m.PublicKey.(type) {
	case *rsa.PublicKey:
		signer, err = rsa.GenerateKey(s.random, key.N.BitLen())
	case *ecdsa.PublicKey:
		signer, err = ecdsa.GenerateKey(key.Curve, s.random)
	case *mldsa.PublicKey:
		signer, err = mldsa.GenerateKey(key.Parameters())
	default:
		err = errors.New("no key of this type can be made")
	}
	if err != nil {
		return next, err
	}
	if next.Certificate {
		next.Public, next.NotAfter, err = s.selfSigned(m.Certificate.Subject, signer)
	} else {
		next.Public, err = mldsa.MarshalPKIXPublicKey(signer.Public())
	}
	if err != nil {
		return next, err
	}
	private, err := mldsa.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return next, err
	}
	next.Private, err = s.keyring.Seal(sealPurpose(id), private)
	return next, err
}

// selfSigned returns a certificate of ten years for a key, and when it ends.
func (s *Service) selfSigned(subject pkix.Name, key crypto.Signer) (der []byte, ends time.Time, err error) {
	serial := make([]byte, 17)
	if _, err := io.ReadFull(s.random, serial[1:]); err != nil {
		return nil, ends, err
	}
	serial[0] = 1 // RFC 5280 4.1.2.2: a positive number of at most 20 octets
	now := s.now()
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: subject,
		NotBefore: now.Add(-time.Hour).UTC(), NotAfter: now.AddDate(ownKeyYears, 0, 0).UTC(),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, BasicConstraintsValid: true,
	}
	der, err = x509.CreateCertificate(s.random, template, template, key.Public(), key)
	return der, template.NotAfter, err
}
