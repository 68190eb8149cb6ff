// Package signaturetest signs, in tests, with what go-jose does not know: the newer name of EdDSA, and ML-DSA.
package signaturetest

import (
	"crypto"
	"crypto/ed25519"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// Key returns what jose signs with: the key itself, but for the newer name and ML-DSA.
func Key(key any, alg jose.SignatureAlgorithm) any {
	switch k := key.(type) {
	case ed25519.PrivateKey:
		if alg == jwa.Ed25519 {
			return signer(k)
		}
	case crypto.Signer:
		return jwa.Signer(k)
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
