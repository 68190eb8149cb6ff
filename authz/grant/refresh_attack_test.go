package grant_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const grace = 10 * time.Second

func TestRefreshAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 61: more scope than was granted", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read")
		for _, scope := range []string{"openid orders.read orders.write", "orders.write", "openid nope"} {
			authztest.WantError(t, scope, authztest.RefreshWith(h, "shop", got.Refresh, "scope", scope), 400, "invalid_scope")
		}
		narrow := authztest.RefreshWith(h, "shop", got.Refresh, "scope", "orders.read")
		if authztest.ScopesOf(narrow) != "orders.read" || narrow.Text("id_token") != "" {
			t.Errorf("narrower = %d %s, want orders.read alone", narrow.Status, narrow.Body)
		}
		if scope := authztest.ScopesOf(h.Introspect(narrow.Text("access_token"))); scope != "orders.read" {
			t.Errorf("introspected scope = %q, want orders.read", scope)
		}
		whole := authztest.RefreshWith(h, "shop", narrow.Text("refresh_token"))
		if authztest.ScopesOf(whole) != "openid orders.read" {
			t.Errorf("none asked = %q, want the original ones", authztest.ScopesOf(whole))
		}
		authztest.WantError(t, "more, later",
			authztest.RefreshWith(h, "shop", whole.Text("refresh_token"), "scope", "openid orders.read orders.write"), 400, "invalid_scope")
	})
	authztest.Attack(t, "attack 61: more scope within the grace", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("shop", authztest.Demo, "scope", "orders.read")
		next := h.Refresh("shop", got.Refresh)
		authztest.WantError(t, "more", authztest.RefreshWith(h, "shop", got.Refresh, "scope", "orders.write"), 400, "invalid_scope")
		authztest.WantActive(t, h, "successor", next.Text("refresh_token"), true)
	})
	authztest.Attack(t, "attack 64: a spent refresh token after its grace", func(t *testing.T, h *authztest.Harness) {
		first := h.Tokens("shop", authztest.Demo)
		second := h.Refresh("shop", first.Refresh)
		h.Clock.Advance(grace)
		authztest.WantError(t, "reuse", h.Refresh("shop", first.Refresh), 400, "invalid_grant")
		for what, token := range map[string]string{
			"first access": first.Access, "second access": second.Text("access_token"), "second refresh": second.Text("refresh_token"),
			"first refresh": first.Refresh,
		} {
			authztest.WantActive(t, h, what, token, false)
		}
		authztest.WantError(t, "successor", h.Refresh("shop", second.Text("refresh_token")), 400, "invalid_grant")
		authztest.WantEvent(t, h, authztest.Demo, "token.RefreshTokenReusedEvent", 1)
	})
	authztest.Attack(t, "attack 64: a spent refresh token after its successor was used", func(t *testing.T, h *authztest.Harness) {
		first := h.Tokens("shop", authztest.Demo)
		second := h.Refresh("shop", first.Refresh)
		third := h.Refresh("shop", second.Text("refresh_token"))
		authztest.WantError(t, "reuse within the grace", h.Refresh("shop", first.Refresh), 400, "invalid_grant")
		authztest.WantActive(t, h, "third", third.Text("access_token"), false)
		authztest.WantError(t, "third", h.Refresh("shop", third.Text("refresh_token")), 400, "invalid_grant")
		authztest.WantEvent(t, h, authztest.Demo, "token.RefreshTokenReusedEvent", 1)
	})
	authztest.Attack(t, "attack 66: a spent refresh token after a restart", func(t *testing.T, h *authztest.Harness) {
		first := h.Tokens("shop", authztest.Demo)
		second := h.Refresh("shop", first.Refresh)
		h.Restart(nil)
		again := h.Refresh("shop", first.Refresh)
		if again.Status != 200 || again.Text("refresh_token") != second.Text("refresh_token") {
			t.Errorf("within the grace = %d %s, want the same successor", again.Status, again.Body)
		}
		h.Clock.Advance(grace)
		authztest.WantError(t, "reuse", h.Refresh("shop", first.Refresh), 400, "invalid_grant")
		authztest.WantActive(t, h, "successor", second.Text("refresh_token"), false)
	})
	authztest.Attack(t, "attack 67: another client's refresh token", func(t *testing.T, h *authztest.Harness) {
		shop, spa := h.Tokens("shop", authztest.Demo), h.Tokens("spa", authztest.Demo)
		authztest.WantError(t, "other uses shop's", h.Refresh("other", shop.Refresh), 400, "invalid_grant")
		authztest.WantError(t, "native uses spa's", h.Refresh("native", spa.Refresh), 400, "invalid_grant")
		f := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {spa.Refresh}}
		authztest.WantError(t, "no client_id", h.Post("/oauth/token", f), 400, "invalid_request")
		authztest.WantStatus(t, "spa itself", h.Refresh("spa", spa.Refresh), 200)
		authztest.WantStatus(t, "shop itself", h.Refresh("shop", shop.Refresh), 200)
		h.Clock.Advance(grace)
		authztest.WantError(t, "other reuses shop's", h.Refresh("other", shop.Refresh), 400, "invalid_grant")
		// A token of another client does not end the grant
		authztest.WantEvent(t, h, authztest.Demo, "token.RefreshTokenReusedEvent", 0)
	})
	authztest.Attack(t, "attack 71: tokens that are nearly right", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("shop", authztest.Demo)
		for _, token := range []string{got.Access, got.Refresh} {
			flipped := strings.ToUpper(token[5:10]) + strings.ToLower(token[5:10])
			for _, near := range []string{
				token[:len(token)-1], token + "A", token + "=", " " + token, token + " ", strings.ToLower(token), token[:5] + flipped[:5] + token[10:],
				url.QueryEscape(url.QueryEscape(token + "%")), "ghat_" + token[5:] + "x", "Bearer " + token,
			} {
				if near != token {
					authztest.WantActive(t, h, near, near, false)
				}
			}
			authztest.WantActive(t, h, "itself", token, true)
		}
		authztest.WantError(t, "access as refresh token", h.Refresh("shop", got.Access), 400, "invalid_grant")
		authztest.WantError(t, "refresh token as code", h.Redeem("shop", got.Refresh), 400, "invalid_grant")
	})
}

