package authz_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/signature"
	"github.com/gatehouse-id/gatehouse/internal/signature/signaturetest"
)

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// signer is a client with a key.
type signer struct {
	client *client.Client
	key    crypto.Signer
	alg    jose.SignatureAlgorithm
	kid    string
}

func newSigner(t testing.TB, id string, alg jose.SignatureAlgorithm) *signer {
	t.Helper()
	s := &signer{alg: alg, kid: "key of " + id}
	var err error
	switch alg { //nolint:exhaustive // those that are accepted
	case jose.RS256, jose.PS256:
		s.key, err = rsa.GenerateKey(rand.Reader, 2048)
	case jose.ES256:
		s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		_, s.key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.client = &client.Client{
		ID: id, AuthMethod: "private_key_jwt", Grants: []string{"client_credentials", "authorization_code", "refresh_token"}, Consent: "off",
		RedirectURIs: []string{"https://" + id + ".example.com/callback"}, Scopes: []string{"openid"}, DefaultScopes: []string{"openid"}, JWKS: s.set(),
	}
	return s
}

func (s *signer) set() *jose.JSONWebKeySet {
	return &jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key.Public(), KeyID: s.kid, Algorithm: string(s.alg), Use: "sig"}}}
}

var jtis atomic.Int64

// claims are those of a valid assertion.
func (s *signer) claims(h *authztest.Harness) map[string]any {
	now := h.Clock.Now().Unix()
	return map[string]any{
		"iss": s.client.ID, "sub": s.client.ID, "aud": h.Issuer, "iat": now, "exp": now + 60, "jti": "jti " + strconv.FormatInt(jtis.Add(1), 10),
	}
}

func (s *signer) sign(t testing.TB, claims map[string]any, typ string) string {
	t.Helper()
	return signWith(t, s.alg, s.key, s.kid, claims, typ)
}

func signWith(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, claims map[string]any, typ string) string {
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

func assertionForm(assertion string, more ...string) url.Values {
	f := url.Values{"grant_type": {"client_credentials"}, "client_assertion_type": {assertionType}, "client_assertion": {assertion}}
	for i := 0; i+1 < len(more); i += 2 {
		if f.Set(more[i], more[i+1]); more[i+1] == "" {
			f.Del(more[i])
		}
	}
	return f
}

func TestPrivateKeyJWT(t *testing.T) {
	t.Parallel()
	for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA, signature.Ed25519} {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			s := newSigner(t, "signer", alg)
			h := authztest.New(t, authztest.WithClients(s.client))
			for name, change := range map[string]func(map[string]any){
				"plain":                  func(map[string]any) {},
				"audience in a list":     func(c map[string]any) { c["aud"] = []string{h.Issuer} },
				"without iat":            func(c map[string]any) { delete(c, "iat") },
				"fractions":              func(c map[string]any) { c["exp"] = float64(h.Clock.Now().Unix()) + 59.5 },
				"five minutes":           func(c map[string]any) { c["exp"] = h.Clock.Now().Unix() + 300 },
				"a clock a little ahead": func(c map[string]any) { c["iat"], c["nbf"] = h.Clock.Now().Unix()+20, h.Clock.Now().Unix()+20 },
			} {
				claims := s.claims(h)
				change(claims)
				if res := h.Post("/oauth/token", assertionForm(s.sign(t, claims, "JWT"))); res.Status != http.StatusOK {
					t.Errorf("%s: %d %s, want 200", name, res.Status, res.Body)
				}
			}
			for name, raw := range map[string]string{
				"no kid": signWith(t, alg, s.key, "", s.claims(h), ""), "own type": s.sign(t, s.claims(h), "client-authentication+jwt"),
			} {
				if res := h.Post("/oauth/token", assertionForm(raw, "client_id", "signer")); res.Status != http.StatusOK {
					t.Errorf("%s: %d %s, want 200", name, res.Status, res.Body)
				}
			}
			// The whole code flow, refresh and revocation.
			code := h.Browser(authztest.Demo).Code("signer")
			res := h.Post("/oauth/token", assertionForm(s.sign(t, s.claims(h), ""), "grant_type", "authorization_code", "code", code,
				"redirect_uri", s.client.RedirectURIs[0], "code_verifier", authztest.Verifier))
			wantStatus(t, "code", res, http.StatusOK)
			res = h.Post("/oauth/token", assertionForm(s.sign(t, s.claims(h), ""), "grant_type", "refresh_token", "refresh_token", res.Text("refresh_token")))
			wantStatus(t, "refresh", res, http.StatusOK)
			access := res.Text("access_token")
			wantStatus(t, "revoke", h.Post("/oauth/revoke", assertionForm(s.sign(t, s.claims(h), ""), "grant_type", "", "token", access)), http.StatusOK)
			wantActive(t, h, "after revoke", access, false)
			h.Invariants(t)
		})
	}
}

