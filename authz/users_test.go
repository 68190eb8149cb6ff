package authz_test

import (
	"net/http"
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

// TestUsersTokens: docs/decisions/introspection.md#what-a-person-holds.
func TestUsersTokens(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	path := authztest.Demo + "/tokens"
	if got := authztest.AsRegistrar(h, http.MethodGet, path).Body; got != `{"items":[]}` {
		t.Errorf("GET of nothing = %s, want an empty list", got)
	}
	shop, spa := h.Tokens("shop", authztest.Demo, "scope", "openid profile"), h.Tokens("spa", authztest.Demo)
	guest := h.Tokens("shop", authztest.Guest)
	h.Refresh("shop", shop.Refresh)
	items := authztest.HeldItems(t, h, path)
	if len(items) != 2 || items[0].ClientID != "shop" || items[0].Scope != "openid profile" || !items[0].CreatedAt.Equal(authztest.Start) ||
		!items[0].ExpiresAt.Equal(authztest.Start.Add(90*24*time.Hour)) || items[1].ClientID != "spa" || items[0].ID == "" {
		t.Errorf("items = %+v", items)
	}
	res := authztest.AsRegistrar(h, http.MethodDelete, path+"/"+items[0].ID)
	if res.Status != 204 || res.Body != "" {
		t.Errorf("DELETE = %d %q, want 204 and nothing", res.Status, res.Body)
	}
	authztest.WantActive(t, h, "access token of the item", shop.Access, false)
	authztest.WantError(t, "refresh token of the item", h.Refresh("shop", shop.Refresh), 400, "invalid_grant")
	authztest.WantActive(t, h, "of another item", spa.Access, true)
	authztest.WantError(t, "again", authztest.AsRegistrar(h, http.MethodDelete, path+"/"+items[0].ID), 404, "not_found")
	authztest.WantStatus(t, "DELETE of all", authztest.AsRegistrar(h, http.MethodDelete, path), 204)
	authztest.WantActive(t, h, "after all are deleted", spa.Access, false)
	authztest.WantActive(t, h, "of another person", guest.Access, true)
	authztest.WantStatus(t, "DELETE of none", authztest.AsRegistrar(h, http.MethodDelete, path), 204)
	authztest.WantEvent(t, h, authztest.Demo, "token.RefreshTokenRevokedEvent", 2)
	// Expired items are not listed.
	h.Tokens("shop", authztest.Demo)
	h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Epoch++ })
	if got := authztest.HeldItems(t, h, path); len(got) != 0 {
		t.Errorf("after a changed password: %+v", got)
	}
	h.Tokens("two", authztest.Demo)
	h.Clock.Advance(15 * time.Minute)
	if got := authztest.HeldItems(t, h, path); len(got) != 0 {
		t.Errorf("after the expiry: %+v", got)
	}
	h.Invariants(t)
}

func TestUsersSessions(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	path := authztest.Demo + "/sessions"
	one, two := h.Browser(authztest.Demo).SignIn(authztest.Demo), h.Browser(authztest.Demo).SignIn(authztest.Demo)
	site := authztest.OpenSite(t, h, one)
	items := authztest.HeldItems(t, h, path)
	if len(items) != 2 || items[0].ID != one.Session() || items[0].ClientID != "" || !items[0].CreatedAt.Equal(authztest.Start) ||
		items[0].ExpiresAt.IsZero() {
		t.Errorf("items = %+v, want those of %s and %s", items, one.Session(), two.Session())
	}
	if !authztest.SiteActive(t, h, authztest.WikiOrigin, site.Token) {
		t.Error("the site's session is not active")
	}
	authztest.WantError(t, "session of another person", authztest.AsRegistrar(h, http.MethodDelete, authztest.Guest+"/sessions/"+items[0].ID),
		404, "not_found")
	authztest.WantStatus(t, "DELETE", authztest.AsRegistrar(h, http.MethodDelete, path+"/"+items[0].ID), 204)
	if authztest.SiteActive(t, h, authztest.WikiOrigin, site.Token) {
		t.Error("a site's session goes on without the issuer's")
	}
	authztest.WantRedirectError(t, h, "silent request of the ended session", one.Authorize("shop", "prompt", "none"), "login_required")
	if two.Code("shop", "prompt", "none") == "" {
		t.Error("the other session has ended")
	}
	authztest.WantStatus(t, "DELETE of all", authztest.AsRegistrar(h, http.MethodDelete, path), 204)
	if got := authztest.HeldItems(t, h, path); len(got) != 0 {
		t.Errorf("items = %+v, want none", got)
	}
	authztest.WantEvent(t, h, authztest.Demo, "session.SessionEndedEvent", 2)
	h.Invariants(t)
}

