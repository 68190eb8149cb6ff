package client

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/mldsa"
	"github.com/gatehouse-id/gatehouse/internal/webpage"
)

// MethodPrivateKey is the auth_method of a client that signs assertions instead of sending a secret.
const MethodPrivateKey = "private_key_jwt"

// MethodWorkload is the auth_method of a client that shows tokens of a trusted issuer instead of a secret.
const MethodWorkload = "workload"

const (
	maxClientKeys = 64
	minRSABits    = 2048
)

var (
	// requestAlgorithms are the algorithms that an authorization request can be signed with: never a shared secret, never
	// none. A signature of ML-DSA is too long for the address that such a request can stand in.
	requestAlgorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA, jwa.Ed25519}
	// AssertionAlgorithms are the algorithms that an assertion can be signed with.
	AssertionAlgorithms = slices.Concat(requestAlgorithms, jwa.PostQuantum)
)

// accepted names the algorithms to operators.
const accepted = "RS256, PS256, ES256, EdDSA or ML-DSA"

// ParseJWKS reads the public keys of a client.
func ParseJWKS(raw []byte) (*jwa.KeySet, error) {
	keys, err := ParseClientKeys(raw)
	if err != nil {
		return nil, err
	}
	return &jwa.KeySet{Keys: keys}, nil
}

// ParseKeys returns the public keys of a set that can sign assertions. Others are ignored, as RFC 7517 5 says. A
// private key is an error, since publishing it has compromised it.
func ParseKeys(raw []byte) ([]jose.JSONWebKey, error) {
	keys, err := parse(raw, canSign)
	if err == nil && len(keys) == 0 {
		err = errors.New("holds no key for signatures by " + accepted)
	}
	return keys, err
}

// ParseClientKeys is ParseKeys with the keys too that answers can be encrypted for.
func ParseClientKeys(raw []byte) ([]jose.JSONWebKey, error) {
	keys, err := parse(raw, func(k *jose.JSONWebKey) bool { return canSign(k) || canEncrypt(k) })
	if err == nil && len(keys) == 0 {
		err = errors.New("holds no key for signatures by " + accepted + ", and none for encryption")
	}
	return keys, err
}