func TestPrivateKeyJWTAttacks(t *testing.T) {
	t.Parallel()
	s, other := newSigner(t, "signer", jose.RS256), newSigner(t, "other-signer", jose.ES256)
	h := authztest.New(t, authztest.WithClients(s.client, other.client))
	t.Run("attack 73: client assertions that are not good", func(t *testing.T) {
		now := h.Clock.Now().Unix()
		change := func(name string, value any) map[string]any {
			c := s.claims(h)
			if c[name] = value; value == nil {
				delete(c, name)
			}
			return c
		}
		der := func() []byte {
			raw, err := json.Marshal(s.set().Keys[0])
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}()
		none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "."
		payload, err := json.Marshal(s.claims(h))
		if err != nil {
			t.Fatal(err)
		}
		good := s.sign(t, s.claims(h), "JWT")
		for name, raw := range map[string]string{
			"alg none":                    none + base64.RawURLEncoding.EncodeToString(payload) + ".",
			"HS256 with the public key":   signWith(t, jose.HS256, der, s.kid, s.claims(h), ""),
			"another client's key":        signWith(t, jose.ES256, other.key, s.kid, s.claims(h), ""),
			"another client's kid":        signWith(t, jose.ES256, other.key, other.kid, s.claims(h), ""),
			"another algorithm":           signWith(t, jose.PS256, s.key, s.kid, s.claims(h), ""),
			"an algorithm of no list":     signWith(t, jose.RS512, s.key, s.kid, s.claims(h), ""),
			"exp a day ahead":             s.sign(t, change("exp", now+86400), ""),
			"exp six minutes ahead":       s.sign(t, change("exp", now+360), ""),
			"exp passed":                  s.sign(t, change("exp", now), ""),
			"exp missing":                 s.sign(t, change("exp", nil), ""),
			"exp as text":                 s.sign(t, change("exp", "soon"), ""),
			"exp beyond numbers":          s.sign(t, change("exp", 1e300), ""),
			"iat ahead":                   s.sign(t, change("iat", now+120), ""),
			"nbf ahead":                   s.sign(t, change("nbf", now+120), ""),
			"iss is another":              s.sign(t, change("iss", "other-signer"), ""),
			"sub is another":              s.sign(t, change("sub", "other-signer"), ""),
			"sub has a secret":            s.sign(t, change("sub", "shop"), ""),
			"sub missing":                 s.sign(t, change("sub", nil), ""),
			"aud missing":                 s.sign(t, change("aud", nil), ""),
			"aud of another server":       s.sign(t, change("aud", "https://as.example.net/token"), ""),
			"aud is our token endpoint":   s.sign(t, change("aud", h.Issuer+"/oauth/token"), ""),
			"aud with a slash":            s.sign(t, change("aud", h.Issuer+"/"), ""),
			"aud with a foreign issuer":   s.sign(t, change("aud", []string{h.Issuer, "https://as.example.net"}), ""),
			"aud empty":                   s.sign(t, change("aud", []string{}), ""),
			"jti missing":                 s.sign(t, change("jti", nil), ""),
			"jti too long":                s.sign(t, change("jti", strings.Repeat("x", 257)), ""),
			"an access token by its type": s.sign(t, s.claims(h), "at+jwt"),
			"changed":                     good[:len(good)-4] + "AAAA",
			"no JWT":                      "nonsense",
			"too long":                    strings.Repeat("x", 17<<10),
		} {
			res := h.Post("/oauth/token", assertionForm(raw))
			wantError(t, name, res, http.StatusUnauthorized, "invalid_client")
		}
		// An assertion is valid once, across requests, endpoints and restarts.
		once := s.sign(t, s.claims(h), "")
		answers := together(20, func(int) *authztest.Response { return h.Post("/oauth/token", assertionForm(once)) })
		if n := countStatus(answers, http.StatusOK); n != 1 || countStatus(answers, http.StatusUnauthorized) != 19 {
			t.Errorf("one assertion was taken %d times, want once", n)
		}
		h.Restart(nil)
		wantError(t, "replay", h.Post("/oauth/token", assertionForm(once)), http.StatusUnauthorized, "invalid_client")
		wantError(t, "replay at revoke", h.Post("/oauth/revoke", assertionForm(once, "grant_type", "", "token", "x")), http.StatusUnauthorized, "invalid_client")
		// A client with a key cannot authenticate in another way, nor one with a secret by an assertion.
		wantError(t, "name alone", h.Post("/oauth/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"signer"}}), http.StatusUnauthorized, "invalid_client")
		wantError(t, "a secret", h.Post("/oauth/token", url.Values{"grant_type": {"client_credentials"}}, authztest.Basic("signer", authztest.Secret("signer"))...), http.StatusUnauthorized, "invalid_client")
		fresh := func() string { return s.sign(t, s.claims(h), "") }
		wantError(t, "type missing", h.Post("/oauth/token", assertionForm(fresh(), "client_assertion_type", "")), http.StatusUnauthorized, "invalid_client")
		wantError(t, "type of SAML", h.Post("/oauth/token", assertionForm(fresh(), "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer")), http.StatusUnauthorized, "invalid_client")
		wantError(t, "another client_id", h.Post("/oauth/token", assertionForm(fresh(), "client_id", "shop")), http.StatusBadRequest, "invalid_request")
		wantError(t, "Basic beside it", h.Post("/oauth/token", assertionForm(fresh()), authztest.Basic("shop", authztest.Secret("shop"))...), http.StatusBadRequest, "invalid_request")
		wantError(t, "a secret beside it", h.Post("/oauth/token", assertionForm(fresh(), "client_secret", "x")), http.StatusBadRequest, "invalid_request")
		if strings.Contains(h.Log(), once) || strings.Contains(h.Log(), good[:40]) {
			t.Error("an assertion is in the log")
		}
		h.Invariants(t)
	})
}

// TestJWKSURI holds that published keys are fetched only when needed, and seldom.
func TestJWKSURI(t *testing.T) {
	t.Parallel()
	s, next := newSigner(t, "signer", jose.ES256), newSigner(t, "signer", jose.ES256)
	next.kid = "the next key"
	var body atomic.Value
	var fetches atomic.Int64
	publish := func(v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		body.Store(raw)
	}
	publish(s.set())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		raw, _ := body.Load().([]byte)
		if raw == nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
		w.Write(raw)
	}))
	t.Cleanup(web.Close)
	s.client.JWKS, s.client.JWKSURI = nil, web.URL+"/jwks"
	h := authztest.New(t, authztest.WithClients(s.client))
	ask := func(by *signer) *authztest.Response {
		return h.Post("/oauth/token", assertionForm(by.sign(t, by.claims(h), "")))
	}
	count := func(what string, want int64) {
		t.Helper()
		if got := fetches.Load(); got != want {
			t.Errorf("%s: %d fetches, want %d", what, got, want)
		}
	}
	for range 3 {
		wantStatus(t, "first key", ask(s), http.StatusOK)
	}
	count("first key", 1)
	for range 5 {
		wantError(t, "unknown key", ask(next), http.StatusUnauthorized, "invalid_client")
	}
	count("unknown keys within a minute", 1)
	publish(jose.JSONWebKeySet{Keys: append(next.set().Keys, s.set().Keys...)})
	h.Clock.Advance(time.Minute)
	wantStatus(t, "next key", ask(next), http.StatusOK)
	wantStatus(t, "first key still", ask(s), http.StatusOK)
	count("a new key", 2)
	publish(next.set())
	h.Clock.Advance(15 * time.Minute)
	wantError(t, "withdrawn key", ask(s), http.StatusUnauthorized, "invalid_client")
	body.Store([]byte(nil))
	h.Clock.Advance(time.Hour)
	wantStatus(t, "while the keys cannot be fetched", ask(next), http.StatusOK)
	h.Clock.Advance(24 * time.Hour)
	wantError(t, "a day later", ask(next), http.StatusServiceUnavailable, "temporarily_unavailable")
	for name, bad := range map[string]any{
		"private": jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: next.key, KeyID: next.kid}}}, "none": map[string]any{"keys": []any{}}, "no set": []any{},
	} {
		publish(bad)
		h.Clock.Advance(time.Minute)
		wantError(t, name, ask(next), http.StatusServiceUnavailable, "temporarily_unavailable")
	}
	publish(next.set())
	h.Clock.Advance(time.Minute)
	wantStatus(t, "back again", ask(next), http.StatusOK)
}