func TestUsersConsents(t *testing.T) {
	t.Parallel()
	odd := "a client/of ours"
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		for _, client := range c.Clients {
			if client.ID == "asks" {
				other := *client
				other.ID = odd
				c.Clients = append(c.Clients, &other)
			}
		}
	}))
	path := authztest.Demo + "/consents"
	token := h.Tokens("asks", authztest.Demo, "scope", "openid profile").Access
	h.Browser(authztest.Demo).Code(odd)
	items := authztest.HeldItems(t, h, path)
	if len(items) != 2 || items[0].ID != odd || items[1].ID != "asks" || items[1].ClientID != "asks" || items[1].Scope != "openid profile" ||
		!items[1].ExpiresAt.IsZero() {
		t.Errorf("items = %+v", items)
	}
	authztest.WantStatus(t, "DELETE", authztest.AsRegistrar(h, http.MethodDelete, path+"/asks"), 204)
	authztest.WantActive(t, h, "token of a withdrawn consent", token, false)
	authztest.WantStatus(t, "DELETE of an escaped id", authztest.AsRegistrar(h, http.MethodDelete, path+"/"+url.PathEscape(odd)), 204)
	if got := authztest.HeldItems(t, h, path); len(got) != 0 {
		t.Errorf("items = %+v, want none", got)
	}
	authztest.WantEvent(t, h, authztest.Demo, "consent.ConsentWithdrawnEvent", 2)
	b := h.Browser(authztest.Demo)
	b.Decision = "-"
	authztest.WantStatus(t, "asked again", b.Authorize("asks", "scope", "openid profile"), 200)
	h.Invariants(t)
}

func TestUsersRefuses(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	basic := authztest.Basic("registrar", authztest.Secret("registrar"))
	path := authztest.UsersPath + authztest.Demo + "/tokens"
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		authztest.WantError(t, "nobody", h.Do(method, path, ""), 401, "invalid_client")
		authztest.WantError(t, "wrong secret", h.Do(method, path, "", authztest.Basic("registrar", "x")...), 401, "invalid_client")
		authztest.WantError(t, "OAuth client", h.Do(method, path, "", authztest.Basic("shop", authztest.Secret("shop"))...), 401,
			"invalid_client")
		authztest.WantError(t, "another API", h.Do(method, path, "", authztest.Basic("ops", authztest.Secret("ops"))...), 403, "access_denied")
		for _, bad := range []string{
			"", "x", "x/tokens", authztest.Demo, authztest.Demo + "/", authztest.Demo + "/codes", authztest.Demo + "/tokens/",
			authztest.Demo + "/tokens/a/b",
			authztest.Demo + "/tokens/" + strings.Repeat("x", 10_000), "..%2f" + authztest.Demo + "/tokens", authztest.Demo + "%00/tokens",
			"%27%20OR%201=1--/tokens",
			"{env.HOME}/tokens", authztest.Demo + "/tokens/nothing", authztest.Demo + "/consents/nothing", authztest.Demo + "/sessions/nothing",
		} {
			authztest.WantError(t, method+" "+bad[:min(len(bad), 60)], h.Do(method, authztest.UsersPath+bad, "", basic...), 404, "not_found")
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodHead} {
		if res := h.Do(method, path, "", basic...); res.Status != 405 || res.Header.Get("Allow") != "GET, DELETE" {
			t.Errorf("%s = %d, Allow %q", method, res.Status, res.Header.Get("Allow"))
		}
	}
	h.Invariants(t)
	h.AllowFailures()
	h.Store.Fail(authztest.ErrFull)
	authztest.WantError(t, "store fails", authztest.AsRegistrar(h, http.MethodDelete, authztest.Demo+"/tokens"), 503,
		"temporarily_unavailable")
}

