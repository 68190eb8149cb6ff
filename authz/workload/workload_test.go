package workload_test

import (
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
	"github.com/gatehouse-id/gatehouse/authz/workload"
)

// TestJobGetsTokenWithoutSecret: the token of a job is all that it needs.
func TestJobGetsTokenWithoutSecret(t *testing.T) {
	t.Parallel()
	b := authztest.NewBuildServer(t, jose.RS256)
	h := authztest.New(t, authztest.WithDeployment(b))
	res := h.Post("/oauth/token", authztest.JobForm(b.Sign(t, b.Job(h), "JWT"), "resource", "https://deploy.example.com"))
	authztest.WantStatus(t, "a job on main", res, http.StatusOK)
	authztest.WantAPIHeaders(t, "a job on main", res)
	if authztest.ScopesOf(res) != "deploy.write" || res.Text("refresh_token") != "" || res.JSON()["expires_in"] != 900.0 {
		t.Errorf("answer = %s", res.Body)
	}
	about := h.Introspect(res.Text("access_token")).JSON()
	if about["active"] != true || about["client_id"] != "deploy" || about["sub"] != "deploy" || about["scope"] != "deploy.write" {
		t.Errorf("introspection = %v", about)
	}
	authztest.WantReason(t, h, "token.AccessTokenIssuedEvent", "workload repo:example/app:ref:refs/heads/main of "+b.URL)
	authztest.WantStatus(t, "the environment staging",
		h.Post("/oauth/token", authztest.JobForm(b.Sign(t, b.Job(h, "sub", "repo:example/app:environment:staging"), ""))), http.StatusOK)
	res = h.Post("/oauth/token", authztest.JobForm(b.Sign(t, b.Job(h), ""), "scope", "deploy.read", "client_id", "deploy"))
	authztest.WantStatus(t, "the client named, another scope", res, http.StatusOK)
	// The same token is the client assertion of any other request.
	res = h.Post("/oauth/token", authztest.AssertionForm(b.Sign(t, b.Job(h), ""), "scope", "deploy.read"))
	authztest.WantStatus(t, "as a client assertion", res, http.StatusOK)
	authztest.WantStatus(t, "revoke",
		h.Post("/oauth/revoke", authztest.AssertionForm(b.Sign(t, b.Job(h), ""), "grant_type", "", "token", res.Text("access_token"))),
		http.StatusOK)
	authztest.WantActive(t, h, "after revoke", res.Text("access_token"), false)
	if n := b.Fetches.Load(); n != 2 {
		t.Errorf("%d fetches, want the metadata and the keys once", n)
	}
	grants, _ := h.Get("/.well-known/openid-configuration").JSON()["grant_types_supported"].([]any)
	if !strings.Contains(strings.Join(authztest.Texts(grants), " "), authztest.JWTBearer) {
		t.Errorf("grant_types_supported = %v", grants)
	}
	h.Invariants(t)
}

// TestPodTokenFromFile: a cluster whose keys are a file, and whose pods have the same token for minutes.
func TestPodTokenFromFile(t *testing.T) {
	t.Parallel()
	b := authztest.NewBuildServer(t, jose.ES256)
	h := authztest.New(t, authztest.WithDeployment(b), authztest.WithConfig(func(c *authz.Config) {
		r := &c.Trusted[0]
		r.Scopes = []string{"deploy.write"}
		r.Issuer, r.Keys, r.Reuse, r.Audience = "https://kubernetes.default.svc.cluster.local", b.Set(), true, "gatehouse"
		r.Match = []workload.Match{{Claim: "sub", Patterns: []string{"system:serviceaccount:shop:*"}}}
	}))
	pod := func(changes ...any) map[string]any {
		return b.Job(h, append([]any{
			"iss", "https://kubernetes.default.svc.cluster.local", "aud",
			[]string{"gatehouse"},
			"sub",
			"system:serviceaccount:shop:worker", "jti", nil,
		}, changes...)...)
	}
	raw := b.Sign(t, pod(), "")
	for range 3 {
		authztest.WantStatus(t, "the token of the pod", h.Post("/oauth/token", authztest.JobForm(raw)), http.StatusOK)
	}
	if res := h.Post("/oauth/token", authztest.JobForm(raw, "scope", "")); authztest.ScopesOf(res) != "deploy.write" {
		t.Errorf("without a scope = %d %s, want those of the rule", res.Status, res.Body)
	}
	authztest.WantError(t, "another namespace",
		h.Post("/oauth/token", authztest.JobForm(b.Sign(t, pod("sub", "system:serviceaccount:shop-evil:worker"), ""))),
		http.StatusBadRequest, "invalid_grant")
	authztest.WantError(t, "a longer name",
		h.Post("/oauth/token", authztest.JobForm(b.Sign(t, pod("sub", "system:serviceaccount:shop:worker:x"), ""))),
		http.StatusBadRequest, "invalid_grant")
	h.Clock.Advance(11 * time.Minute)
	authztest.WantError(t, "eleven minutes old", h.Post("/oauth/token", authztest.JobForm(raw)), http.StatusBadRequest, "invalid_grant")
	if n := b.Fetches.Load(); n != 0 {
		t.Errorf("%d fetches, want none", n)
	}
	h.Invariants(t)
}