func TestPrivateKeyJWTValidate(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // it must be refused
	if err != nil {
		t.Fatal(err)
	}
	set := func(key any) *jose.JSONWebKeySet { return &jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key}}} }
	for name, c := range map[string]struct {
		change func(*client.Client)
		want   string
	}{
		"good":         {func(*client.Client) {}, ""},
		"URL":          {func(c *client.Client) { c.JWKS, c.JWKSURI = nil, "https://x.example.com/jwks" }, ""},
		"no keys":      {func(c *client.Client) { c.JWKS = nil }, "jwks is missing"},
		"both":         {func(c *client.Client) { c.JWKSURI = "https://x.example.com/jwks" }, "jwks is missing"},
		"http":         {func(c *client.Client) { c.JWKS, c.JWKSURI = nil, "http://x.example.com/jwks" }, "must be https"},
		"a secret too": {func(c *client.Client) { c.Secrets = []secret.String{secret.New(authztest.Secret("x"))} }, "remove either"},
		"public":       {func(c *client.Client) { c.Public = true }, "does not authenticate"},
		"keys for a secret": {func(c *client.Client) {
			c.AuthMethod = "basic"
			c.Secrets = []secret.String{secret.New(authztest.Secret("x"))}
		}, "set one of them, or remove jwks"},
		"a weak key":    {func(c *client.Client) { c.JWKS = set(weak.Public()) }, "want 1 to"},
		"a private key": {func(c *client.Client) { c.JWKS = set(weak) }, "want 1 to"},
		"a shared key":  {func(c *client.Client) { c.JWKS = set([]byte("0123456789abcdef0123456789abcdef")) }, "want 1 to"},
	} {
		client := newSigner(t, "signer", jose.EdDSA).client
		c.change(client)
		err := client.Validate()
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: Validate = %v, want %q", name, err, c.want)
		}
	}
}