// TestEndsWhatDoesNotCountNow: an operator disables a client, ends its tokens, and enables it again. Nothing of the
// thief may be left then.
func TestEndsWhatDoesNotCountNow(t *testing.T) {
	t.Parallel()
	disable := func(h *authztest.Harness, disabled bool) {
		h.Restart(func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Disabled = disabled })
		})
	}
	leave := func(h *authztest.Harness, gone bool) {
		h.People.Change(authztest.Demo, func(s *authn.Subject) {
			if s.Groups = nil; !gone {
				s.Groups = []string{"staff"}
			}
		})
	}
	for name, tt := range map[string]struct {
		off func(h *authztest.Harness, off bool)
		all bool
	}{
		"attack 6482: all tokens while the client is disabled":       {disable, true},
		"attack 6482: one item while the client is disabled":         {disable, false},
		"attack 6482: all tokens while the person is not in a group": {leave, true},
		"attack 6482: one item while the person is not in a group":   {leave, false},
	} {
		authztest.Attack(t, name, func(t *testing.T, h *authztest.Harness) {
			leave(h, false)
			stolen := h.Tokens("shop", authztest.Demo)
			path := authztest.Demo + "/tokens"
			id := authztest.HeldItems(t, h, path)[0].ID
			tt.off(h, true)
			if got := authztest.HeldItems(t, h, path); len(got) > 0 {
				t.Errorf("what does not count is listed: %+v", got)
			}
			if !tt.all {
				path += "/" + id
			}
			authztest.WantStatus(t, "DELETE", authztest.AsRegistrar(h, http.MethodDelete, path), 204)
			authztest.WantEvent(t, h, authztest.Demo, "token.RefreshTokenRevokedEvent", 1)
			tt.off(h, false)
			authztest.WantActive(t, h, "the access token", stolen.Access, false)
			authztest.WantError(t, "the refresh token", h.Refresh("shop", stolen.Refresh), 400, "invalid_grant")
		}, authztest.WithConfig(func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Groups = []string{"staff"} })
		}))
	}
	for name, path := range map[string]string{
		"attack 6482: all sessions while their provider is disabled": "/sessions",
		"attack 6482: one session while its provider is disabled":    "/sessions/",
	} {
		authztest.Attack(t, name, func(t *testing.T, h *authztest.Harness) {
			b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
			h.People.SwitchOff("identity")
			if strings.HasSuffix(path, "/") {
				path += b.Session()
			}
			authztest.WantStatus(t, "DELETE", authztest.AsRegistrar(h, http.MethodDelete, authztest.Demo+path), 204)
			h.People.SwitchOn("identity")
			authztest.WantRedirectError(t, h, "the session", b.Authorize("shop", "prompt", "none"), "login_required")
		})
	}
	for name, one := range map[string]bool{
		"attack 6482: all app passwords while the person is an administrator": false,
		"attack 6482: one app password while the person is an administrator":  true,
	} {
		authztest.Attack(t, name, func(t *testing.T, h *authztest.Harness) {
			text := authztest.MustMakeAppPassword(t, h, func(q *authn.AppPasswordRequest) { q.Vouched = true })
			path := authztest.Demo + "/app_passwords"
			if one {
				path += "/" + authztest.HeldItems(t, h, path)[0].ID
			}
			h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Administrator = true })
			authztest.WantStatus(t, "DELETE", authztest.AsRegistrar(h, http.MethodDelete, path), 204)
			h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Administrator = false })
			in, err := h.Server().AppPasswords().Introspect(t.Context(), text)
			if err != nil || in.Active {
				t.Errorf("Introspect = %+v, %v; want inactive", in, err)
			}
		}, authztest.WithAppPasswords())
	}
}

