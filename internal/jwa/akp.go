package jwa

import (
	"crypto"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	josejson "github.com/go-jose/go-jose/v4/json"

	"github.com/gatehouse-id/gatehouse/internal/mldsa"
)

// Keys of the type AKP, for ML-DSA (RFC 9964). go-jose has them when Go 1.27 builds it. Then KeySet is its
// JSONWebKeySet, and this file goes.

// PostQuantum are the algorithms that a quantum computer does not break.
var PostQuantum = []jose.SignatureAlgorithm{jose.MLDSA44, jose.MLDSA65, jose.MLDSA87}

const typeAKP = "AKP"

// parametersOf returns the parameter set of an algorithm.
func parametersOf(alg string) (p mldsa.Parameters, ok bool) {
	for _, p := range []mldsa.Parameters{mldsa.MLDSA44(), mldsa.MLDSA65(), mldsa.MLDSA87()} {
		if p.String() == alg {
			return p, true
		}
	}
	return p, false
}

// IsPostQuantum reports whether an algorithm is one of PostQuantum.
func IsPostQuantum(alg string) bool {
	_, ok := parametersOf(alg)
	return ok
}

// SignatureSize is the number of characters of a post-quantum signature in a JWT, or 0.
func SignatureSize(alg string) int {
	if p, ok := parametersOf(alg); ok {
		return base64.RawURLEncoding.EncodedLen(p.SignatureSize())
	}
	return 0
}

// TokenHash is the hash of a token for at_hash: the left half of the one that a signature uses (OpenID Connect Core
// 3.1.3.6), and half of SHAKE256 for ML-DSA (docs/decisions/tokens.md#post-quantum-signatures).
func TokenHash(alg, token string) string {
	var sum []byte
	switch {
	case IsPostQuantum(alg):
		sum = sha3.SumSHAKE256([]byte(token), 64)
	case Same(alg, string(jose.EdDSA)): // Ed25519 hashes with SHA-512
		s := sha512.Sum512([]byte(token))
		sum = s[:]
	default:
		s := sha256.Sum256([]byte(token))
		sum = s[:]
	}
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}

// GeneratePostQuantum returns a new key for one of PostQuantum.
func GeneratePostQuantum(alg string) (*mldsa.PrivateKey, error) {
	p, ok := parametersOf(alg)
	if !ok {
		return nil, fmt.Errorf("no such algorithm: %s", alg)
	}
	return mldsa.GenerateKey(p)
}

// akp is a JSON Web Key of the type AKP. (RFC 9964 3)
type akp struct {
	Use       string `json:"use,omitempty"`
	Type      string `json:"kty"`
	KeyID     string `json:"kid,omitempty"`
	Algorithm string `json:"alg"`
	Public    string `json:"pub"`
	Private   any    `json:"priv,omitempty"`
}

// readAKP reads a public key. A private one, in any form, is read as a key that is not public.
func readAKP(raw []byte) (key jose.JSONWebKey, err error) {
	var k akp
	if err := josejson.Unmarshal(raw, &k); err != nil { // it takes no name in another case, and none twice
		return key, err
	}
	key = jose.JSONWebKey{KeyID: k.KeyID, Algorithm: k.Algorithm, Use: k.Use}
	if k.Private != nil {
		return key, nil
	}
	p, ok := parametersOf(k.Algorithm)
	if !ok { // RFC 9964 3: alg is required
		return jose.JSONWebKey{}, jose.ErrUnsupportedKeyType
	}
	encoded, err := base64.RawURLEncoding.Strict().DecodeString(k.Public)
	if err != nil {
		return jose.JSONWebKey{}, errors.New("pub is not base64url")
	}
	if key.Key, err = mldsa.NewPublicKey(p, encoded); err != nil {
		return jose.JSONWebKey{}, err
	}
	return key, nil
}

// KeySet is a set of JSON Web Keys. (RFC 7517 5)
type KeySet struct {
	Keys []jose.JSONWebKey `json:"keys"`
}

// Key returns the keys of an id.
func (s *KeySet) Key(kid string) []jose.JSONWebKey { return (*jose.JSONWebKeySet)(s).Key(kid) }

// MarshalJSON writes the set.
func (s KeySet) MarshalJSON() ([]byte, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	set.Keys = make([]json.RawMessage, len(s.Keys))
	for i, key := range s.Keys {
		var err error
		if set.Keys[i], err = WriteKey(key); err != nil {
			return nil, err
		}
	}
	return json.Marshal(set)
}

// UnmarshalJSON reads what MarshalJSON writes. An unknown key is an error.
func (s *KeySet) UnmarshalJSON(raw []byte) error {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return err
	}
	s.Keys = make([]jose.JSONWebKey, len(set.Keys))
	for i, one := range set.Keys {
		var err error
		if s.Keys[i], err = ReadKey(one); err != nil {
			return err
		}
	}
	return nil
}

// WriteKey returns a key as JSON.
func WriteKey(key jose.JSONWebKey) ([]byte, error) {
	k, ok := key.Key.(*mldsa.PublicKey)
	if !ok {
		return json.Marshal(key)
	}
	alg := k.Parameters().String()
	if key.Algorithm != "" && key.Algorithm != alg {
		return nil, fmt.Errorf("a key for %s is not one for %s", alg, key.Algorithm)
	}
	return json.Marshal(akp{
		Use: key.Use, Type: typeAKP, KeyID: key.KeyID, Algorithm: alg, Public: base64.RawURLEncoding.EncodeToString(k.Bytes()),
	})
}

// IsPublic reports whether a key is a public one.
func IsPublic(key *jose.JSONWebKey) bool {
	_, ok := key.Key.(*mldsa.PublicKey)
	return ok || key.IsPublic()
}

// IsValid reports whether a key has all its parts.
func IsValid(key *jose.JSONWebKey) bool {
	k, ok := key.Key.(*mldsa.PublicKey)
	return ok && k != nil || key.Valid()
}

// Thumbprint is the SHA-256 of a public key. (RFC 7638; RFC 9964 6)
func Thumbprint(key crypto.PublicKey) ([]byte, error) {
	k, ok := key.(*mldsa.PublicKey)
	if !ok {
		return (&jose.JSONWebKey{Key: key}).Thumbprint(crypto.SHA256)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, `{"alg":%q,"kty":%q,"pub":%q}`,
		k.Parameters(), typeAKP, base64.RawURLEncoding.EncodeToString(k.Bytes())))
	return sum[:], nil
}

// verifier implements jose.OpaqueVerifier. The algorithm must be that of the key, so a key for one parameter set never
// verifies with another.
type verifier struct{ key *mldsa.PublicKey }

func (v verifier) VerifyPayload(payload, signature []byte, alg jose.SignatureAlgorithm) error {
	if !Suits(v.key, string(alg)) || mldsa.Verify(v.key, payload, signature) != nil {
		return jose.ErrCryptoFailure
	}
	return nil
}

// Signer returns what go-jose signs with by a private key.
func Signer(key crypto.Signer) any {
	if k, ok := key.(*mldsa.PrivateKey); ok {
		return signer{k}
	}
	return key
}

// signer implements jose.OpaqueSigner.
type signer struct{ key *mldsa.PrivateKey }

// Public is unknown to go-jose, so it is nothing that a header could embed.
func (signer) Public() *jose.JSONWebKey { return nil }

func (s signer) Algs() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.SignatureAlgorithm(s.key.PublicKey().Parameters().String())}
}

func (s signer) SignPayload(payload []byte, _ jose.SignatureAlgorithm) ([]byte, error) {
	return s.key.Sign(nil, payload, nil)
}
