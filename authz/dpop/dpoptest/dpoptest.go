// Package dpoptest makes DPoP proofs for tests, good ones and others.
package dpoptest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/jwa/signaturetest"
)

// Key is a key of a client.
type Key struct {
	// JKT is its thumbprint.
	JKT string

	t       testing.TB
	private crypto.Signer
	alg     jose.SignatureAlgorithm
}

// NewKey returns a new key for ES256.
func NewKey(t testing.TB) *Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return KeyFor(t, private, jose.ES256)
}

// KeyFor returns a key for an algorithm.
func KeyFor(t testing.TB, private crypto.Signer, alg jose.SignatureAlgorithm) *Key {
	t.Helper()
	jwk := jose.JSONWebKey{Key: private.Public()}
	sum, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return &Key{base64.RawURLEncoding.EncodeToString(sum), t, private, alg}
}

// Claims are those of a proof. A change to nil removes one.
type Claims map[string]any

// Proof signs a proof for a request, with a jti of its own. token can be empty.
func (k *Key) Proof(method, url, token string, now time.Time, changes ...Claims) string {
	k.t.Helper()
	return k.Sign("dpop+jwt", k.Claims(method, url, token, now, changes...))
}

// Claims are those that Proof signs.
func (k *Key) Claims(method, url, token string, now time.Time, changes ...Claims) Claims {
	claims := Claims{"jti": rand.Text(), "htm": method, "htu": url, "iat": now.Unix()}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	for _, c := range changes {
		maps.Copy(claims, c)
	}
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// Sign signs claims with the public key in the header.
func (k *Key) Sign(typ string, claims Claims) string {
	k.t.Helper()
	opts := (&jose.SignerOptions{EmbedJWK: true}).WithType(jose.ContentType(typ))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.alg, Key: signaturetest.Key(k.private, k.alg)}, opts)
	if err != nil {
		k.t.Fatal(err)
	}
	return k.compact(signer, claims)
}

// Raw signs claims with this header, whatever it says.
func (k *Key) Raw(header, claims Claims) string {
	k.t.Helper()
	first, err := json.Marshal(header)
	if err != nil {
		k.t.Fatal(err)
	}
	second, err := json.Marshal(claims)
	if err != nil {
		k.t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString(first) + "." + base64.RawURLEncoding.EncodeToString(second)
	sum := sha256.Sum256([]byte(text))
	private, ok := k.private.(*ecdsa.PrivateKey)
	if !ok {
		k.t.Fatal("Raw is for ES256")
	}
	r, s, err := ecdsa.Sign(rand.Reader, private, sum[:])
	if err != nil {
		k.t.Fatal(err)
	}
	out := make([]byte, 64)
	r.FillBytes(out[:32])
	s.FillBytes(out[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(out)
}

// JWK is the key as the header of a proof has it; private says that it has what no one must send.
func (k *Key) JWK(private bool) Claims {
	k.t.Helper()
	jwk := jose.JSONWebKey{Key: k.private.Public()}
	if private {
		jwk.Key = k.private
	}
	body, err := jwk.MarshalJSON()
	out := Claims{}
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

func (k *Key) compact(signer jose.Signer, claims Claims) string {
	k.t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		k.t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		k.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		k.t.Fatal(err)
	}
	return text
}
