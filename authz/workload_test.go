package authz_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/trust"
	"github.com/gatehouse-id/gatehouse/internal/event/eventtest"
	"github.com/gatehouse-id/gatehouse/storage"
)

const jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// buildServer is an issuer elsewhere that gives its jobs tokens, as GitHub Actions do.
type buildServer struct {
	*signer

	url     string
	fetches atomic.Int64
	jwksURI atomic.Pointer[string] // in place of its own
}

func newBuildServer(t testing.TB, alg jose.SignatureAlgorithm) *buildServer {
	t.Helper()
	b := &buildServer{signer: newSigner(t, "builds", alg)}
	set, err := json.Marshal(b.set())
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.fetches.Add(1)
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			uri := b.url + "/keys"
			if other := b.jwksURI.Load(); other != nil {
				uri = *other
			}
			json.NewEncoder(w).Encode(map[string]string{"issuer": b.url, "jwks_uri": uri}) //nolint:errcheck,errchkjson // the test sees it
		case "/keys":
			w.Write(set)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	b.url = web.URL
	return b
}

// job are the claims of the token of a job on the branch main.
func (b *buildServer) job(h *authztest.Harness, changes ...any) map[string]any {
	now := h.Clock.Now().Unix()
	c := b.claims(h)
	c["iss"], c["sub"], c["exp"], c["repository"] = b.url, "repo:example/app:ref:refs/heads/main", now+300, "example/app"
	for i := 0; i+1 < len(changes); i += 2 {
		name, _ := changes[i].(string)
		if c[name] = changes[i+1]; changes[i+1] == nil {
			delete(c, name)
		}
	}
	return c
}

// deployment is a client whose jobs have no secret, and the rule that lets them in.
func deployment(b *buildServer) authztest.Option {
	return authztest.WithConfig(func(c *authz.Config) {
		c.Clients = append(c.Clients, &client.Client{
			ID: "deploy", AuthMethod: "workload", Grants: []string{"jwt_bearer", "client_credentials"}, Scopes: []string{"deploy.read", "deploy.write", "orders.read", "secure.read"},
			Audiences: []string{"https://deploy.example.com"},
		})
		c.Trusted = []trust.Rule{{
			Issuer: b.url, Client: "deploy", Scopes: []string{"deploy.read", "deploy.write", "secure.read"},
			Match: []trust.Match{{Claim: "sub", Patterns: []string{"repo:example/app:ref:refs/heads/main", "repo:example/app:environment:*"}}, {Claim: "repository", Patterns: []string{"example/app"}}},
		}}
	})
}

func jobForm(raw string, more ...string) url.Values {
	f := url.Values{"grant_type": {jwtBearer}, "assertion": {raw}, "scope": {"deploy.write"}}
	for i := 0; i+1 < len(more); i += 2 {
		if f.Set(more[i], more[i+1]); more[i+1] == "" {
			f.Del(more[i])
		}
	}
	return f
}

// TestJobGetsTokenWithoutSecret: the token of a job is all that it needs.
func TestJobGetsTokenWithoutSecret(t *testing.T) {
	t.Parallel()
	b := newBuildServer(t, jose.RS256)
	h := authztest.New(t, deployment(b))
	res := h.Post("/oauth/token", jobForm(b.sign(t, b.job(h), "JWT"), "resource", "https://deploy.example.com"))
	wantStatus(t, "a job on main", res, http.StatusOK)
	wantAPIHeaders(t, "a job on main", res)
	if scopesOf(res) != "deploy.write" || res.Text("refresh_token") != "" || res.JSON()["expires_in"] != 900.0 {
		t.Errorf("answer = %s", res.Body)
	}
	about := h.Introspect(res.Text("access_token")).JSON()
	if about["active"] != true || about["client_id"] != "deploy" || about["sub"] != "deploy" || about["scope"] != "deploy.write" {
		t.Errorf("introspection = %v", about)
	}
	wantReason(t, h, "token.AccessTokenIssuedEvent", "workload repo:example/app:ref:refs/heads/main of "+b.url)
	wantStatus(t, "the environment staging", h.Post("/oauth/token", jobForm(b.sign(t, b.job(h, "sub", "repo:example/app:environment:staging"), ""))), http.StatusOK)
	res = h.Post("/oauth/token", jobForm(b.sign(t, b.job(h), ""), "scope", "deploy.read", "client_id", "deploy"))
	wantStatus(t, "the client named, another scope", res, http.StatusOK)
	// The same token is the client assertion of any other request.
	res = h.Post("/oauth/token", assertionForm(b.sign(t, b.job(h), ""), "scope", "deploy.read"))
	wantStatus(t, "as a client assertion", res, http.StatusOK)
	wantStatus(t, "revoke", h.Post("/oauth/revoke", assertionForm(b.sign(t, b.job(h), ""), "grant_type", "", "token", res.Text("access_token"))), http.StatusOK)
	wantActive(t, h, "after revoke", res.Text("access_token"), false)
	if n := b.fetches.Load(); n != 2 {
		t.Errorf("%d fetches, want the metadata and the keys once", n)
	}
	grants, _ := h.Get("/.well-known/openid-configuration").JSON()["grant_types_supported"].([]any)
	if !strings.Contains(strings.Join(texts(grants), " "), jwtBearer) {
		t.Errorf("grant_types_supported = %v", grants)
	}
	h.Invariants(t)
}