// TestUsersOfPartitions: the header of other APIs counts here too, and the limits of the API client.
func TestUsersOfPartitions(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		c.Partitioned = true
		c.APIClients = append(c.APIClients, &client.APIClient{
			ID: "west", Secrets: []secret.String{secret.New(authztest.Secret("west"))}, APIs: []string{"persons", "introspection"},
			Partitions: []string{"west"},
		})
	}))
	h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Partition = "west" })
	h.People.Change(authztest.Guest, func(s *authn.Subject) { s.Partition = "default" })
	mine, others := h.Tokens("shop", authztest.Demo), h.Tokens("shop", authztest.Guest)
	ask := func(who, method, path string, partition ...string) int {
		headers := authztest.Basic(who, authztest.Secret(who))
		for _, p := range partition {
			headers = append(headers, "X-Service-Persons-Partition-Id", p)
		}
		return h.Do(method, authztest.UsersPath+path, "", headers...).Status
	}
	for _, tt := range []struct {
		name, who, path string
		partition       []string
		want            int
	}{
		{"any", "registrar", authztest.Guest, nil, 200},
		{"the person's", "registrar", authztest.Guest, []string{"default"}, 200},
		{"peer 44: another one", "registrar", authztest.Guest, []string{"west"}, 404},
		{"peer 44: twice", "registrar", authztest.Guest, []string{"default", "west"}, 400},
		{"its own", "west", authztest.Demo, nil, 200},
		{"peer 44: a person of another one", "west", authztest.Guest, nil, 404},
		{"peer 44: another one, named", "west", authztest.Guest, []string{"default"}, 403},
		{"peer 44: nobody", "west", "%20", nil, 404},
		{"peer 44: everybody", "west", "*", nil, 404},
		{"peer 44: the beginning of an id", "registrar", authztest.Guest[:8], nil, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, kind := range []string{"/tokens", "/sessions", "/consents"} {
				if got := ask(tt.who, http.MethodGet, tt.path+kind, tt.partition...); got != tt.want {
					t.Errorf("GET %s = %d, want %d", kind, got, tt.want)
				}
				if tt.want != 200 {
					if got := ask(tt.who, http.MethodDelete, tt.path+kind, tt.partition...); got != tt.want {
						t.Errorf("DELETE %s = %d, want %d", kind, got, tt.want)
					}
				}
			}
		})
	}
	introspect := func(token string) bool {
		res := h.Do(http.MethodPost, "/oauth/api/v2/token/introspect", url.Values{"token": {token}}.Encode(),
			append(authztest.Basic("west", authztest.Secret("west")), "Content-Type", "application/x-www-form-urlencoded")...)
		authztest.WantStatus(t, "introspect", res, 200)
		return strings.Contains(res.Body, `"active":true`)
	}
	if !introspect(mine.Access) || introspect(others.Access) || introspect(others.Refresh) {
		t.Error("introspection: an API client with partitions must know the tokens of their persons alone")
	}
}

// FuzzUsers: a path of what a person holds has two or three parts, each of them text that is not empty once it is
// unescaped, or there is nothing at it.
func FuzzUsers(f *testing.F) {
	for _, seed := range []string{
		"a/tokens", "a/tokens/b", "../x", "a%2fb/consents", "%00/tokens", "a//b", "a/b/c/d", authztest.Demo + "/sessions",
		strings.Repeat("a", 257) + "/tokens",
	} {
		f.Add(seed)
	}
	h := authztest.New(f)
	f.Fuzz(func(t *testing.T, rest string) {
		u, err := url.Parse(h.Issuer + "/oauth/api/v1/users/" + rest)
		if err != nil {
			return
		}
		h.T = t
		parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/oauth/api/v1/users/"), "/")
		wrong := len(parts) < 2 || len(parts) > 3
		for _, part := range parts {
			text, err := url.PathUnescape(part)
			wrong = wrong || err != nil || text == "" || len(part) > 256 || !client.IsText(text)
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			res := authztest.AsRegistrar(h, method, rest)
			if res.Status >= http.StatusInternalServerError || res.Status < http.StatusMultipleChoices && wrong {
				t.Errorf("%s of %q = %d %s", method, rest, res.Status, res.Body)
			}
		}
	})
}