// attack 68: what ends a grant ends its refresh token.
func TestRefreshAfterEnd(t *testing.T) {
	t.Parallel()
	ends := func(end func(t *testing.T, h *authztest.Harness)) func(*testing.T, *authztest.Harness) {
		return func(t *testing.T, h *authztest.Harness) {
			got := h.Tokens("shop", authztest.Demo)
			end(t, h)
			authztest.WantActive(t, h, "access token", got.Access, false)
			authztest.WantActive(t, h, "refresh token", got.Refresh, false)
			authztest.WantError(t, "refresh", h.Refresh("shop", got.Refresh), 400, "invalid_grant")
		}
	}
	authztest.Attack(t, "attack 68: the person was blocked", ends(func(_ *testing.T, h *authztest.Harness) {
		h.People.Change(authztest.Demo, func(p *authn.Subject) { p.Active = false })
	}))
	authztest.Attack(t, "attack 68: the person was blocked and unblocked", ends(func(_ *testing.T, h *authztest.Harness) {
		h.People.Change(authztest.Demo, func(p *authn.Subject) { p.Active, p.Epoch = false, p.Epoch+1 })
		h.People.Change(authztest.Demo, func(p *authn.Subject) { p.Active = true })
	}))
	authztest.Attack(t, "attack 68: the password was changed", ends(func(_ *testing.T, h *authztest.Harness) {
		h.People.Change(authztest.Demo, func(p *authn.Subject) { p.Epoch++ })
	}))
	authztest.Attack(t, "attack 68: the consent was withdrawn", ends(func(t *testing.T, h *authztest.Harness) {
		if n, err := h.Server().WithdrawConsent(t.Context(), authztest.Demo, "shop", authztest.Admin); n != 1 || err != nil {
			t.Errorf("WithdrawConsent = %d, %v, want 1", n, err)
		}
	}))
	authztest.Attack(t, "attack 68: the client was disabled", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("shop", authztest.Demo)
		h.Restart(func(c *authz.Config) { authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Disabled = true }) })
		authztest.WantActive(t, h, "access token", got.Access, false)
		authztest.WantError(t, "refresh", h.Refresh("shop", got.Refresh), 401, "invalid_client")
	})
	authztest.Attack(t, "attack 68: the client is gone", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("native", authztest.Demo)
		h.Restart(func(c *authz.Config) { c.Clients = c.Clients[:len(c.Clients)-1] })
		authztest.WantActive(t, h, "access token", got.Access, false)
		authztest.WantActive(t, h, "refresh token", got.Refresh, false)
		res := h.Post("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got.Refresh}, "client_id": {"native"}})
		authztest.WantError(t, "refresh", res, 401, "invalid_client")
	})
	authztest.Attack(t, "attack 68: a scope was taken from the client", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read orders.write")
		only := h.Tokens("shop", authztest.Demo, "scope", "orders.write")
		h.Restart(func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Scopes = []string{"openid", "orders.read"} })
		})
		if scope := authztest.ScopesOf(h.Introspect(got.Access)); scope != "openid orders.read" {
			t.Errorf("introspected scope = %q, want it narrowed", scope)
		}
		authztest.WantError(t, "asked", authztest.RefreshWith(h, "shop", got.Refresh, "scope", "orders.write"), 400, "invalid_scope")
		if res := h.Refresh("shop", got.Refresh); authztest.ScopesOf(res) != "openid orders.read" {
			t.Errorf("refresh = %d %s, want it narrowed", res.Status, res.Body)
		}
		authztest.WantError(t, "nothing left", h.Refresh("shop", only.Refresh), 400, "invalid_scope")
	})
	authztest.Attack(t, "attack 68: the grant was taken from the client", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("shop", authztest.Demo)
		h.Restart(func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Grants = []string{"authorization_code"} })
		})
		authztest.WantError(t, "refresh", h.Refresh("shop", got.Refresh), 400, "unauthorized_client")
	})
}

