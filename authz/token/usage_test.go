package token_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

// usage_limit and usage_count of the token server document, "Custom validation response", "Introspection response" and
// "Limits".
func TestUsageLimit(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(authztest.LimitUses))
	for _, tc := range []struct {
		name, scope string
		limit       float64 // 0: unlimited
	}{
		{"none", "orders.read", 0},
		{"one", "orders.read two.read", 2},
		{"the lowest wins", "ten.read two.read orders.read", 2},
		{"the other alone", "ten.read", 10},
	} {
		token := authztest.OwnToken(h, "scope", tc.scope).Text("access_token")
		for i := range 12 {
			ask := h.Introspect
			if i%2 == 1 {
				ask = h.Validate
			}
			res := ask(token)
			got := res.JSON()
			_, told := got["usage_limit"]
			_, counted := got["usage_count"]
			switch n := float64(i + 1); {
			case tc.limit == 0 && (res.Status != 200 || told || counted):
				t.Errorf("%s: use %v = %s, want no word of limits", tc.name, n, res.Body)
			case tc.limit > 0 && n <= tc.limit && (got["usage_limit"] != tc.limit || got["usage_count"] != n):
				t.Errorf("%s: use %v = %s, want usage_limit %v, usage_count %v", tc.name, n, res.Body, tc.limit, n)
			case tc.limit > 0 && n > tc.limit && i%2 == 0 && res.Body != `{"active":false}`:
				t.Errorf("%s: use %v = %s, want inactive", tc.name, n, res.Body)
			case tc.limit > 0 && n > tc.limit && i%2 == 1:
				authztest.WantError(t, tc.name, res, 400, "invalid_grant")
			}
		}
	}
	h.Invariants(t)
}

// A gateway elsewhere that has let a request in looks again while the answer lasts. That is no further use.
func TestUsageLimitLooksAgain(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(authztest.LimitUses))
	token := authztest.OwnToken(h, "scope", "two.read").Text("access_token")
	again := func() *authztest.Response {
		return h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {token}, "recheck": {"true"}},
			authztest.Basic("ops", authztest.Secret("ops"))...)
	}
	for n := range 2 {
		for range 3 {
			if got := again().JSON(); got["active"] != true || got["usage_limit"] != 2.0 {
				t.Errorf("after %d uses, looking again = %v", n, got)
			}
		}
		if res := h.Introspect(token); res.JSON()["usage_count"] != float64(n+1) {
			t.Errorf("use %d = %s, though looking again is no use", n+1, res.Body)
		}
	}
	if got := again().JSON(); got["active"] != true {
		t.Errorf("a token that this request has used up = %v, want it active until it expires", got)
	}
	if res := h.Introspect(token); res.Body != `{"active":false}` {
		t.Errorf("the third use = %s, want it inactive", res.Body)
	}
	h.Revoke("reports", token)
	if res := again(); res.Body != `{"active":false}` {
		t.Errorf("looking again at a revoked token = %s, want it inactive", res.Body)
	}
	h.Invariants(t)
}