func parse(raw []byte, wanted func(*jose.JSONWebKey) bool) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if webpage.Is(raw) {
		return nil, errors.New("it is an HTML page, not a JSON Web Key Set")
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	if len(set.Keys) > maxClientKeys {
		return nil, fmt.Errorf("more than %d keys", maxClientKeys)
	}
	var keys []jose.JSONWebKey
	for _, one := range set.Keys {
		key, err := jwa.ReadKey(one)
		if err != nil {
			continue // of an unknown kind
		}
		if !jwa.IsPublic(&key) {
			return nil, errors.New("holds a private or symmetric key: publish the public part alone")
		}
		if wanted(&key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// canSign reports whether a public key is one for signatures that are accepted.
func canSign(key *jose.JSONWebKey) bool {
	if !jwa.IsValid(key) || (key.Use != "" && key.Use != "sig") ||
		(key.Algorithm != "" && !slices.Contains(AssertionAlgorithms, jose.SignatureAlgorithm(key.Algorithm))) {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256()
	case ed25519.PublicKey, *mldsa.PublicKey:
		return true
	}
	return false
}

// Verify returns what one of the keys has signed. A key for another purpose, or of another name or algorithm than the
// header says, does not count.
func Verify(signed *jose.JSONWebSignature, keys []jose.JSONWebKey) (payload []byte, ok bool) {
	header := signed.Signatures[0].Header
	for _, key := range keys {
		if !canSign(&key) || (header.KeyID != "" && key.KeyID != "" && key.KeyID != header.KeyID) ||
			(key.Algorithm != "" && !jwa.Same(key.Algorithm, header.Algorithm)) {
			continue
		}
		if payload, err := signed.Verify(jwa.Verifier(key.Key)); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// canSignRequests reports whether a public key is one for signed requests.
func canSignRequests(key jose.JSONWebKey) bool {
	_, postQuantum := key.Key.(*mldsa.PublicKey)
	return !postQuantum && canSign(&key)
}

// HasKeys reports whether the keys of the client are known.
func (c *Client) HasKeys() bool { return c.JWKS != nil || c.JWKSURI != "" }

// RequestAlgorithms are the algorithms that it can sign authorization requests with.
func (c *Client) RequestAlgorithms() []jose.SignatureAlgorithm {
	if c.RequestAlg == string(jose.EdDSA) {
		return []jose.SignatureAlgorithm{jose.EdDSA, jwa.Ed25519}
	}
	if c.RequestAlg != "" {
		return []jose.SignatureAlgorithm{jose.SignatureAlgorithm(c.RequestAlg)}
	}
	if c.FAPI2 {
		return requestAlgorithms[1:] // without RS256
	}
	return requestAlgorithms
}

// keyOption is the first option of the client that needs keys. Empty: none does.
func (c *Client) keyOption() string {
	switch {
	case c.AuthMethod == MethodPrivateKey, c.AuthMethod == MethodSelfSigned:
		return "auth_method " + c.AuthMethod
	case c.SignedRequestRequired:
		return "request_object"
	case c.RequestAlg != "":
		return "request_object_alg"
	case c.IDTokenEncAlg != "":
		return "id_token_encryption"
	case c.UserinfoEncAlg != "":
		return "userinfo_encryption"
	}
	return ""
}

// signs reports whether the client must have a key for signatures.
func (c *Client) signs() bool {
	return c.AuthMethod == MethodPrivateKey || c.AuthMethod == MethodSelfSigned || c.SignedRequestRequired || c.RequestAlg != ""
}

// checkKeys judges the keys of a client.
func (c *Client) checkKeys(p *Problems) {
	p.oneOf("request_object_alg", c.RequestAlg, "RS256", "PS256", "ES256", "EdDSA")
	need := c.keyOption()
	switch {
	case need == "":
		if c.HasKeys() {
			p.Addf("jwks: it is for auth_method private_key_jwt, self_signed_tls_client_auth, request_object and encryption: set one of them, or remove jwks")
		}
		return
	case (c.AuthMethod == MethodPrivateKey || c.AuthMethod == MethodSelfSigned) && len(c.Secrets)+len(c.SecretHashes) > 0:
		p.Addf("secret: a client with auth_method %s has keys instead: remove either", c.AuthMethod)
	case (c.JWKS != nil) == (c.JWKSURI != ""):
		p.Addf("jwks is missing: %s needs a file or a URL with the client's public keys", need)
	case c.JWKSURI != "":
		if err := validateRedirectURI(c.JWKSURI); err != nil {
			p.Addf("jwks: %q: %w", c.JWKSURI, err)
		} else if !strings.HasPrefix(c.JWKSURI, "https://") && !strings.HasPrefix(c.JWKSURI, "http://") {
			p.Addf("jwks: %q: must be https", c.JWKSURI)
		}
	case len(c.JWKS.Keys) == 0 || len(c.JWKS.Keys) > maxClientKeys ||
		slices.ContainsFunc(c.JWKS.Keys, func(k jose.JSONWebKey) bool { return !jwa.IsPublic(&k) || !canSign(&k) && !canEncrypt(&k) }),
		c.signs() && !slices.ContainsFunc(c.JWKS.Keys, func(k jose.JSONWebKey) bool { return canSign(&k) }):
		p.Addf("jwks: want 1 to %d public keys for %s", maxClientKeys, accepted)
	case (c.SignedRequestRequired || c.RequestAlg != "") && !slices.ContainsFunc(c.JWKS.Keys, canSignRequests):
		p.Addf("jwks: %s needs a key for RS256, PS256, ES256 or EdDSA: a signature of ML-DSA is too long for an address", need)
	}
}
