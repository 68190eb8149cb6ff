package clientstore_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestPrivateKeyJWT(t *testing.T) {
	t.Parallel()
	for _, alg := range client.AssertionAlgorithms {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			s := authztest.NewSigner(t, "signer", alg)
			h := authztest.New(t, authztest.WithClients(s.Client))
			for name, change := range map[string]func(map[string]any){
				"plain":                  func(map[string]any) {},
				"audience in a list":     func(c map[string]any) { c["aud"] = []string{h.Issuer} },
				"without iat":            func(c map[string]any) { delete(c, "iat") },
				"fractions":              func(c map[string]any) { c["exp"] = float64(h.Clock.Now().Unix()) + 59.5 },
				"five minutes":           func(c map[string]any) { c["exp"] = h.Clock.Now().Unix() + 300 },
				"a clock a little ahead": func(c map[string]any) { c["iat"], c["nbf"] = h.Clock.Now().Unix()+20, h.Clock.Now().Unix()+20 },
			} {
				claims := s.Claims(h)
				change(claims)
				if res := h.Post("/oauth/token", authztest.AssertionForm(s.Sign(t, claims, "JWT"))); res.Status != http.StatusOK {
					t.Errorf("%s: %d %s, want 200", name, res.Status, res.Body)
				}
			}
			for name, raw := range map[string]string{
				"no kid": authztest.SignWith(t, alg, s.Key, "", s.Claims(h), ""), "own type": s.Sign(t, s.Claims(h), "client-authentication+jwt"),
			} {
				if res := h.Post("/oauth/token", authztest.AssertionForm(raw, "client_id", "signer")); res.Status != http.StatusOK {
					t.Errorf("%s: %d %s, want 200", name, res.Status, res.Body)
				}
			}
			// The whole code flow, refresh and revocation.
			code := h.Browser(authztest.Demo).Code("signer")
			res := h.Post("/oauth/token", authztest.AssertionForm(s.Sign(t, s.Claims(h), ""), "grant_type", "authorization_code", "code", code,
				"redirect_uri", s.Client.RedirectURIs[0], "code_verifier", authztest.Verifier))
			authztest.WantStatus(t, "code", res, http.StatusOK)
			res = h.Post("/oauth/token",
				authztest.AssertionForm(s.Sign(t, s.Claims(h), ""), "grant_type", "refresh_token", "refresh_token", res.Text("refresh_token")))
			authztest.WantStatus(t, "refresh", res, http.StatusOK)
			access := res.Text("access_token")
			authztest.WantStatus(t, "revoke",
				h.Post("/oauth/revoke", authztest.AssertionForm(s.Sign(t, s.Claims(h), ""), "grant_type", "", "token", access)), http.StatusOK)
			authztest.WantActive(t, h, "after revoke", access, false)
			h.Invariants(t)
		})
	}
}

