package token_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// withAssurance adds a scope that demands identity assurance level 2, for every client that can ask for it in a way of
// its own. E-mail addresses demand level 3.
func withAssurance() authztest.Option {
	return authztest.WithConfig(func(c *authz.Config) {
		c.Scopes = append(c.Scopes, client.Scope{Name: "identity.read", Assurance: 2}, client.Scope{Name: "email", Assurance: 3})
		for _, of := range c.Clients {
			if slices.Contains([]string{"shop", "asks", "legacy", "reports", "api", "tv", "fragment"}, of.ID) {
				of.Scopes = append(of.Scopes, "identity.read")
			}
		}
	})
}

// assure says how well the identity of the demo person is assured from now on. 0: not at all.
func assure(h *authztest.Harness, level int, until time.Time) {
	h.People.Change(authztest.Demo, func(s *authn.Subject) {
		if s.Assurance = nil; level > 0 {
			s.Assurance = authn.Assurance{{Kind: authn.EvidenceDocument, By: "desk", Level: level, Since: h.Clock.Now(), Until: until}}
		}
	})
}

// TestScopeAssurance: a scope that demands an identity assurance level is given to people who have it, and only to
// them.
func TestScopeAssurance(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withAssurance())
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	b.Code("shop", "scope", "openid orders.read")
	authztest.WantRedirectError(t, h, "below the level", b.Authorize("shop", "scope", "openid identity.read"),
		"unmet_authentication_requirements")
	assure(h, 1, time.Time{})
	authztest.WantRedirectError(t, h, "a level below", b.Authorize("shop", "scope", "openid identity.read"),
		"unmet_authentication_requirements")
	assure(h, 2, time.Time{})
	tokens := b.Tokens("shop", "scope", "openid identity.read")
	if got := h.Introspect(tokens.Access).Text("scope"); got != "openid identity.read" {
		t.Errorf("scope = %q", got)
	}
	if demands := h.People.Demands(); demands[len(demands)-1].Assurance != 2 {
		t.Errorf("demand = %+v, want assurance 2", demands[len(demands)-1])
	}
	authztest.WantRedirectError(t, h, "the highest of several", b.Authorize("shop", "scope", "openid identity.read email"),
		"unmet_authentication_requirements")
	h.Invariants(t)
}

// TestScopeAssuranceTakenBack: what was given goes when the level goes, and is there again with it.
func TestScopeAssuranceTakenBack(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withAssurance())
	scope := func(token string) string { return h.Introspect(token).Text("scope") }
	assure(h, 2, h.Clock.Now().Add(5*time.Minute))
	tokens := h.Tokens("shop", authztest.Demo, "scope", "openid identity.read")
	if scope(tokens.Access) != "openid identity.read" || scope(tokens.Refresh) != "openid identity.read" {
		t.Fatalf("scopes = %q, %q", scope(tokens.Access), scope(tokens.Refresh))
	}
	h.Clock.Advance(5 * time.Minute) // nothing is written then: what is remembered of the token ends by itself
	for what, token := range map[string]string{"access": tokens.Access, "refresh": tokens.Refresh} {
		if got := scope(token); got != "openid" {
			t.Errorf("%s token once the evidence has expired: scope = %q, want openid", what, got)
		}
	}
	assure(h, 2, time.Time{})
	if got := scope(tokens.Access); got != "openid identity.read" {
		t.Errorf("the level again: scope = %q", got)
	}
	assure(h, 0, time.Time{})
	res := h.Refresh("shop", tokens.Refresh)
	if authztest.WantStatus(t, "refresh", res, http.StatusOK); authztest.ScopesOf(res) != "openid" ||
		scope(res.Text("access_token")) != "openid" {
		t.Errorf("refreshed below the level: %s", res.Body)
	}
	authztest.WantError(t, "attack 775: the scope is asked for at a refresh",
		authztest.RefreshWith(h, "shop", res.Text("refresh_token"), "scope", "identity.read"), 400, "invalid_scope")
	assure(h, 2, time.Time{})
	if res = h.Refresh("shop", res.Text("refresh_token")); res.Text("scope") != "openid identity.read" {
		t.Errorf("refreshed at the level again: %s", res.Body)
	}
	alone := h.Tokens("shop", authztest.Demo, "scope", "identity.read")
	assure(h, 0, time.Time{})
	authztest.WantError(t, "refresh of nothing else", h.Refresh("shop", alone.Refresh), 400, "invalid_scope")
	h.Invariants(t)
}

