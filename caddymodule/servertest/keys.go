package servertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// KeyPair returns a key pair as the certificates operations take it, whose certificate lasts this long.
func KeyPair(t *testing.T, name string, lasts time.Duration) map[string]string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return KeyPairOf(t, name, "EC", key, lasts)
}

// KeyPairOf returns a key pair with this key.
func KeyPairOf(t *testing.T, name, kind string, key crypto.Signer, lasts time.Duration) map[string]string {
	t.Helper()
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lasts),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	armor := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return map[string]string{
		"name": name, "key_type": kind, "private_key": armor("PRIVATE KEY", private), "public_key": armor("CERTIFICATE", cert),
	}
}