func TestUsageLimitOfAPerson(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(authztest.LimitUses))
	res := h.Redeem("shop", h.Browser(authztest.Demo).Code("shop", "scope", "openid two.read"))
	authztest.WantStatus(t, "Token", res, 200)
	if _, given := res.JSON()["refresh_token"]; given {
		t.Error("a limited token comes with a refresh token")
	}
	token := res.Text("access_token")
	for range 5 { // these are no uses: another audience, the operator, the server's own userinfo
		if got := authztest.IntrospectAs(h, "narrow", url.Values{"token": {token}}); got.Body != `{"active":false}` {
			t.Errorf("Introspect of another audience = %s, want inactive", got.Body)
		}
		in, err := h.Server().Introspect(t.Context(), token)
		if err != nil || !in.Active || in.UsageCount != 0 || in.UsageLimit != 2 {
			t.Errorf("Introspect = %+v, %v, want 0 of 2 uses", in, err)
		}
		authztest.WantStatus(t, "userinfo", h.Get("/oauth/userinfo", "Authorization", "Bearer "+token), 200)
	}
	authztest.WantActive(t, h, "first use", token, true)
	h.Restart(nil)
	authztest.WantActive(t, h, "second use, after a restart", token, true)
	authztest.WantActive(t, h, "third use", token, false)
	authztest.WantStatus(t, "userinfo of a token that is used up", h.Get("/oauth/userinfo", "Authorization", "Bearer "+token), 401)
	if in, err := h.Server().Recheck(t.Context(), token); err != nil || !in.Active || in.UsageCount != 2 {
		t.Errorf("Recheck = %+v, %v, want active: the request that used it up goes on", in, err)
	}
	// A new limit applies to tokens from then on, and stops refreshing, which would lift it.
	old := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read")
	h.Restart(func(c *authz.Config) {
		for i := range c.Scopes {
			if c.Scopes[i].Name == "orders.read" {
				c.Scopes[i].UsageLimit = 1
			}
		}
	})
	authztest.WantError(t, "refresh of what is limited now", h.Refresh("shop", old.Refresh), 400, "invalid_scope")
	narrow := h.Token("shop", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.Refresh}, "scope": {"openid"}})
	authztest.WantStatus(t, "refresh without it", narrow, 200)
	lost := authztest.OwnToken(h, "scope", "two.read").Text("access_token")
	if err := loseUses(t.Context(), h.Store, lost); err != nil {
		t.Fatal(err)
	}
	authztest.WantActive(t, h, "a token whose count is lost", lost, false)
	h.Invariants(t)
}

func TestUsageLimitAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 91: more uses at once than the limit", func(t *testing.T, h *authztest.Harness) {
		token := authztest.OwnToken(h, "scope", "ten.read").Text("access_token")
		first := h.Server()
		h.Restart(nil) // a second server on the same store, as during a reload
		var direct [64]bool
		all := authztest.Together(192, func(i int) *authztest.Response {
			switch i % 3 {
			case 0:
				in, err := first.Use(t.Context(), token)
				direct[i/3] = err == nil && in.Active
				return &authztest.Response{}
			case 1:
				return h.Validate(token)
			}
			return h.Introspect(token)
		})
		good := 0
		for _, d := range direct {
			if d {
				good++
			}
		}
		for _, res := range all {
			if strings.Contains(res.Body, "usage_count") {
				good++
			}
		}
		if good != 10 {
			t.Errorf("%d uses succeeded, want 10", good)
		}
		in, err := h.Server().Recheck(t.Context(), token)
		if err != nil || in.UsageCount != 10 {
			t.Errorf("usage_count ends at %d (%v), want 10", in.UsageCount, err)
		}
	}, authztest.WithConfig(authztest.LimitUses))
	authztest.Attack(t, "attack 91: the store fails under a use", func(t *testing.T, h *authztest.Harness) {
		token := authztest.OwnToken(h, "scope", "two.read").Text("access_token")
		h.AllowFailures()
		h.Store.FailUpdates(authztest.ErrFull)
		authztest.WantError(t, "introspection", h.Introspect(token), 503, "temporarily_unavailable")
		authztest.WantError(t, "validation", h.Validate(token), 503, "temporarily_unavailable")
		h.Store.FailUpdates(nil)
		for i := range 2 {
			if got := h.Introspect(token).JSON()["usage_count"]; got != float64(i+1) {
				t.Errorf("usage_count = %v after a failure that counted nothing, want %d", got, i+1)
			}
		}
		authztest.WantActive(t, h, "used up", token, false)
	}, authztest.WithConfig(authztest.LimitUses))
}

// Tokens without a limit cost the same as without any limits configured.
func TestUsageLimitCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	counted := &authztest.CountingStore{}
	h := authztest.New(t, authztest.WithConfig(authztest.LimitUses))
	counted.Store = h.Store.Store
	h.Store.Store = counted
	free, bound := authztest.OwnToken(h, "scope", "orders.read").Text("access_token"),
		authztest.OwnToken(h, "scope", "ten.read").Text("access_token")
	if got := counted.Work(func() { h.Introspect(free) }); got[1] != 0 || got[2] > 3 { // the token, its client, what concerns all tokens
		t.Errorf("an unlimited token: %d views, %d updates, %d reads; want no update and 3 reads", got[0], got[1], got[2])
	}
	if got := counted.Work(func() { authztest.WantStatus(t, "limited", h.Introspect(bound), http.StatusOK) }); got[1] != 1 {
		t.Errorf("a limited token: %d updates, want 1", got[1])
	}
}