// TestScopeAssuranceAttacks: no other way leads to the scope.
func TestScopeAssuranceAttacks(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithExchangers(), authztest.WithTV(), withAssurance())
	scope := func(token string) string { return h.Introspect(token).Text("scope") }
	t.Run("attack 775: between the code and its tokens the level is taken back", func(t *testing.T) {
		assure(h, 2, time.Time{})
		code := h.Browser(authztest.Demo).Code("shop", "scope", "openid identity.read")
		assure(h, 0, time.Time{})
		if res := h.Redeem("shop", code); res.Status != http.StatusOK || authztest.ScopesOf(res) != "openid" ||
			scope(res.Text("access_token")) != "openid" {
			t.Errorf("tokens = %d %s, want openid alone", res.Status, res.Body)
		}
	})
	t.Run("attack 776: the scope is asked for by an exchange", func(t *testing.T) {
		assure(h, 2, time.Time{})
		all := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read identity.read")
		before := authztest.Exchanged(t, h, "api", all.Access, "scope", "orders.read identity.read")
		if got := scope(before); got != "orders.read identity.read" {
			t.Fatalf("exchanged at the level: %q", got)
		}
		assure(h, 0, time.Time{})
		if got := scope(before); got != "orders.read" {
			t.Errorf("the exchanged token afterwards: %q, want orders.read", got)
		}
		if got := scope(authztest.Exchanged(t, h, "api", all.Access)); strings.Contains(got, "identity.read") {
			t.Errorf("exchanged without naming scopes: %q", got)
		}
		authztest.WantError(t, "by name", h.Token("api", authztest.ExchangeForm(all.Access, "scope", "identity.read")), 400, "invalid_scope")
		authztest.WantError(t, "of an ID token",
			h.Token("api", authztest.ExchangeForm(all.ID, "subject_token_type", authztest.TokenType+"id_token", "scope", "identity.read")),
			400, "invalid_scope")
		machine := h.Token("reports", url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read"}}).Text("access_token")
		authztest.WantError(t, "of a client's own token", h.Token("api", authztest.ExchangeForm(machine, "scope", "identity.read")), 400,
			"invalid_scope")
	})
	t.Run("attack 777: a device asks for the scope", func(t *testing.T) {
		assure(h, 1, time.Time{})
		begun := authztest.BeginDevice(t, h, "openid identity.read")
		phone := h.Browser(authztest.Demo)
		if res := phone.Decide(begun.Text("user_code"), "allow"); res.Status == http.StatusOK {
			t.Errorf("allowed below the level: %s", res.Body)
		}
		token := h.Tokens("wallet", authztest.Demo, "scope", "openid access:device-authorization:approve").Access
		at := "/oauth/device_authorization/approve?user_code=" + url.QueryEscape(begun.Text("user_code"))
		authztest.WantError(t, "by an application", h.Post(at, url.Values{}, "Authorization", "Bearer "+token), 403,
			"unmet_authentication_requirements")
		h.Clock.Advance(6 * time.Second)
		authztest.WantError(t, "the device", authztest.PollDevice(h, begun), 400, "authorization_pending")
		assure(h, 2, time.Time{})
		phone.Decide(begun.Text("user_code"), "allow")
		assure(h, 1, time.Time{})
		h.Clock.Advance(6 * time.Second)
		res := authztest.PollDevice(h, begun)
		if res.Status != http.StatusOK || authztest.ScopesOf(res) != "openid" || scope(res.Text("access_token")) != "openid" {
			t.Errorf("the device once the level is taken back: %d %s, want openid alone", res.Status, res.Body)
		}
		assure(h, 0, time.Time{})
		if res := h.Refresh("tv", res.Text("refresh_token")); authztest.ScopesOf(res) != "openid" {
			t.Errorf("refreshed by the device: %s", res.Body)
		}
	})
	t.Run("attack 778: a client asks for itself, or with a password", func(t *testing.T) {
		authztest.WantError(t, "for itself", h.Token("reports", url.Values{"grant_type": {"client_credentials"}, "scope": {"identity.read"}}),
			400, "invalid_scope")
		form := url.Values{
			"grant_type": {"password"}, "username": {"demo@example.com"}, "password": {authztest.Password},
			"scope": {"openid identity.read"},
		}
		assure(h, 1, time.Time{})
		authztest.WantError(t, "with a password", h.Token("legacy", form), 400, "invalid_scope")
		assure(h, 2, time.Time{})
		authztest.WantStatus(t, "with a password, at the level", h.Token("legacy", form), http.StatusOK)
	})
	t.Run("attack 779: a claim of the scope is asked for by itself", func(t *testing.T) {
		assure(h, 2, time.Time{})
		const claims = `{"userinfo":{"email":null},"id_token":{"email":null}}`
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		authztest.WantRedirectError(t, h, "below the level", b.Authorize("shop", "claims", claims), "unmet_authentication_requirements")
		assure(h, 3, time.Time{})
		all := b.Tokens("shop", "claims", claims)
		if got := authztest.IDClaims(t, h, all.ID)["email"]; got != "demo@example.com" {
			t.Errorf("e-mail address at the level = %v", got)
		}
		assure(h, 2, time.Time{})
		if got := h.Get("/oauth/userinfo", "Authorization", "Bearer "+all.Access).JSON(); got["email"] != nil || got["sub"] == nil {
			t.Errorf("userinfo afterwards = %v", got)
		}
		if got := authztest.IDClaims(t, h, h.Refresh("shop", all.Refresh).Text("id_token")); got["email"] != nil {
			t.Errorf("ID token afterwards = %v", got)
		}
	})
	h.Invariants(t)
}

// TestScopeAssuranceOfAppPasswords: an app password gives a scope while its person has the level.
func TestScopeAssuranceOfAppPasswords(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithAppPasswords(t, authztest.WithConfig(func(c *authz.Config) {
		c.Scopes[1] = client.Scope{Name: "secure.read", Assurance: 2}
	}))
	named := func(q *authn.AppPasswordRequest) { q.Scopes = []string{"calendar", "secure.read"} }
	if _, err := authztest.MakeAppPassword(t, h, named); err == nil {
		t.Error("an app password with a scope above the level of its person is made")
	}
	assure(h, 2, time.Time{})
	text := authztest.MustMakeAppPassword(t, h, named)
	scope := func() string {
		in, err := h.Server().Introspect(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(in.Scope, " ")
	}
	if got := scope(); got != "calendar secure.read" {
		t.Errorf("scope = %q", got)
	}
	if assure(h, 0, time.Time{}); scope() != "calendar" {
		t.Errorf("scope once the level is taken back = %q", scope())
	}
}
