package grant_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestRevokeAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 79: a revoked token is inactive at once", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("shop", authztest.Demo)
		for _, path := range []string{"/oauth/revoke", "/oauth/v1/revoke"} {
			res := h.Call(path, "shop", url.Values{"token": {got.Access}})
			if res.Status != 200 || res.Body != "" {
				t.Errorf("%s = %d %q, want 200 and nothing", path, res.Status, res.Body)
			}
			authztest.WantAPIHeaders(t, path, res)
			authztest.WantActive(t, h, "access token", got.Access, false)
		}
		authztest.WantEvent(t, h, authztest.Demo, "token.AccessTokenRevokedEvent", 1)
		authztest.WantActive(t, h, "its refresh token", got.Refresh, true) // an access token takes nothing along
		next := h.Refresh("shop", got.Refresh)
		authztest.WantStatus(t, "revoke", h.Revoke("shop", next.Text("refresh_token")), 200)
		authztest.WantActive(t, h, "refresh token", next.Text("refresh_token"), false)
		authztest.WantActive(t, h, "access token of the same grant", next.Text("access_token"), false)
		authztest.WantEvent(t, h, authztest.Demo, "token.RefreshTokenRevokedEvent", 1)
	})
	authztest.Attack(t, "attack 79: a public client revokes", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("spa", authztest.Demo)
		authztest.WantError(t, "no client_id", h.Post("/oauth/revoke", url.Values{"token": {got.Refresh}}), 400, "invalid_request")
		authztest.WantActive(t, h, "without client_id", got.Refresh, true)
		authztest.WantStatus(t, "with", h.Revoke("spa", got.Refresh), 200)
		authztest.WantActive(t, h, "revoked", got.Access, false)
	})
	authztest.Attack(t, "attack 81: another client's token", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("shop", authztest.Demo)
		want := h.Revoke("other", "unknown")
		for _, token := range []string{got.Access, got.Refresh} {
			res := h.Revoke("other", token)
			if res.Status != want.Status || res.Body != want.Body {
				t.Errorf("another's = %d %q, want the answer for an unknown one: %d %q", res.Status, res.Body, want.Status, want.Body)
			}
			authztest.WantActive(t, h, "after", token, true)
		}
		authztest.WantEvent(t, h, authztest.Demo, "token.AccessTokenRevokedEvent", 0)
	})
	authztest.Attack(t, "attack 82: garbage, nothing, no token", func(t *testing.T, h *authztest.Harness) {
		authztest.WantStatus(t, "garbage", h.Revoke("shop", "garbage"), 200)
		authztest.WantStatus(t, "long garbage", h.Revoke("shop", strings.Repeat("x", 10_000)), 200)
		authztest.WantError(t, "empty", h.Revoke("shop", ""), 400, "invalid_request")
		authztest.WantError(t, "none", h.Call("/oauth/revoke", "shop", url.Values{}), 400, "invalid_request")
		authztest.WantError(t, "stranger", h.Post("/oauth/revoke", url.Values{"token": {"x"}}, authztest.Basic("x", "y")...), 401,
			"invalid_client")
		authztest.WantError(t, "GET", h.Get("/oauth/revoke?token=x"), 405, "invalid_request")
	})
	authztest.Attack(t, "attack 83: a wrong hint", func(t *testing.T, h *authztest.Harness) {
		for _, hint := range []string{"refresh_token", "foo", "access_token"} {
			got := h.Tokens("shop", authztest.Demo)
			authztest.WantStatus(t, hint, h.Call("/oauth/revoke", "shop", url.Values{"token": {got.Access}, "token_type_hint": {hint}}), 200)
			authztest.WantActive(t, h, hint, got.Access, false)
			authztest.WantStatus(t, hint, h.Call("/oauth/revoke", "shop", url.Values{"token": {got.Refresh}, "token_type_hint": {hint}}), 200)
			authztest.WantActive(t, h, hint, got.Refresh, false)
		}
	})
	authztest.Attack(t, "attack 84: the store fails", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("shop", authztest.Demo)
		code := h.Browser(authztest.Demo).Code("shop")
		for _, failure := range []error{storage.ErrFull, storage.ErrUnavailable, storage.ErrCorrupt} {
			h.AllowFailures()
			h.Store.Fail(failure)
			for what, res := range map[string]*authztest.Response{
				"revoke": h.Revoke("shop", got.Access), "revoke refresh": h.Revoke("shop", got.Refresh), "introspect": h.Introspect(got.Access),
				"refresh": h.Refresh("shop", got.Refresh), "code": h.Redeem("shop", code), "own": authztest.OwnToken(h),
			} {
				authztest.WantError(t, what, res, 503, "temporarily_unavailable")
				if res.Header.Get("Retry-After") == "" {
					t.Errorf("%s: no Retry-After", what)
				}
			}
			h.Store.Fail(nil)
			authztest.WantActive(t, h, "after", got.Access, true)
		}
		h.People.Fail(storage.ErrCorrupt)
		authztest.WantError(t, "people", h.Introspect(got.Access), 503, "temporarily_unavailable")
		authztest.WantError(t, "people", h.Refresh("shop", got.Refresh), 503, "temporarily_unavailable")
		h.People.Fail(nil)
		authztest.WantStatus(t, "code afterwards", h.Redeem("shop", code), 200)
		authztest.WantStatus(t, "revoke afterwards", h.Revoke("shop", got.Access), 200)
		authztest.WantActive(t, h, "revoked", got.Access, false)
	})
}

func TestIntrospectAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 86: who may introspect", func(t *testing.T, h *authztest.Harness) {
		f := url.Values{"token": {authztest.OwnToken(h).Text("access_token")}}
		authztest.WantError(t, "nobody", h.Post(authztest.IntrospectPath, f), 401, "invalid_client")
		wrong := h.Post(authztest.IntrospectPath, f, authztest.Basic("ops", "wrong")...)
		authztest.WantError(t, "wrong secret", wrong, 401, "invalid_client")
		for name, res := range map[string]*authztest.Response{
			"unknown":      h.Post(authztest.IntrospectPath, f, authztest.Basic("nobody", "wrong")...),
			"OAuth, wrong": h.Post(authztest.IntrospectPath, f, authztest.Basic("shop", "wrong")...),
			"body secret": h.Post(authztest.IntrospectPath,
				url.Values{"token": f["token"], "client_id": {"ops"}, "client_secret": {authztest.Secret("ops")}}),
		} {
			if res.Status != 401 || res.Body != wrong.Body || !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("%s = %d %s, want the bytes of a wrong secret", name, res.Status, res.Body)
			}
		}
		// A client with the right secret learns that it cannot ask, and nothing else.
		if res := authztest.IntrospectAs(h, "shop", f); res.Status != 401 || res.Text("error") != "invalid_client" ||
			strings.Contains(res.Body, "active") {
			t.Errorf("OAuth = %d %s, want 401 invalid_client", res.Status, res.Body)
		}
		authztest.WantError(t, "another API", authztest.IntrospectAs(h, "auditor", f), 403, "access_denied")
		basic := authztest.Basic("ops", authztest.Secret("ops"))
		authztest.WantError(t, "two headers", h.Post(authztest.IntrospectPath, f, append(basic, basic...)...), 400, "invalid_request")
		authztest.WantStatus(t, "ops", authztest.IntrospectAs(h, "ops", f), 200)
	})
	authztest.Attack(t, "attack 87: inactive tokens are one answer", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo)
		revoked, spent := b.Tokens("shop"), b.Tokens("shop")
		h.Revoke("shop", revoked.Access)
		h.Refresh("shop", spent.Refresh)
		unknown, err := secret.NewToken(authztest.Randomness, secret.AccessToken)
		if err != nil {
			t.Fatal(err)
		}
		expired := authztest.OwnToken(h).Text("access_token")
		h.Clock.Advance(15 * time.Minute)
		var first *authztest.Response
		for what, token := range map[string]string{
			"garbage": "garbage", "unknown": unknown, "revoked": revoked.Access, "expired": expired, "spent refresh token": spent.Refresh,
			"code": b.Code("shop"), "ID token": b.Tokens("shop").ID, "long": strings.Repeat("a", 20_000),
		} {
			res := h.Introspect(token)
			if res.Status != 200 || res.Body != `{"active":false}` {
				t.Errorf("%s = %d %s, want {\"active\":false}", what, res.Status, res.Body)
			}
			if first == nil {
				first = res
			}
			for _, name := range []string{"Content-Type", "Content-Length", "Cache-Control", "Pragma", "Vary"} {
				if res.Header.Get(name) != first.Header.Get(name) {
					t.Errorf("%s: %s = %q, want %q", what, name, res.Header.Get(name), first.Header.Get(name))
				}
			}
		}
	})
	authztest.Attack(t, "attack 88: an API client for another audience", func(t *testing.T, h *authztest.Harness) {
		token := authztest.OwnToken(h).Text("access_token")
		meant := authztest.OwnToken(h, "resource", "https://api.example.com").Text("access_token")
		for _, token := range []string{token, meant} {
			if res := authztest.IntrospectAs(h, "narrow", url.Values{"token": {token}}); res.Body != `{"active":false}` {
				t.Errorf("narrow = %d %s, want inactive", res.Status, res.Body)
			}
			authztest.WantActive(t, h, "ops", token, true)
		}
	})
	authztest.Attack(t, "attack 88: an API client for this audience", func(t *testing.T, h *authztest.Harness) {
		meant := authztest.OwnToken(h, "resource", "https://narrow.example.com").Text("access_token")
		if res := authztest.IntrospectAs(h, "narrow", url.Values{"token": {meant}}); !strings.Contains(res.Body, `"active":true`) {
			t.Errorf("narrow = %d %s, want active", res.Status, res.Body)
		}
	}, authztest.WithConfig(authztest.NarrowAudience))
	authztest.Attack(t, "attack 89: other ways to ask", func(t *testing.T, h *authztest.Harness) {
		token := authztest.OwnToken(h).Text("access_token")
		basic := authztest.Basic("ops", authztest.Secret("ops"))
		res := h.Get(authztest.IntrospectPath+"?token="+token, basic...)
		authztest.WantError(t, "GET", res, 405, "invalid_request")
		if res.Header.Get("Allow") != http.MethodPost {
			t.Errorf("Allow = %q, want POST", res.Header.Get("Allow"))
		}
		authztest.WantError(t, "query", h.Post(authztest.IntrospectPath+"?token="+token, url.Values{}, basic...), 400, "invalid_request")
		authztest.WantError(t, "query and body", h.Post(authztest.IntrospectPath+"?token="+token, url.Values{"token": {token}}, basic...), 400,
			"invalid_request")
		res = h.Do(http.MethodPost, authztest.IntrospectPath, `{"token":"`+token+`"}`, append(basic, "Content-Type", "application/json")...)
		authztest.WantError(t, "JSON", res, 400, "invalid_request")
		authztest.WantError(t, "none", h.Post(authztest.IntrospectPath, url.Values{}, basic...), 400, "invalid_request")
		authztest.WantError(t, "empty", h.Introspect(""), 400, "invalid_request")
		authztest.WantStatus(t, "v1", h.Post("/oauth/v1/api/v2/token/introspect", url.Values{}, basic...), 404)
		for value, status := range map[string]int{"true": 200, "false": 200, "": 200, "TRUE": 400, "1": 400, "yes": 400} {
			authztest.WantStatus(t, "refresh_user_details="+value,
				authztest.IntrospectAs(h, "ops", url.Values{"token": {token}, "refresh_user_details": {value}}), status)
		}
	})
	authztest.Attack(t, "attack 93: what an answer says", func(t *testing.T, h *authztest.Harness) {
		h.People.Change(authztest.Demo, func(p *authn.Subject) {
			p.Details = map[string][]string{"mail": {"demo@example.com"}, "role": {"a", "b"}}
		})
		got := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read")
		want := map[string][]string{
			"person": {
				"active", "scope", "client_id", "token_type", "exp", "iat", "nbf", "sub", "iss", "username", "amr", "acr", "auth_time",
				"app_identifier", "app_platform",
				"app_version", "user_details", "group_permissions",
			},
			"client": {
				"active", "scope", "client_id", "token_type", "exp", "iat", "nbf", "sub", "iss", "app_identifier",
				"app_platform", "app_version",
			},
		}
		for what, token := range map[string]string{"person": got.Access, "client": authztest.OwnToken(h).Text("access_token")} {
			res := h.Introspect(token)
			for member := range res.JSON() {
				if !slices.Contains(want[what], member) {
					t.Errorf("%s has the member %s: %s", what, member, res.Body)
				}
			}
			for _, member := range want[what] {
				if _, ok := res.JSON()[member]; !ok {
					t.Errorf("%s lacks the member %s: %s", what, member, res.Body)
				}
			}
			if strings.Contains(res.Body, "session-") {
				t.Errorf("%s shows the session: %s", what, res.Body)
			}
		}
	})
	authztest.Attack(t, "attack 96: everything of a person ends", func(t *testing.T, h *authztest.Harness) {
		revokeAll(t, h, func() { h.People.Change(authztest.Demo, func(p *authn.Subject) { p.Epoch++ }) }, true, false)
	})
	authztest.Attack(t, "attack 96: everything of a client ends", func(t *testing.T, h *authztest.Harness) {
		revokeAll(t, h, func() {
			for _, id := range []string{"shop", "reports"} {
				if err := h.Server().Clients().Revoke(t.Context(), id, authztest.Admin); err != nil {
					t.Error(err)
				}
			}
		}, true, true)
	})
	t.Run("attack 96: everything ends, by another process", func(t *testing.T) {
		t.Parallel()
		h := authztest.New(t)
		revokeAll(t, h, func() {
			if err := token.EndEverything(t.Context(), h.Store); err != nil { // this process is not told
				t.Error(err)
			}
		}, true, true)
	})
	t.Run("attack 96: everything ends", func(t *testing.T) {
		t.Parallel()
		h := authztest.New(t) // without its invariants: the canary ends too
		revokeAll(t, h, func() {
			if err := h.Server().RevokeEverything(t.Context(), authztest.Admin); err != nil {
				t.Error(err)
			}
		}, true, true)
		old := h.Server()
		before := authztest.OwnToken(h).Text("access_token")
		h.Restart(nil)
		authztest.WantActive(t, h, "after a restart", before, true)
		// By the server of the old configuration, still draining
		if err := old.RevokeEverything(t.Context(), authztest.Admin); err != nil {
			t.Error(err)
		}
		authztest.WantActive(t, h, "in the other server", before, false)
		h.People.Change(authztest.Demo, func(p *authn.Subject) { p.Epoch++ })
		if err := h.Server().Clients().Revoke(t.Context(), "shop", authztest.Admin); err != nil {
			t.Error(err)
		}
		authztest.WantActive(t, h, "all three, newer", h.Tokens("shop", authztest.Demo).Access, true)
	})
}