func TestWorkloadAttacks(t *testing.T) {
	t.Parallel()
	b, other := authztest.NewBuildServer(t, jose.RS256), authztest.NewBuildServer(t, jose.ES256)
	refused := func(t *testing.T, h *authztest.Harness, what string, f url.Values) {
		t.Helper()
		authztest.WantError(t, what, h.Post("/oauth/token", f), http.StatusBadRequest, "invalid_grant")
	}
	t.Run("attack 451: tokens of a trusted issuer that are not good", func(t *testing.T) {
		t.Parallel()
		h := authztest.New(t, authztest.WithDeployment(b))
		now := h.Clock.Now().Unix()
		long := strings.Repeat("x", 2000)
		good := b.Sign(t, b.Job(h), "")
		for name, raw := range map[string]string{
			"another issuer's key, our issuer's name": authztest.SignWith(t, jose.ES256, other.Key, b.Kid, b.Job(h), ""),
			"another issuer":                other.Sign(t, other.Job(h), ""),
			"another algorithm":             authztest.SignWith(t, jose.PS256, b.Key, b.Kid, b.Job(h), ""),
			"HS256":                         authztest.SignWith(t, jose.HS256, []byte(long), b.Kid, b.Job(h), ""),
			"aud of another server":         b.Sign(t, b.Job(h, "aud", "https://as.example.net"), ""),
			"two audiences":                 b.Sign(t, b.Job(h, "aud", []string{h.Issuer, "https://as.example.net"}), ""),
			"no audience":                   b.Sign(t, b.Job(h, "aud", nil), ""),
			"another branch":                b.Sign(t, b.Job(h, "sub", "repo:example/app:ref:refs/heads/evil"), ""),
			"a pull request":                b.Sign(t, b.Job(h, "sub", "repo:example/app:pull_request"), ""),
			"a repository of a longer name": b.Sign(t, b.Job(h, "sub", "repo:example/app-evil:ref:refs/heads/main"), ""),
			"another repository claim":      b.Sign(t, b.Job(h, "repository", "example/other"), ""),
			"the claim as a list":           b.Sign(t, b.Job(h, "repository", []string{"example/app"}), ""),
			"without the claim":             b.Sign(t, b.Job(h, "repository", nil), ""),
			"an environment over a colon":   b.Sign(t, b.Job(h, "sub", "repo:example/app:environment:a:b"), ""),
			"expired":                       b.Sign(t, b.Job(h, "exp", now), ""),
			"without exp":                   b.Sign(t, b.Job(h, "exp", nil), ""),
			"without iat":                   b.Sign(t, b.Job(h, "iat", nil), ""),
			"old":                           b.Sign(t, b.Job(h, "iat", now-700), ""),
			"from the future":               b.Sign(t, b.Job(h, "iat", now+120), ""),
			"not valid yet":                 b.Sign(t, b.Job(h, "nbf", now+120), ""),
			"without jti":                   b.Sign(t, b.Job(h, "jti", nil), ""),
			"long jti":                      b.Sign(t, b.Job(h, "jti", long), ""),
			"without sub":                   b.Sign(t, b.Job(h, "sub", nil), ""),
			"an access token by its type":   b.Sign(t, b.Job(h), "at+jwt"),
			"a logout token by its type":    b.Sign(t, b.Job(h), "logout+jwt"),
			"changed":                       good[:len(good)-4] + "AAAA",
			"no JWT":                        "nonsense",
			"too long":                      strings.Repeat("x", 17<<10),
		} {
			refused(t, h, name, authztest.JobForm(raw))
		}
		refused(t, h, "for another client", authztest.JobForm(b.Sign(t, b.Job(h), ""), "client_id", "reports"))
		authztest.WantError(t, "none", h.Post("/oauth/token", authztest.JobForm("")), http.StatusBadRequest, "invalid_request")
		authztest.WantStatus(t, "in the address", h.Post("/oauth/token?assertion="+b.Sign(t, b.Job(h), ""), authztest.JobForm("")),
			http.StatusBadRequest)
		authztest.WantError(t, "as a client assertion",
			h.Post("/oauth/token", authztest.AssertionForm(b.Sign(t, b.Job(h, "sub", "repo:example/app:pull_request"), ""))),
			http.StatusUnauthorized, "invalid_client")
		if strings.Contains(h.Log(), good[:60]) {
			t.Error("a token is in the log")
		}
		authztest.WantEvent(t, h, "", "token.AccessTokenIssuedEvent", 0)
		h.Invariants(t)
	})
	authztest.Attack(t, "attack 452: a token of a job used twice, by many at the same time, after a restart, in another way",
		func(t *testing.T, h *authztest.Harness) {
			raw := b.Sign(t, b.Job(h), "")
			answers := authztest.Together(20, func(int) *authztest.Response { return h.Post("/oauth/token", authztest.JobForm(raw)) })
			if n := authztest.CountStatus(answers, http.StatusOK); n != 1 || authztest.CountStatus(answers, http.StatusBadRequest) != 19 {
				t.Errorf("one token was taken %d times, want once", n)
			}
			h.Restart(nil)
			h.Clock.Advance(4 * time.Minute)
			refused(t, h, "replay", authztest.JobForm(raw))
			authztest.WantError(t, "replay as a client assertion", h.Post("/oauth/token", authztest.AssertionForm(raw)),
				http.StatusUnauthorized, "invalid_client")
			raw = b.Sign(t, b.Job(h), "")
			authztest.WantStatus(t, "as a client assertion", h.Post("/oauth/token", authztest.AssertionForm(raw, "scope", "deploy.read")),
				http.StatusOK)
			refused(t, h, "then as a grant", authztest.JobForm(raw))
			// The record of its use stays as long as the token could be good.
			h.Clock.Advance(5 * time.Minute)
			h.Sweep()
			refused(t, h, "after a sweep", authztest.JobForm(raw))
		}, authztest.WithDeployment(b))
	authztest.Attack(t, "attack 453: more than the workload is given", func(t *testing.T, h *authztest.Harness) {
		ask := func(more ...string) *authztest.Response {
			return h.Post("/oauth/token", authztest.JobForm(b.Sign(t, b.Job(h), ""), more...))
		}
		authztest.WantError(t, "a scope of the client, not of the rule", ask("scope", "orders.read"), http.StatusBadRequest, "invalid_scope")
		authztest.WantError(t, "the same as a client assertion",
			h.Post("/oauth/token", authztest.AssertionForm(b.Sign(t, b.Job(h), ""), "scope", "orders.read")), http.StatusBadRequest, "invalid_scope")
		authztest.WantError(t, "a scope of nobody", ask("scope", "admin"), http.StatusBadRequest, "invalid_scope")
		authztest.WantError(t, "a scope that needs a person", ask("scope", "secure.read"), http.StatusBadRequest, "invalid_scope")
		authztest.WantError(t, "another resource", ask("resource", "https://api.example.com"), http.StatusBadRequest, "invalid_target")
		// No one is the client by its name, nor by a secret.
		authztest.WantError(t, "the name alone",
			h.Post("/oauth/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"deploy"}, "scope": {"deploy.read"}}),
			http.StatusUnauthorized, "invalid_client")
		authztest.WantError(t, "a secret", h.Token("deploy", url.Values{"grant_type": {"client_credentials"}, "scope": {"deploy.read"}}),
			http.StatusUnauthorized, "invalid_client")
		authztest.WantError(t, "another client's credentials beside it", h.Token("shop", authztest.JobForm(b.Sign(t, b.Job(h), ""))),
			http.StatusBadRequest, "unauthorized_client")
		authztest.WantError(t, "a client assertion beside it",
			h.Post("/oauth/token", authztest.JobForm(b.Sign(t, b.Job(h), ""), "client_assertion_type", authztest.AssertionType, "client_assertion",
				b.Sign(t, b.Job(h), ""))), http.StatusBadRequest, "invalid_request")
		h.Restart(func(c *authz.Config) {
			authztest.ChangeClient(c, "deploy", func(c *client.Client) { c.Grants = []string{"client_credentials"} })
		})
		authztest.WantError(t, "without the grant", ask(), http.StatusBadRequest, "unauthorized_client")
		h.Restart(func(c *authz.Config) {
			authztest.ChangeClient(c, "deploy", func(c *client.Client) { c.Disabled = true })
		})
		authztest.WantError(t, "disabled", ask(), http.StatusUnauthorized, "invalid_client")
	}, authztest.WithDeployment(b))
	t.Run("attack 454: keys of a trusted issuer from elsewhere, and an issuer asked again and again", func(t *testing.T) {
		t.Parallel()
		var hits atomic.Int64
		inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
		t.Cleanup(inside.Close)
		b := authztest.NewBuildServer(t, jose.ES256)
		uri := inside.URL + "/keys"
		b.JwksURI.Store(&uri)
		h := authztest.New(t, authztest.WithDeployment(b))
		for range 5 {
			authztest.WantError(t, "keys in our network", h.Post("/oauth/token", authztest.JobForm(b.Sign(t, b.Job(h), ""))),
				http.StatusServiceUnavailable, "temporarily_unavailable")
		}
		if n := hits.Load(); n != 0 {
			t.Errorf("%d requests to an address of the metadata, want none", n)
		}
		if n := b.Fetches.Load(); n != 1 {
			t.Errorf("%d fetches in a minute, want 1", n)
		}
		b.JwksURI.Store(nil)
		h.Clock.Advance(time.Minute)
		authztest.WantStatus(t, "its own keys", h.Post("/oauth/token", authztest.JobForm(b.Sign(t, b.Job(h), ""))), http.StatusOK)
		before := b.Fetches.Load()
		for range 5 {
			refused(t, h, "an unknown key", authztest.JobForm(authztest.SignWith(t, jose.ES256, other.Key, "unknown", b.Job(h), "")))
		}
		if n := b.Fetches.Load() - before; n != 0 {
			t.Errorf("%d fetches for unknown keys within a minute, want none", n)
		}
	})
}

// TestTrustedIssuerIsWrong: what is wrong with a trusted issuer is said at the start.
func TestTrustedIssuerIsWrong(t *testing.T) {
	t.Parallel()
	b := authztest.NewBuildServer(t, jose.ES256)
	h := authztest.New(t, authztest.WithDeployment(b))
	for name, tc := range map[string]struct {
		change func(*authz.Config)
		want   string
	}{
		"no client":      {func(c *authz.Config) { c.Trusted[0].Client = "nobody" }, `there is no client "nobody"`},
		"another method": {func(c *authz.Config) { c.Trusted[0].Client = "shop" }, "auth_method workload"},
		"no match":       {func(c *authz.Config) { c.Trusted[0].Match = nil }, "match is missing"},
		"match for all": {func(c *authz.Config) {
			c.Trusted[0].Match = []workload.Match{{Claim: "sub", Patterns: []string{"*:*"}}}
		}, "fits everybody"},
		"http":            {func(c *authz.Config) { c.Trusted[0].Issuer = "http://builds.example.com" }, "must be https"},
		"nobody names it": {func(c *authz.Config) { c.Trusted = nil }, "no trust_issuer names it"},
		"a secret": {func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) { c.AuthMethod = "workload" })
		}, "remove either"},
		"the grant without the method": {func(c *authz.Config) {
			authztest.ChangeClient(c, "reports", func(c *client.Client) { c.Grants = []string{"jwt_bearer"} })
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