func TestRefreshGrace(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	first := h.Tokens("shop", authztest.Demo)
	second := h.Refresh("shop", first.Refresh)
	h.Clock.Advance(4 * time.Second)
	again := h.Refresh("shop", first.Refresh)
	for _, member := range []string{"access_token", "refresh_token", "id_token", "scope", "token_type", "profile_id"} {
		if again.Text(member) != second.Text(member) {
			t.Errorf("repeated %s = %q, want %q", member, again.Text(member), second.Text(member))
		}
	}
	if got := again.JSON()["expires_in"]; got != 896.0 {
		t.Errorf("expires_in 4 s later = %v, want 896", got)
	}
	h.Clock.Advance(grace - 4*time.Second - time.Millisecond)
	authztest.WantStatus(t, "at the end of the grace", h.Refresh("shop", first.Refresh), 200)
	authztest.WantEvent(t, h, authztest.Demo, "token.AccessTokenRefreshedEvent", 1)
	authztest.WantEvent(t, h, authztest.Demo, "token.RefreshTokenReusedEvent", 0)
	// The end of the person ends the grace period too.
	h.People.Change(authztest.Demo, func(p *authn.Subject) { p.Active = false })
	authztest.WantError(t, "blocked", h.Refresh("shop", first.Refresh), 400, "invalid_grant")
	h.Invariants(t)
}

