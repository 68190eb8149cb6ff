package authztest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/certificate"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/jwa/signaturetest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// AssertionType is the client_assertion_type of a JWT (RFC 7523 2.2).
const AssertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// Signer is a client with a key.
type Signer struct {
	Client *client.Client
	Key    crypto.Signer
	alg    jose.SignatureAlgorithm
	Kid    string
}

// NewSigner returns a signer with a new key.
func NewSigner(t testing.TB, id string, alg jose.SignatureAlgorithm) *Signer {
	t.Helper()
	s := &Signer{alg: alg, Kid: "key of " + id}
	var err error
	switch alg { //nolint:exhaustive // those that are accepted
	case jose.MLDSA44, jose.MLDSA65, jose.MLDSA87:
		s.Key, err = jwa.GeneratePostQuantum(string(alg))
	case jose.RS256, jose.PS256:
		s.Key, err = rsa.GenerateKey(rand.Reader, 2048)
	case jose.ES256:
		s.Key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		_, s.Key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Client = &client.Client{
		ID: id, AuthMethod: "private_key_jwt", Grants: []string{"client_credentials", "authorization_code", "refresh_token"}, Consent: "off",
		RedirectURIs: []string{"https://" + id + ".example.com/callback"}, Scopes: []string{"openid"},
		DefaultScopes: []string{"openid"}, JWKS: s.Set(),
	}
	return s
}

// Set returns the public key as a key set.
func (s *Signer) Set() *jwa.KeySet {
	return &jwa.KeySet{Keys: []jose.JSONWebKey{{Key: s.Key.Public(), KeyID: s.Kid, Algorithm: string(s.alg), Use: "sig"}}}
}

// AssertionIDs counts the jti claims of assertions.
var AssertionIDs atomic.Int64

// Claims are those of a valid assertion.
func (s *Signer) Claims(h *Harness) map[string]any {
	now := h.Clock.Now().Unix()
	return map[string]any{
		"iss": s.Client.ID, "sub": s.Client.ID, "aud": h.Issuer, "iat": now, "exp": now + 60,
		"jti": "jti " + strconv.FormatInt(AssertionIDs.Add(1), 10),
	}
}

// Sign returns the claims as a JWT.
func (s *Signer) Sign(t testing.TB, claims map[string]any, typ string) string {
	t.Helper()
	return SignWith(t, s.alg, s.Key, s.Kid, claims, typ)
}

// SignWith returns the claims as a JWT signed by any key.
func SignWith(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, claims map[string]any, typ string) string {
	t.Helper()
	opts := &jose.SignerOptions{}
	if typ != "" {
		opts = opts.WithType(jose.ContentType(typ))
	}
	if kid != "" {
		opts = opts.WithHeader("kid", kid)
	}
	signing, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: signaturetest.Key(key, alg)}, opts)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signing.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// AssertionForm returns the parameters by which a client authenticates with an assertion.
func AssertionForm(assertion string, more ...string) url.Values {
	f := url.Values{"grant_type": {"client_credentials"}, "client_assertion_type": {AssertionType}, "client_assertion": {assertion}}
	for i := 0; i+1 < len(more); i += 2 {
		if f.Set(more[i], more[i+1]); more[i+1] == "" {
			f.Del(more[i])
		}
	}
	return f
}

// Robot is a client that authenticates by certificate.
func Robot(id string, change func(*client.Client)) *client.Client {
	c := &client.Client{
		ID: id, AuthMethod: "tls_client_auth", Grants: []string{"client_credentials", "authorization_code", "refresh_token", "device_code"},
		Consent:      "off",
		RedirectURIs: []string{"https://" + id + ".example.com/callback"}, Scopes: []string{"openid"}, DefaultScopes: []string{"openid"},
		CertificateSubject: &certificate.Subject{DNS: id + ".example.com"},
	}
	if change != nil {
		change(c)
	}
	return c
}

// RawBasic returns an Authorization header of this text, which is encoded as it is.
func RawBasic(text string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(text))}
}

// PairwiseClient returns a client with pairwise subjects at a host.
func PairwiseClient(id, host string) *client.Client {
	return &client.Client{
		ID: id, Secrets: []secret.String{secret.New(Secret(id))}, RedirectURIs: []string{"https://" + host + "/" + id + "/callback"},
		PostLogoutRedirectURIs: []string{"https://" + host + "/"}, Grants: []string{"authorization_code", "refresh_token", "client_credentials"},
		Consent: "off",
		Scopes:  []string{"openid", "profile"}, DefaultScopes: []string{"openid"}, SubjectType: "pairwise",
	}
}
