package jwa

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/go-jose/go-jose/v4"
)

// The bounds of an RSA key that others publish: a longer one takes too long.
const minRSA, maxRSA = 2048, 8192

// ReadVerifying reads a key of a set that others publish. ok: it is a public key for signatures. Others are ignored, as
// RFC 7517 5 says.
func ReadVerifying(raw []byte) (key jose.JSONWebKey, ok bool) {
	key, err := ReadKey(raw)
	if err != nil || !IsValid(&key) || !IsPublic(&key) || key.Use != "" && key.Use != "sig" {
		return key, false
	}
	r, isRSA := key.Key.(*rsa.PublicKey)
	return key, !isRSA || r.N.BitLen() >= minRSA && r.N.BitLen() <= maxRSA && r.E >= 3
}

// ReadKey reads a JSON Web Key. A certificate that cannot be read (x5c) does not matter where the key itself is there
// too (RFC 7517 4.7): Go reads certificates as TLS needs them, and refuses a negative serial number, for example. The
// key then keeps the thumbprint of the certificate, so it never stands for another one.
func ReadKey(raw []byte) (key jose.JSONWebKey, err error) {
	err = json.Unmarshal(raw, &key)
	if err == nil {
		return key, nil
	}
	var members map[string]any
	if json.Unmarshal(raw, &members) == nil && members["kty"] == typeAKP {
		return readAKP(raw)
	}
	if members == nil || members["x5c"] == nil {
		return jose.JSONWebKey{}, err
	}
	var der []byte
	if chain, ok := members["x5c"].([]any); ok && len(chain) > 0 {
		text, _ := chain[0].(string)
		der, _ = base64.StdEncoding.DecodeString(text) // what is not base64 has the thumbprint of no certificate
	}
	for _, name := range []string{"x5c", "x5t", "x5t#S256", "x5u"} {
		delete(members, name)
	}
	plain, failed := json.Marshal(members)
	if failed != nil {
		return jose.JSONWebKey{}, err
	}
	key = jose.JSONWebKey{}
	if json.Unmarshal(plain, &key) != nil {
		return jose.JSONWebKey{}, err
	}
	sum := sha256.Sum256(der)
	key.CertificateThumbprintSHA256 = sum[:]
	return key, nil
}
