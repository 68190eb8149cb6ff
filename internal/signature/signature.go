// Package signature says which algorithms of JSON Web Signatures (RFC 7518, RFC 8037) a public key can be used with, so
// that a key is never taken for one of another kind. Where keys come from, and what is signed, does not belong here.
package signature

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// Suits tells whether an algorithm fits the kind of a public key, and its curve.
func Suits(key any, alg string) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}[alg] == k.Curve
	case ed25519.PublicKey:
		return alg == string(jose.EdDSA)
	}
	return false
}
