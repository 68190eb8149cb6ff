package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// forStaff limits clients to people in the group staff.
func forStaff(ids ...string) authztest.Option {
	return authztest.WithConfig(func(c *authz.Config) {
		for _, id := range ids {
			authztest.ChangeClient(c, id, func(c *client.Client) { c.Groups = []string{"staff", "admins"} })
		}
	})
}

// put puts a person into groups, and out of all others.
func put(h *authztest.Harness, person string, groups ...string) {
	h.People.Change(person, func(s *authn.Subject) { s.Groups = groups })
}

// wantGroupPage asserts a page that refuses a person for the lack of a group, and that the log says which.
func wantGroupPage(t *testing.T, h *authztest.Harness, what string, res *authztest.Response) {
	t.Helper()
	authztest.WantPage(t, what, res, http.StatusForbidden)
	for _, part := range []string{`"reason":"group_missing"`, `"wanted_groups":["staff","admins"]`, `"groups":["cleaners"]`} {
		if !strings.Contains(strings.ReplaceAll(h.Log(), `": `, `":`), part) {
			t.Errorf("%s: the log lacks %s: %s", what, part, h.Log())
		}
	}
	for _, secret := range []string{"staff", "admins", "cleaners"} {
		if strings.Contains(res.Body, secret) {
			t.Errorf("%s: the page tells of the group %s", what, secret)
		}
	}
}