// TestRefreshGraceOfAnotherWish: two requests with one token within the grace each get the access token that they ask
// for, and the same successor. One for A that is sent to B could be used by B at A.
func TestRefreshGraceOfAnotherWish(t *testing.T) {
	t.Parallel()
	const a, b = "https://a.example.com", "https://b.example.com"
	withAudiences := authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Audiences = []string{a, b} })
	})
	for name, tt := range map[string]struct {
		first, second []string
		scope, aud    string // of the second
	}{
		"attack 8306: another resource":    {[]string{"resource", a}, []string{"resource", b}, "openid profile", b},
		"attack 8306: fewer resources":     {[]string{"resource", a, "resource", b}, []string{"resource", b}, "openid profile", b},
		"attack 8306: fewer scopes":        {nil, []string{"scope", "openid"}, "openid", ""},
		"more scopes":                      {[]string{"scope", "openid"}, nil, "openid profile", ""},
		"the same scopes in another order": {[]string{"scope", "openid profile"}, []string{"scope", "profile openid"}, "openid profile", ""},
		"the same resources, in another order": {
			[]string{"resource", a, "resource", b}, []string{"resource", b, "resource", a}, "openid profile", a + " " + b,
		},
	} {
		authztest.Attack(t, name, func(t *testing.T, h *authztest.Harness) {
			token := h.Tokens("shop", authztest.Demo, "scope", "openid profile").Refresh
			one := authztest.RefreshWith(h, "shop", token, tt.first...)
			h.Clock.Advance(time.Second)
			two := authztest.RefreshWith(h, "shop", token, tt.second...)
			authztest.WantStatus(t, "the second request", two, 200)
			same := one.Text("access_token") == two.Text("access_token")
			if wanted := strings.HasPrefix(name, "the same"); same != wanted {
				t.Errorf("the second request gets the access token of the first: %t, want %t", same, wanted)
			}
			in := h.Introspect(two.Text("access_token")).JSON()
			if got := fmt.Sprint(in["scope"]); got != tt.scope || two.Text("scope") != tt.scope {
				t.Errorf("scope = %q in the answer and %q in the token, want %q", two.Text("scope"), got, tt.scope)
			}
			list, _ := in["aud"].([]any)
			if got := strings.Trim(fmt.Sprint(list), "[]"); got != tt.aud {
				t.Errorf("aud = %q, want %q", got, tt.aud)
			}
			if two.Text("refresh_token") != one.Text("refresh_token") {
				t.Error("one refresh token has two successors")
			}
			authztest.WantActive(t, h, "the first access token", one.Text("access_token"), true)
			authztest.WantEvent(t, h, authztest.Demo, "token.RefreshTokenReusedEvent", 0)
			// The successor was issued for all that the token can give.
			last := h.Refresh("shop", two.Text("refresh_token"))
			if authztest.WantStatus(t, "the successor", last, 200); last.Text("scope") != "openid profile" {
				t.Errorf("scope of the successor = %q", last.Text("scope"))
			}
			// Then the token is a replayed one, whatever it asks for.
			authztest.WantError(t, "after it", authztest.RefreshWith(h, "shop", token, tt.second...), 400, "invalid_grant")
		}, withAudiences)
	}
	authztest.Attack(t, "attack 8306: more than was granted, within the grace", func(t *testing.T, h *authztest.Harness) {
		token := h.Tokens("shop", authztest.Demo, "scope", "openid profile", "resource", a).Refresh
		next := h.Refresh("shop", token).Text("refresh_token")
		authztest.WantError(t, "a resource", authztest.RefreshWith(h, "shop", token, "resource", b), 400, "invalid_target")
		authztest.WantError(t, "a scope", authztest.RefreshWith(h, "shop", token, "scope", "openid email"), 400, "invalid_scope")
		authztest.WantActive(t, h, "the successor", next, true)
	}, withAudiences)
	authztest.Attack(t, "attack 8306: another key, within the grace", func(t *testing.T, h *authztest.Harness) {
		token := h.Tokens("shop", authztest.Demo).Refresh
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
		first, second := authztest.NewKeyHolder(t, h), authztest.NewKeyHolder(t, h)
		one, two := first.Token("shop", form), second.Token("shop", form)
		authztest.WantBound(t, "the first", h, one.Text("access_token"), first.JKT)
		authztest.WantBound(t, "the second", h, two.Text("access_token"), second.JKT)
		if two.Text("refresh_token") != one.Text("refresh_token") {
			t.Error("one refresh token has two successors")
		}
		bearer := h.Token("shop", form)
		if in := h.Introspect(bearer.Text("access_token")).JSON(); in["cnf"] != nil {
			t.Errorf("a request without a key gets a token that is bound to one: %v", in)
		}
	})
	authztest.Attack(t, "attack 8306: requests for different scopes at once", func(t *testing.T, h *authztest.Harness) {
		token := h.Tokens("shop", authztest.Demo, "scope", "openid profile").Refresh
		scopes := []string{"openid", "profile", "openid profile", ""}
		all := authztest.Together(40, func(i int) *authztest.Response {
			if scope := scopes[i%len(scopes)]; scope != "" {
				return authztest.RefreshWith(h, "shop", token, "scope", scope)
			}
			return h.Refresh("shop", token)
		})
		for i, res := range all {
			want := scopes[i%len(scopes)]
			if want == "" {
				want = "openid profile"
			}
			authztest.WantStatus(t, "refresh", res, 200)
			if res.Text("scope") != want || res.Text("refresh_token") != all[0].Text("refresh_token") {
				t.Errorf("asked for %q: scope = %q, the successor of the others: %t", want, res.Text("scope"),
					res.Text("refresh_token") == all[0].Text("refresh_token"))
			}
			authztest.WantActive(t, h, "access token", res.Text("access_token"), true)
		}
		authztest.WantEvent(t, h, authztest.Demo, "token.RefreshTokenReusedEvent", 0)
	})
}

