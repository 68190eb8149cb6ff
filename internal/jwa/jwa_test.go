package jwa_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// The attack: a public key as shared secret of HS256, none at all, or a key of one curve or kind with the algorithm of
// another. (RFC 8725 3.1)
func TestSuits(t *testing.T) {
	t.Parallel()
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		key  any
		want string
	}{
		"RSA":          {&rsa.PublicKey{}, "RS256 RS384 RS512 PS256 PS384 PS512"},
		"P-256":        {&p256.PublicKey, "ES256"},
		"Ed25519":      {edwards, "EdDSA Ed25519"},
		"bytes":        {[]byte("secret"), ""},
		"private":      {p256, ""},
		"nothing":      {nil, ""},
		"its pointers": {&edwards, ""},
	} {
		for _, alg := range []string{
			"", "none", "HS256", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
			"EdDSA", "Ed25519", "Ed448", "ES256K",
		} {
			if got, want := jwa.Suits(tt.key, alg), slices.Contains(strings.Fields(tt.want), alg); got != want {
				t.Errorf("%s with %q: %t, want %t", name, alg, got, want)
			}
		}
	}
}
