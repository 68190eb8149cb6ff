// Package jwa lists the algorithms of JSON Web Signatures (RFC 7518, RFC 8037, RFC 9964) that fit a public key, so a
// key is never used as one of another type. It reads and writes keys.
package jwa

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/mldsa"
)

// Suits reports whether an algorithm fits the kind of a public key, and its curve.
func Suits(key any, alg string) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}[alg] == k.Curve
	case ed25519.PublicKey:
		return Same(alg, string(jose.EdDSA))
	case *mldsa.PublicKey:
		return alg == k.Parameters().String()
	}
	return false
}

// Ed25519 is the newer name of EdDSA with the only curve that keys here have. (RFC 9864 2.2)
const Ed25519 = jose.SignatureAlgorithm("Ed25519")

// Same reports whether two names are of one algorithm.
func Same(a, b string) bool {
	older := func(alg string) string {
		if alg == string(Ed25519) {
			return string(jose.EdDSA)
		}
		return alg
	}
	return older(a) == older(b)
}

// Verifier returns what verifies with a public key, by each name of its algorithm.
func Verifier(key any) any {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return edwards(k)
	case *mldsa.PublicKey:
		return verifier{k}
	}
	return key
}

// edwards implements jose.OpaqueVerifier.
type edwards ed25519.PublicKey

func (k edwards) VerifyPayload(payload, signature []byte, alg jose.SignatureAlgorithm) error {
	if !Suits(ed25519.PublicKey(k), string(alg)) || !ed25519.Verify(ed25519.PublicKey(k), payload, signature) {
		return jose.ErrCryptoFailure
	}
	return nil
}