func TestPrivateKeyJWTAttacks(t *testing.T) {
	t.Parallel()
	s, other := authztest.NewSigner(t, "signer", jose.RS256), authztest.NewSigner(t, "other-signer", jose.ES256)
	h := authztest.New(t, authztest.WithClients(s.Client, other.Client))
	t.Run("attack 73: client assertions that are not good", func(t *testing.T) {
		now := h.Clock.Now().Unix()
		change := func(name string, value any) map[string]any {
			c := s.Claims(h)
			if c[name] = value; value == nil {
				delete(c, name)
			}
			return c
		}
		der := func() []byte {
			raw, err := json.Marshal(s.Set().Keys[0])
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}()
		none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "."
		payload, err := json.Marshal(s.Claims(h))
		if err != nil {
			t.Fatal(err)
		}
		good := s.Sign(t, s.Claims(h), "JWT")
		for name, raw := range map[string]string{
			"alg none":                    none + base64.RawURLEncoding.EncodeToString(payload) + ".",
			"HS256 with the public key":   authztest.SignWith(t, jose.HS256, der, s.Kid, s.Claims(h), ""),
			"another client's key":        authztest.SignWith(t, jose.ES256, other.Key, s.Kid, s.Claims(h), ""),
			"another client's kid":        authztest.SignWith(t, jose.ES256, other.Key, other.Kid, s.Claims(h), ""),
			"another algorithm":           authztest.SignWith(t, jose.PS256, s.Key, s.Kid, s.Claims(h), ""),
			"an algorithm of no list":     authztest.SignWith(t, jose.RS512, s.Key, s.Kid, s.Claims(h), ""),
			"exp a day ahead":             s.Sign(t, change("exp", now+86400), ""),
			"exp six minutes ahead":       s.Sign(t, change("exp", now+360), ""),
			"exp passed":                  s.Sign(t, change("exp", now), ""),
			"exp missing":                 s.Sign(t, change("exp", nil), ""),
			"exp as text":                 s.Sign(t, change("exp", "soon"), ""),
			"exp beyond numbers":          s.Sign(t, change("exp", 1e300), ""),
			"iat ahead":                   s.Sign(t, change("iat", now+120), ""),
			"nbf ahead":                   s.Sign(t, change("nbf", now+120), ""),
			"iss is another":              s.Sign(t, change("iss", "other-signer"), ""),
			"sub is another":              s.Sign(t, change("sub", "other-signer"), ""),
			"sub has a secret":            s.Sign(t, change("sub", "shop"), ""),
			"sub missing":                 s.Sign(t, change("sub", nil), ""),
			"aud missing":                 s.Sign(t, change("aud", nil), ""),
			"aud of another server":       s.Sign(t, change("aud", "https://as.example.net/token"), ""),
			"aud is our token endpoint":   s.Sign(t, change("aud", h.Issuer+"/oauth/token"), ""),
			"aud with a slash":            s.Sign(t, change("aud", h.Issuer+"/"), ""),
			"aud with a foreign issuer":   s.Sign(t, change("aud", []string{h.Issuer, "https://as.example.net"}), ""),
			"aud empty":                   s.Sign(t, change("aud", []string{}), ""),
			"jti missing":                 s.Sign(t, change("jti", nil), ""),
			"jti too long":                s.Sign(t, change("jti", strings.Repeat("x", 257)), ""),
			"an access token by its type": s.Sign(t, s.Claims(h), "at+jwt"),
			"changed":                     good[:len(good)-4] + "AAAA",
			"no JWT":                      "nonsense",
			"too long":                    strings.Repeat("x", 17<<10),
		} {
			res := h.Post("/oauth/token", authztest.AssertionForm(raw))
			authztest.WantError(t, name, res, http.StatusUnauthorized, "invalid_client")
		}
		// An assertion is valid once, across requests, endpoints and restarts.
		once := s.Sign(t, s.Claims(h), "")
		answers := authztest.Together(20, func(int) *authztest.Response { return h.Post("/oauth/token", authztest.AssertionForm(once)) })
		if n := authztest.CountStatus(answers, http.StatusOK); n != 1 || authztest.CountStatus(answers, http.StatusUnauthorized) != 19 {
			t.Errorf("one assertion was taken %d times, want once", n)
		}
		h.Restart(nil)
		authztest.WantError(t, "replay", h.Post("/oauth/token", authztest.AssertionForm(once)), http.StatusUnauthorized, "invalid_client")
		authztest.WantError(t, "replay at revoke", h.Post("/oauth/revoke", authztest.AssertionForm(once, "grant_type", "", "token", "x")),
			http.StatusUnauthorized, "invalid_client")
		// A client with a key cannot authenticate in another way, nor one with a secret by an assertion.
		authztest.WantError(t, "name alone", h.Post("/oauth/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"signer"}}),
			http.StatusUnauthorized, "invalid_client")
		authztest.WantError(t, "a secret",
			h.Post("/oauth/token", url.Values{"grant_type": {"client_credentials"}}, authztest.Basic("signer", authztest.Secret("signer"))...),
			http.StatusUnauthorized, "invalid_client")
		fresh := func() string { return s.Sign(t, s.Claims(h), "") }
		authztest.WantError(t, "type missing", h.Post("/oauth/token", authztest.AssertionForm(fresh(), "client_assertion_type", "")),
			http.StatusUnauthorized, "invalid_client")
		authztest.WantError(t, "type of SAML",
			h.Post("/oauth/token", authztest.AssertionForm(fresh(), "client_assertion_type",
				"urn:ietf:params:oauth:client-assertion-type:saml2-bearer")), http.StatusUnauthorized, "invalid_client")
		authztest.WantError(t, "another client_id", h.Post("/oauth/token", authztest.AssertionForm(fresh(), "client_id", "shop")),
			http.StatusBadRequest, "invalid_request")
		authztest.WantError(t, "Basic beside it",
			h.Post("/oauth/token", authztest.AssertionForm(fresh()), authztest.Basic("shop", authztest.Secret("shop"))...),
			http.StatusBadRequest, "invalid_request")
		authztest.WantError(t, "a secret beside it", h.Post("/oauth/token", authztest.AssertionForm(fresh(), "client_secret", "x")),
			http.StatusBadRequest, "invalid_request")
		if strings.Contains(h.Log(), once) || strings.Contains(h.Log(), good[:40]) {
			t.Error("an assertion is in the log")
		}
		h.Invariants(t)
	})
}

// TestJWKSURI holds that published keys are fetched only when needed, and seldom.
func TestJWKSURI(t *testing.T) {
	t.Parallel()
	s, next := authztest.NewSigner(t, "signer", jose.ES256), authztest.NewSigner(t, "signer", jose.ES256)
	next.Kid = "the next key"
	var body atomic.Value
	var fetches atomic.Int64
	publish := func(v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		body.Store(raw)
	}
	publish(s.Set())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		raw, _ := body.Load().([]byte)
		if raw == nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
		w.Write(raw)
	}))
	t.Cleanup(web.Close)
	s.Client.JWKS, s.Client.JWKSURI = nil, web.URL+"/jwks"
	h := authztest.New(t, authztest.WithClients(s.Client))
	ask := func(by *authztest.Signer) *authztest.Response {
		return h.Post("/oauth/token", authztest.AssertionForm(by.Sign(t, by.Claims(h), "")))
	}
	count := func(what string, want int64) {
		t.Helper()
		if got := fetches.Load(); got != want {
			t.Errorf("%s: %d fetches, want %d", what, got, want)
		}
	}
	for range 3 {
		authztest.WantStatus(t, "first key", ask(s), http.StatusOK)
	}
	count("first key", 1)
	for range 5 {
		authztest.WantError(t, "unknown key", ask(next), http.StatusUnauthorized, "invalid_client")
	}
	count("unknown keys within a minute", 1)
	publish(jose.JSONWebKeySet{Keys: append(next.Set().Keys, s.Set().Keys...)})
	h.Clock.Advance(time.Minute)
	authztest.WantStatus(t, "next key", ask(next), http.StatusOK)
	authztest.WantStatus(t, "first key still", ask(s), http.StatusOK)
	count("a new key", 2)
	publish(next.Set())
	h.Clock.Advance(15 * time.Minute)
	authztest.WantError(t, "withdrawn key", ask(s), http.StatusUnauthorized, "invalid_client")
	body.Store([]byte(nil))
	h.Clock.Advance(time.Hour)
	authztest.WantStatus(t, "while the keys cannot be fetched", ask(next), http.StatusOK)
	h.Clock.Advance(24 * time.Hour)
	authztest.WantError(t, "a day later", ask(next), http.StatusServiceUnavailable, "temporarily_unavailable")
	for name, bad := range map[string]any{
		"private": jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: next.Key, KeyID: next.Kid}}},
		"none":    map[string]any{"keys": []any{}}, "no set": []any{},
	} {
		publish(bad)
		h.Clock.Advance(time.Minute)
		authztest.WantError(t, name, ask(next), http.StatusServiceUnavailable, "temporarily_unavailable")
	}
	publish(next.Set())
	h.Clock.Advance(time.Minute)
	authztest.WantStatus(t, "back again", ask(next), http.StatusOK)
}