func TestRefreshLifetimes(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) {
			c.Lifetimes = client.Lifetimes{AccessToken: time.Hour, RefreshToken: 2 * time.Hour, RefreshChain: 5 * time.Hour}
		})
	}))
	idle := h.Tokens("shop", authztest.Demo).Refresh
	res := h.Redeem("shop", h.Browser(authztest.Demo).Code("shop"))
	for range 4 {
		h.Clock.Advance(time.Hour)
		res = h.Refresh("shop", res.Text("refresh_token"))
		authztest.WantStatus(t, "refresh", res, 200)
	}
	h.Clock.Advance(30 * time.Minute)
	authztest.WantError(t, "idle beyond its own lifetime", h.Refresh("shop", idle), 400, "invalid_grant")
	res = h.Refresh("shop", res.Text("refresh_token"))
	if got := res.JSON()["expires_in"]; got != 1800.0 {
		t.Errorf("expires_in half an hour before the end of the chain = %v, want 1800", got)
	}
	h.Clock.Advance(30*time.Minute - time.Second)
	authztest.WantActive(t, h, "just before the end", res.Text("access_token"), true)
	h.Clock.Advance(time.Second)
	authztest.WantActive(t, h, "at the end", res.Text("access_token"), false)
	authztest.WantError(t, "at the end of the chain", h.Refresh("shop", res.Text("refresh_token")), 400, "invalid_grant")
	h.Invariants(t)
}

func TestRefreshAtOnce(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	first := h.Tokens("shop", authztest.Demo)
	all := authztest.Together(50, func(int) *authztest.Response { return h.Refresh("shop", first.Refresh) })
	if n := authztest.CountStatus(all, 200); n != 50 {
		t.Fatalf("%d of 50 were answered 200, want each: %s", n, all[0].Body)
	}
	for _, res := range all {
		if res.Body != all[0].Body {
			t.Fatalf("two answers: %s and %s", res.Body, all[0].Body)
		}
	}
	authztest.WantActive(t, h, "the successor", all[0].Text("refresh_token"), true)
	authztest.WantEvent(t, h, authztest.Demo, "token.AccessTokenRefreshedEvent", 1)
	authztest.WantEvent(t, h, authztest.Demo, "token.RefreshTokenReusedEvent", 0)
	h.Invariants(t)
}

// TestRefreshTogether: of those who have all found one token good, one rotates it, and the others get its answer.
func TestRefreshTogether(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 64: 64 rotate one token at once", func(t *testing.T, h *authztest.Harness) {
		first := h.Tokens("shop", authztest.Demo).Refresh
		inner := h.Store.Store
		h.Store.Store = &barrier{Store: inner, missing: 64, all: make(chan struct{})}
		all := authztest.Together(64, func(int) *authztest.Response { return h.Refresh("shop", first) })
		h.Store.Store = inner
		next := map[string]bool{}
		for _, res := range all {
			authztest.WantStatus(t, "rotation", res, 200)
			next[res.Text("refresh_token")+" "+res.Text("access_token")] = true
		}
		if len(next) != 1 {
			t.Errorf("one token has %d successors, want 1", len(next))
		}
		authztest.WantActive(t, h, "the successor", all[0].Text("refresh_token"), true)
		authztest.WantEvent(t, h, authztest.Demo, "token.RefreshReusedEvent", 0)
	})
}