// revokeAll gets tokens, ends them and gets new ones. person and client say which of the old ones must end.
func revokeAll(t *testing.T, h *authztest.Harness, end func(), person, client bool) {
	t.Helper()
	b := h.Browser(authztest.Demo)
	got, code, mine := b.Tokens("shop"), b.Code("shop"), authztest.OwnToken(h).Text("access_token")
	end()
	authztest.WantActive(t, h, "access token", got.Access, !person)
	authztest.WantActive(t, h, "refresh token", got.Refresh, !person)
	authztest.WantError(t, "code", h.Redeem("shop", code), 400, "invalid_grant")
	authztest.WantError(t, "refresh", h.Refresh("shop", got.Refresh), 400, "invalid_grant")
	authztest.WantActive(t, h, "client's own token", mine, !client)
	newer := h.Tokens("shop", authztest.Demo)
	authztest.WantActive(t, h, "newer access token", newer.Access, true)
	authztest.WantStatus(t, "newer refresh", h.Refresh("shop", newer.Refresh), 200)
	authztest.WantActive(t, h, "newer own", authztest.OwnToken(h).Text("access_token"), true)
}

func TestIntrospect(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.People.Change(authztest.Demo, func(p *authn.Subject) {
		p.Details = map[string][]string{"mail": {"demo@example.com"}, "role": {"a", "b"}}
	})
	got := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read", "resource", "https://api.example.com")
	now := authztest.Start.Unix()
	want := map[string]any{
		"active": true, "scope": "openid orders.read", "client_id": "shop", "token_type": "bearer", "exp": now + 900, "iat": now,
		"nbf": now, "sub": authztest.Demo,
		"aud": []string{"https://api.example.com"}, "iss": h.Issuer, "username": "demo@example.com", "amr": []string{"DEFAULT"},
		"acr":       "urn:gatehouse:level:1",
		"auth_time": now, "app_identifier": "", "app_platform": "", "app_version": "",
		"user_details":      map[string]any{"mail": "demo@example.com", "role": []string{"a", "b"}},
		"group_permissions": map[string]any{"staff": []string{"read"}},
	}
	sameJSON(t, "access token", h.Introspect(got.Access).JSON(), want)
	want["token_type"], want["exp"] = "refresh_token", now+30*24*3600
	sameJSON(t, "refresh token", h.Introspect(got.Refresh).JSON(), want)
	sameJSON(t, "own", h.Introspect(authztest.OwnToken(h).Text("access_token")).JSON(), map[string]any{
		"active": true, "scope": "reports.read", "client_id": "reports", "token_type": "bearer", "exp": now + 900, "iat": now,
		"nbf": now, "sub": "reports",
		"iss": h.Issuer, "app_identifier": "", "app_platform": "", "app_version": "",
	})
	i, err := h.Server().Introspect(t.Context(), got.Access)
	if err != nil || !i.Active || !slices.Equal(i.Scope, []string{"openid", "orders.read"}) || i.Subject != authztest.Demo ||
		i.Person.Username != "demo@example.com" {
		t.Fatalf("Introspect = %+v, %v", i, err)
	}
	// A refresh token opens nothing.
	if i, err := h.Server().Introspect(t.Context(), got.Refresh); err != nil || i.Active {
		t.Errorf("Introspect(refresh token) = %+v, %v, want inactive", i, err)
	}
	h.Invariants(t)
}

func sameJSON(t *testing.T, what string, got, want any) {
	t.Helper()
	a, errA := json.Marshal(got)
	b, errB := json.Marshal(want)
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("%s = %s, want %s", what, a, b)
	}
}