func TestPrivateKeyJWTValidate(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // it must be refused
	if err != nil {
		t.Fatal(err)
	}
	set := func(key any) *jwa.KeySet { return &jwa.KeySet{Keys: []jose.JSONWebKey{{Key: key}}} }
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
		client := authztest.NewSigner(t, "signer", jose.EdDSA).Client
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
	s := authztest.NewSigner(t, "added", jose.EdDSA)
	h := authztest.New(t)
	if text, err := h.Server().Clients().Add(t.Context(), *s.Client, authztest.Admin); err != nil || text != "" {
		t.Fatalf("AddClient = %q, %v, want no secret", text, err)
	}
	if res := h.Post("/oauth/token", authztest.AssertionForm(s.Sign(t, s.Claims(h), ""))); res.Status != http.StatusOK {
		t.Errorf("Token = %d %s, want 200", res.Status, res.Body)
	}
	h.Invariants(t)
}

// TestSlowJWKSURI: a stranger names an unknown key while the client's own server hangs. The client itself is not
// delayed.
func TestSlowJWKSURI(t *testing.T) {
	t.Parallel()
	s, stranger := authztest.NewSigner(t, "signer", jose.ES256), authztest.NewSigner(t, "signer", jose.ES256)
	stranger.Kid = "nobody's key"
	raw, err := json.Marshal(s.Set())
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
	s.Client.JWKS, s.Client.JWKSURI = nil, web.URL+"/jwks"
	h := authztest.New(t, authztest.WithClients(s.Client))
	ask := func(by *authztest.Signer) *authztest.Response {
		return h.Post("/oauth/token", authztest.AssertionForm(by.Sign(t, by.Claims(h), "")))
	}
	authztest.WantStatus(t, "before", ask(s), http.StatusOK)
	slow.Store(true)
	h.Clock.Advance(time.Minute)
	refused := make(chan *authztest.Response)
	go func() { refused <- ask(stranger) }()
	<-asked
	authztest.WantStatus(t, "while the keys are fetched for a stranger", ask(s), http.StatusOK)
	close(hang)
	authztest.WantError(t, "the stranger", <-refused, http.StatusUnauthorized, "invalid_client")
	h.Invariants(t)
}