// A client and a thief at once: the successor and its spent predecessor are used together after the grace period.
func TestReuseAtOnce(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	first := h.Tokens("shop", authztest.Demo)
	second := h.Refresh("shop", first.Refresh).Text("refresh_token")
	h.Clock.Advance(grace)
	all := authztest.Together(50, func(i int) *authztest.Response {
		if i%2 == 0 {
			return h.Refresh("shop", first.Refresh)
		}
		return h.Refresh("shop", second)
	})
	for i, res := range all {
		if i%2 == 0 {
			authztest.WantError(t, "reuse", res, 400, "invalid_grant")
		} else if res.Status == 200 {
			authztest.WantActive(t, h, "in the end", res.Text("access_token"), false)
			authztest.WantActive(t, h, "in the end", res.Text("refresh_token"), false)
		}
	}
	authztest.WantEvent(t, h, authztest.Demo, "token.RefreshTokenReusedEvent", 1)
	h.Invariants(t)
}

func TestResources(t *testing.T) {
	t.Parallel()
	const a, b = "https://a.example.com", "https://b.example.com"
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Audiences = []string{a, b} })
		authztest.ChangeClient(c, "reports", func(c *client.Client) { c.Audiences = []string{a, b} })
	}))
	aud := func(token string) string {
		var out []string
		list, _ := h.Introspect(token).JSON()["aud"].([]any)
		for _, v := range list {
			out = append(out, v.(string))
		}
		return strings.Join(out, " ")
	}
	for _, tc := range []struct{ name, body, want string }{
		{"none", "", ""},
		{"one", "&resource=" + a, a},
		{"two", "&resource=" + b + "&resource=" + a, a + " " + b},
		{"twice", "&resource=" + a + "&resource=" + a, a},
	} {
		res := authztest.PostRaw(h, "/oauth/token", "grant_type=client_credentials"+tc.body)
		if got := aud(res.Text("access_token")); got != tc.want {
			t.Errorf("%s: aud = %q, want %q (%s)", tc.name, got, tc.want, res.Body)
		}
	}
	authztest.WantError(t, "unknown", authztest.OwnToken(h, "resource", "https://c.example.com"), 400, "invalid_target")
	got := h.Tokens("shop", authztest.Demo, "resource", a)
	if aud(got.Access) != a {
		t.Errorf("code: aud = %q, want %q", aud(got.Access), a)
	}
	refused := authztest.RefreshWith(h, "shop", got.Refresh, "resource", b)
	authztest.WantError(t, "not authorized", refused, 400, "invalid_target")
	if says, want := refused.Text("error_description"), "the resource "+b+" was not granted"; says != want {
		t.Errorf("not authorized: %q, want %q", says, want)
	}
	if res := authztest.RefreshWith(h, "shop", got.Refresh, "resource", a); aud(res.Text("access_token")) != a {
		t.Errorf("refresh: aud = %q, want %q", aud(res.Text("access_token")), a)
	}
	open := h.Tokens("shop", authztest.Demo)
	if res := authztest.RefreshWith(h, "shop", open.Refresh, "resource", b); aud(res.Text("access_token")) != b {
		t.Errorf("refresh of a grant for any resource: aud = %q, want %q", aud(res.Text("access_token")), b)
	}
	h.Invariants(t)
}

// Only the spent token opens the stored answer of the grace period.
func TestSealedAnswer(t *testing.T) {
	t.Parallel()
	sealed, err := secret.SealWithToken("token", "purpose", []byte("answer"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secret.OpenWithToken("other", "purpose", sealed); err == nil {
		t.Error("another token opens the answer")
	}
}