// TestAddClientWithKeys holds that a client with keys can be added by command, and gets no secret.
func TestAddClientWithKeys(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "added", jose.EdDSA)
	h := authztest.New(t)
	if text, err := h.Server().Clients().Add(t.Context(), *s.client, authztest.Admin); err != nil || text != "" {
		t.Fatalf("AddClient = %q, %v, want no secret", text, err)
	}
	if res := h.Post("/oauth/token", assertionForm(s.sign(t, s.claims(h), ""))); res.Status != http.StatusOK {
		t.Errorf("Token = %d %s, want 200", res.Status, res.Body)
	}
	h.Invariants(t)
}

// TestSlowJWKSURI: a stranger names an unknown key while the client's own server hangs. The client itself is not
// delayed.
func TestSlowJWKSURI(t *testing.T) {
	t.Parallel()
	s, stranger := newSigner(t, "signer", jose.ES256), newSigner(t, "signer", jose.ES256)
	stranger.kid = "nobody's key"
	raw, err := json.Marshal(s.set())
	if err != nil {
		t.Fatal(err)
	}
	asked, hang := make(chan struct{}, 8), make(chan struct{})
	var slow atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if slow.Load() {
			asked <- struct{}{}
			<-hang
		}
		w.Write(raw)
	}))
	t.Cleanup(web.Close)
	s.client.JWKS, s.client.JWKSURI = nil, web.URL+"/jwks"
	h := authztest.New(t, authztest.WithClients(s.client))
	ask := func(by *signer) *authztest.Response {
		return h.Post("/oauth/token", assertionForm(by.sign(t, by.claims(h), "")))
	}
	wantStatus(t, "before", ask(s), http.StatusOK)
	slow.Store(true)
	h.Clock.Advance(time.Minute)
	refused := make(chan *authztest.Response)
	go func() { refused <- ask(stranger) }()
	<-asked
	wantStatus(t, "while the keys are fetched for a stranger", ask(s), http.StatusOK)
	close(hang)
	wantError(t, "the stranger", <-refused, http.StatusUnauthorized, "invalid_client")
	h.Invariants(t)
}
