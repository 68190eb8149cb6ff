// Package signaturetest signs, in tests, with the newer name of EdDSA, which go-jose does not know.
package signaturetest

import (
	"crypto/ed25519"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// Key returns what jose signs with: the key itself, but for the newer name.
func Key(key any, alg jose.SignatureAlgorithm) any {
	if k, ok := key.(ed25519.PrivateKey); ok && alg == jwa.Ed25519 {
		return signer(k)
	}
	return key
}

// signer implements jose.OpaqueSigner.
type signer ed25519.PrivateKey

func (s signer) Public() *jose.JSONWebKey {
	return &jose.JSONWebKey{Key: ed25519.PrivateKey(s).Public()}
}

func (signer) Algs() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jwa.Ed25519}
}

func (s signer) SignPayload(payload []byte, _ jose.SignatureAlgorithm) ([]byte, error) {
	return ed25519.Sign(ed25519.PrivateKey(s), payload), nil
}