// TestGroupsOfClients: a client with groups is used by their people alone, however they come, and only as long as they
// are in one of them.
func TestGroupsOfClients(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 2417: no group, no code", func(t *testing.T, h *authztest.Harness) {
		for _, id := range []string{"shop", "asks"} {
			put(h, authztest.Demo, "cleaners")
			b := h.Browser(authztest.Demo)
			wantGroupPage(t, h, id, b.Authorize(id))
			if authztest.AskedForConsent(b) {
				t.Errorf("%s: someone who may not use the application is asked for consent", id)
			}
			authztest.WantRedirectError(t, h, id+" without a page", b.Authorize(id, "prompt", "none"), "access_denied")
			put(h, authztest.Demo, "cleaners", "admins")
			if b.Code(id) == "" {
				t.Errorf("%s: no code for someone in the group", id)
			}
		}
	}, forStaff("shop", "asks"))
	authztest.Attack(t, "attack 5386: the group is left between code and token", func(t *testing.T, h *authztest.Harness) {
		put(h, authztest.Demo, "staff")
		code := h.Browser(authztest.Demo).Code("shop")
		put(h, authztest.Demo, "cleaners")
		authztest.WantError(t, "code", h.Redeem("shop", code), 400, "invalid_grant")
	}, forStaff("shop"))
	authztest.Attack(t, "attack 2417: the group is left before the consent", func(t *testing.T, h *authztest.Harness) {
		put(h, authztest.Demo, "staff")
		b := h.Browser(authztest.Demo)
		b.Decision = "-"
		page := b.Authorize("asks")
		authztest.WantStatus(t, "consent page", page, 200)
		put(h, authztest.Demo, "cleaners")
		action, fields := authztest.Form(page.Body)
		fields.Set("decision", "allow")
		wantGroupPage(t, h, "consent", b.Post(action, fields))
	}, forStaff("asks"))
	authztest.Attack(t, "attack 5386: tokens of someone who has left the group", func(t *testing.T, h *authztest.Harness) {
		put(h, authztest.Demo, "staff")
		got := h.Tokens("shop", authztest.Demo, "scope", "openid offline_access orders.read")
		put(h, authztest.Demo, "cleaners")
		authztest.WantActive(t, h, "access token", got.Access, false)
		authztest.WantError(t, "offline token", h.Refresh("shop", got.Refresh), 400, "invalid_grant")
		put(h, authztest.Demo, "staff")
		authztest.WantActive(t, h, "access token of someone who is back", got.Access, true)
		authztest.WantStatus(t, "offline token of someone who is back", h.Refresh("shop", got.Refresh), 200)
	}, forStaff("shop"))
	authztest.Attack(t, "attack 5386: a group that is wanted later", func(t *testing.T, h *authztest.Harness) {
		put(h, authztest.Demo, "cleaners")
		got := h.Tokens("shop", authztest.Demo)
		h.Restart(func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Groups = []string{"staff"} })
		})
		authztest.WantActive(t, h, "access token", got.Access, false)
		authztest.WantError(t, "refresh token", h.Refresh("shop", got.Refresh), 400, "invalid_grant")
	})
	authztest.Attack(t, "attack 2417, 5386: implicit and password", func(t *testing.T, h *authztest.Harness) {
		put(h, authztest.Demo, "cleaners")
		wantGroupPage(t, h, "implicit", h.Browser(authztest.Demo).Authorize("fragment", "response_type", "token"))
		authztest.WantError(t, "password", h.Token("legacy", url.Values{
			"grant_type": {"password"}, "username": {"demo@example.com"}, "password": {authztest.Password}, "scope": {"profile"},
		}), 400, "invalid_grant")
	}, forStaff("legacy", "fragment"))
	authztest.Attack(t, "attack 7163: a device", func(t *testing.T, h *authztest.Harness) {
		put(h, authztest.Demo, "cleaners")
		begun := authztest.BeginDevice(t, h, "openid orders.read")
		wantGroupPage(t, h, "device", h.Browser(authztest.Demo).Decide(begun.Text("user_code"), "allow"))
		authztest.WantError(t, "poll", authztest.PollDevice(h, begun), 400, "authorization_pending")
		put(h, authztest.Demo, "staff")
		begun = authztest.BeginDevice(t, h, "openid orders.read")
		if res := h.Browser(authztest.Demo).Decide(begun.Text("user_code"), "allow"); !strings.Contains(res.Body, "connected") {
			t.Fatalf("Allow = %d %s", res.Status, res.Body)
		}
		put(h, authztest.Demo, "cleaners")
		authztest.WantError(t, "poll of someone who has left the group", authztest.PollDevice(h, begun), 400, "invalid_grant")
	}, authztest.WithTV(), forStaff("tv"))
	authztest.Attack(t, "attack 8291: an exchange for a client of other groups", func(t *testing.T, h *authztest.Harness) {
		put(h, authztest.Demo, "cleaners")
		token := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").Access
		authztest.WantError(t, "exchange", h.Token("api", authztest.ExchangeForm(token, "scope", "orders.read")), 400, "invalid_request")
		put(h, authztest.Demo, "staff")
		other := authztest.Exchanged(t, h, "api", token, "scope", "orders.read")
		put(h, authztest.Demo, "cleaners")
		authztest.WantActive(t, h, "exchanged token", other, false)
		authztest.WantActive(t, h, "token that was exchanged", token, true)
	}, authztest.WithExchangers(), forStaff("api"))
	authztest.Attack(t, "attack 5812: an exchanged token of someone who has left the groups of the client that it came from",
		func(t *testing.T, h *authztest.Harness) {
			put(h, authztest.Demo, "staff")
			first := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read")
			second := authztest.Exchanged(t, h, "api", first.Access, "scope", "orders.read", "audience", authztest.LedgerAPI)
			third := authztest.Exchanged(t, h, "warehouse", second, "audience", authztest.LedgerAPI)
			byID := authztest.Exchanged(t, h, "api", first.ID, "subject_token_type", authztest.TokenType+"id_token", "scope", "orders.read")
			for _, groups := range [][]string{{"staff"}, {"cleaners"}, {"staff"}} {
				put(h, authztest.Demo, groups...)
				for name, token := range map[string]string{"the first": first.Access, "the second": second, "the third": third, "by ID token": byID} {
					authztest.WantActive(t, h, name+" of someone in "+groups[0], token, groups[0] == "staff")
				}
			}
		}, authztest.WithExchangers(), forStaff("shop"))
	authztest.Attack(t, "the client’s own tokens need no group", func(t *testing.T, h *authztest.Harness) {
		res := h.Token("reports", url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read"}})
		authztest.WantActive(t, h, "own token", res.Text("access_token"), true)
	}, forStaff("reports"))
}

// TestGroupsOfStoredClients: the groups of a client that is added or changed exist.
func TestGroupsOfStoredClients(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	c := client.Client{
		ID: "wiki", RedirectURIs: []string{"https://wiki.example.com/cb"}, Grants: []string{"authorization_code"}, Scopes: []string{"openid"},
		Groups: []string{"staff", "stuff"},
	}
	registry := h.Server().Clients()
	if _, err := registry.Add(t.Context(), c, authztest.Admin); err == nil || !strings.Contains(err.Error(), `no group "stuff"`) {
		t.Errorf("Add(with an unknown group) = %v, want an error that names it", err)
	}
	c.Groups = []string{"staff"}
	if _, err := registry.Add(t.Context(), c, authztest.Admin); err != nil {
		t.Fatal(err)
	}
	for _, groups := range [][]string{{"stuff"}, {""}, {"staff", "staff"}} {
		err := registry.Change(t.Context(), "wiki", "groups", authztest.Admin, func(n *client.Client) error { n.Groups = groups; return nil })
		if err == nil || !strings.Contains(err.Error(), "groups: ") {
			t.Errorf("Change(%q) = %v, want an error about groups", groups, err)
		}
	}
}