func texts(list []any) (out []string) {
	for _, v := range list {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// wantReason looks for an event of a type with a reason.
func wantReason(t *testing.T, h *authztest.Harness, kind, reason string) {
	t.Helper()
	var seen []string
	err := h.Store.View(t.Context(), func(tx storage.Tx) error {
		seen = nil
		for e, err := range eventtest.All(tx) {
			if err != nil {
				return err
			}
			if e.Type == kind {
				seen = append(seen, e.Reason)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seen {
		if strings.Contains(s, reason) {
			return
		}
	}
	t.Errorf("no event %s says %q: %q", kind, reason, seen)
}

// TestPodTokenFromFile: a cluster whose keys are a file, and whose pods have the same token for minutes.
func TestPodTokenFromFile(t *testing.T) {
	t.Parallel()
	b := newBuildServer(t, jose.ES256)
	h := authztest.New(t, deployment(b), authztest.WithConfig(func(c *authz.Config) {
		r := &c.Trusted[0]
		r.Scopes = []string{"deploy.write"}
		r.Issuer, r.Keys, r.Reuse, r.Audience = "https://kubernetes.default.svc.cluster.local", b.set(), true, "gatehouse"
		r.Match = []trust.Match{{Claim: "sub", Patterns: []string{"system:serviceaccount:shop:*"}}}
	}))
	pod := func(changes ...any) map[string]any {
		return b.job(h, append([]any{"iss", "https://kubernetes.default.svc.cluster.local", "aud", []string{"gatehouse"}, "sub", "system:serviceaccount:shop:worker", "jti", nil}, changes...)...)
	}
	raw := b.sign(t, pod(), "")
	for range 3 {
		wantStatus(t, "the token of the pod", h.Post("/oauth/token", jobForm(raw)), http.StatusOK)
	}
	if res := h.Post("/oauth/token", jobForm(raw, "scope", "")); scopesOf(res) != "deploy.write" {
		t.Errorf("without a scope = %d %s, want those of the rule", res.Status, res.Body)
	}
	wantError(t, "another namespace", h.Post("/oauth/token", jobForm(b.sign(t, pod("sub", "system:serviceaccount:shop-evil:worker"), ""))), http.StatusBadRequest, "invalid_grant")
	wantError(t, "a longer name", h.Post("/oauth/token", jobForm(b.sign(t, pod("sub", "system:serviceaccount:shop:worker:x"), ""))), http.StatusBadRequest, "invalid_grant")
	h.Clock.Advance(11 * time.Minute)
	wantError(t, "eleven minutes old", h.Post("/oauth/token", jobForm(raw)), http.StatusBadRequest, "invalid_grant")
	if n := b.fetches.Load(); n != 0 {
		t.Errorf("%d fetches, want none", n)
	}
	h.Invariants(t)
}

func TestWorkloadAttacks(t *testing.T) {
	t.Parallel()
	b, other := newBuildServer(t, jose.RS256), newBuildServer(t, jose.ES256)
	refused := func(t *testing.T, h *authztest.Harness, what string, f url.Values) {
		t.Helper()
		wantError(t, what, h.Post("/oauth/token", f), http.StatusBadRequest, "invalid_grant")
	}
	t.Run("attack 451: tokens of a trusted issuer that are not good", func(t *testing.T) {
		t.Parallel()
		h := authztest.New(t, deployment(b))
		now := h.Clock.Now().Unix()
		long := strings.Repeat("x", 2000)
		good := b.sign(t, b.job(h), "")
		for name, raw := range map[string]string{
			"another issuer's key, our issuer's name": signWith(t, jose.ES256, other.key, b.kid, b.job(h), ""),
			"another issuer":                other.sign(t, other.job(h), ""),
			"another algorithm":             signWith(t, jose.PS256, b.key, b.kid, b.job(h), ""),
			"HS256":                         signWith(t, jose.HS256, []byte(long), b.kid, b.job(h), ""),
			"aud of another server":         b.sign(t, b.job(h, "aud", "https://as.example.net"), ""),
			"two audiences":                 b.sign(t, b.job(h, "aud", []string{h.Issuer, "https://as.example.net"}), ""),
			"no audience":                   b.sign(t, b.job(h, "aud", nil), ""),
			"another branch":                b.sign(t, b.job(h, "sub", "repo:example/app:ref:refs/heads/evil"), ""),
			"a pull request":                b.sign(t, b.job(h, "sub", "repo:example/app:pull_request"), ""),
			"a repository of a longer name": b.sign(t, b.job(h, "sub", "repo:example/app-evil:ref:refs/heads/main"), ""),
			"another repository claim":      b.sign(t, b.job(h, "repository", "example/other"), ""),
			"the claim as a list":           b.sign(t, b.job(h, "repository", []string{"example/app"}), ""),
			"without the claim":             b.sign(t, b.job(h, "repository", nil), ""),
			"an environment over a colon":   b.sign(t, b.job(h, "sub", "repo:example/app:environment:a:b"), ""),
			"expired":                       b.sign(t, b.job(h, "exp", now), ""),
			"without exp":                   b.sign(t, b.job(h, "exp", nil), ""),
			"without iat":                   b.sign(t, b.job(h, "iat", nil), ""),
			"old":                           b.sign(t, b.job(h, "iat", now-700), ""),
			"from the future":               b.sign(t, b.job(h, "iat", now+120), ""),
			"not valid yet":                 b.sign(t, b.job(h, "nbf", now+120), ""),
			"without jti":                   b.sign(t, b.job(h, "jti", nil), ""),
			"long jti":                      b.sign(t, b.job(h, "jti", long), ""),
			"without sub":                   b.sign(t, b.job(h, "sub", nil), ""),
			"an access token by its type":   b.sign(t, b.job(h), "at+jwt"),
			"a logout token by its type":    b.sign(t, b.job(h), "logout+jwt"),
			"changed":                       good[:len(good)-4] + "AAAA",
			"no JWT":                        "nonsense",
			"too long":                      strings.Repeat("x", 17<<10),
		} {
			refused(t, h, name, jobForm(raw))
		}
		refused(t, h, "for another client", jobForm(b.sign(t, b.job(h), ""), "client_id", "reports"))
		wantError(t, "none", h.Post("/oauth/token", jobForm("")), http.StatusBadRequest, "invalid_request")
		wantStatus(t, "in the address", h.Post("/oauth/token?assertion="+b.sign(t, b.job(h), ""), jobForm("")), http.StatusBadRequest)
		wantError(t, "as a client assertion", h.Post("/oauth/token", assertionForm(b.sign(t, b.job(h, "sub", "repo:example/app:pull_request"), ""))), http.StatusUnauthorized, "invalid_client")
		if strings.Contains(h.Log(), good[:60]) {
			t.Error("a token is in the log")
		}
		wantEvent(t, h, "", "token.AccessTokenIssuedEvent", 0)
		h.Invariants(t)
	})
	attack(t, "attack 452: a token of a job used twice, by many at the same time, after a restart, in another way", func(t *testing.T, h *authztest.Harness) {
		raw := b.sign(t, b.job(h), "")
		answers := together(20, func(int) *authztest.Response { return h.Post("/oauth/token", jobForm(raw)) })
		if n := countStatus(answers, http.StatusOK); n != 1 || countStatus(answers, http.StatusBadRequest) != 19 {
			t.Errorf("one token was taken %d times, want once", n)
		}
		h.Restart(nil)
		h.Clock.Advance(4 * time.Minute)
		refused(t, h, "replay", jobForm(raw))
		wantError(t, "replay as a client assertion", h.Post("/oauth/token", assertionForm(raw)), http.StatusUnauthorized, "invalid_client")
		raw = b.sign(t, b.job(h), "")
		wantStatus(t, "as a client assertion", h.Post("/oauth/token", assertionForm(raw, "scope", "deploy.read")), http.StatusOK)
		refused(t, h, "then as a grant", jobForm(raw))
		// The record of its use stays as long as the token could be good.
		h.Clock.Advance(5 * time.Minute)
		h.Sweep()
		refused(t, h, "after a sweep", jobForm(raw))
	}, deployment(b))
	attack(t, "attack 453: more than the workload is given", func(t *testing.T, h *authztest.Harness) {
		ask := func(more ...string) *authztest.Response {
			return h.Post("/oauth/token", jobForm(b.sign(t, b.job(h), ""), more...))
		}
		wantError(t, "a scope of the client, not of the rule", ask("scope", "orders.read"), http.StatusBadRequest, "invalid_scope")
		wantError(t, "the same as a client assertion", h.Post("/oauth/token", assertionForm(b.sign(t, b.job(h), ""), "scope", "orders.read")), http.StatusBadRequest, "invalid_scope")
		wantError(t, "a scope of nobody", ask("scope", "admin"), http.StatusBadRequest, "invalid_scope")
		wantError(t, "a scope that needs a person", ask("scope", "secure.read"), http.StatusBadRequest, "invalid_scope")
		wantError(t, "another resource", ask("resource", "https://api.example.com"), http.StatusBadRequest, "invalid_target")
		// Nobody is the client by its name, nor by a secret.
		wantError(t, "the name alone", h.Post("/oauth/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"deploy"}, "scope": {"deploy.read"}}), http.StatusUnauthorized, "invalid_client")
		wantError(t, "a secret", h.Token("deploy", url.Values{"grant_type": {"client_credentials"}, "scope": {"deploy.read"}}), http.StatusUnauthorized, "invalid_client")
		wantError(t, "another client's credentials beside it", h.Token("shop", jobForm(b.sign(t, b.job(h), ""))), http.StatusBadRequest, "unauthorized_client")
		wantError(t, "a client assertion beside it", h.Post("/oauth/token", jobForm(b.sign(t, b.job(h), ""), "client_assertion_type", assertionType, "client_assertion", b.sign(t, b.job(h), ""))), http.StatusBadRequest, "invalid_request")
		h.Restart(func(c *authz.Config) {
			changeClient(c, "deploy", func(c *client.Client) { c.Grants = []string{"client_credentials"} })
		})
		wantError(t, "without the grant", ask(), http.StatusBadRequest, "unauthorized_client")
		h.Restart(func(c *authz.Config) { changeClient(c, "deploy", func(c *client.Client) { c.Disabled = true }) })
		wantError(t, "disabled", ask(), http.StatusUnauthorized, "invalid_client")
	}, deployment(b))
	t.Run("attack 454: keys of a trusted issuer from elsewhere, and an issuer asked again and again", func(t *testing.T) {
		t.Parallel()
		var hits atomic.Int64
		inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
		t.Cleanup(inside.Close)
		b := newBuildServer(t, jose.ES256)
		uri := inside.URL + "/keys"
		b.jwksURI.Store(&uri)
		h := authztest.New(t, deployment(b))
		for range 5 {
			wantError(t, "keys in our network", h.Post("/oauth/token", jobForm(b.sign(t, b.job(h), ""))), http.StatusServiceUnavailable, "temporarily_unavailable")
		}
		if n := hits.Load(); n != 0 {
			t.Errorf("%d requests to an address of the metadata, want none", n)
		}
		if n := b.fetches.Load(); n != 1 {
			t.Errorf("%d fetches in a minute, want 1", n)
		}
		b.jwksURI.Store(nil)
		h.Clock.Advance(time.Minute)
		wantStatus(t, "its own keys", h.Post("/oauth/token", jobForm(b.sign(t, b.job(h), ""))), http.StatusOK)
		before := b.fetches.Load()
		for range 5 {
			refused(t, h, "an unknown key", jobForm(signWith(t, jose.ES256, other.key, "unknown", b.job(h), "")))
		}
		if n := b.fetches.Load() - before; n != 0 {
			t.Errorf("%d fetches for unknown keys within a minute, want none", n)
		}
	})
}

// TestTrustedIssuerIsWrong: what is wrong with a trusted issuer is said at the start.
func TestTrustedIssuerIsWrong(t *testing.T) {
	t.Parallel()
	b := newBuildServer(t, jose.ES256)
	h := authztest.New(t, deployment(b))
	for name, tc := range map[string]struct {
		change func(*authz.Config)
		want   string
	}{
		"no client":       {func(c *authz.Config) { c.Trusted[0].Client = "nobody" }, `there is no client "nobody"`},
		"another method":  {func(c *authz.Config) { c.Trusted[0].Client = "shop" }, "auth_method workload"},
		"no match":        {func(c *authz.Config) { c.Trusted[0].Match = nil }, "match is missing"},
		"match for all":   {func(c *authz.Config) { c.Trusted[0].Match = []trust.Match{{Claim: "sub", Patterns: []string{"*:*"}}} }, "fits everybody"},
		"http":            {func(c *authz.Config) { c.Trusted[0].Issuer = "http://builds.example.com" }, "must be https"},
		"nobody names it": {func(c *authz.Config) { c.Trusted = nil }, "no trust_issuer names it"},
		"a secret": {func(c *authz.Config) {
			changeClient(c, "shop", func(c *client.Client) { c.AuthMethod = "workload" })
		}, "remove either"},
		"the grant without the method": {func(c *authz.Config) {
			changeClient(c, "reports", func(c *client.Client) { c.Grants = []string{"jwt_bearer"} })
		}, "auth_method workload"},
	} {
		err := h.Try(func(c *authz.Config) {
			c.Trusted, c.Clients = slices.Clone(c.Trusted), slices.Clone(c.Clients)
			tc.change(c)
		})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
