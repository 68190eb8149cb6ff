package authz_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const usersPath = "/oauth/api/v1/users/"

// asRegistrar calls the API as the API client registrar, which is allowed the API persons.
func asRegistrar(h *authztest.Harness, method, path string) *authztest.Response {
	return h.Do(method, usersPath+path, "", authztest.Basic("registrar", authztest.Secret("registrar"))...)
}

type heldItem struct {
	ID, Scope string
	ClientID  string    `json:"client_id"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

func heldItems(t *testing.T, h *authztest.Harness, path string) []heldItem {
	t.Helper()
	res := asRegistrar(h, http.MethodGet, path)
	wantStatus(t, "GET "+path, res, 200)
	wantAPIHeaders(t, "GET "+path, res)
	var list struct{ Items []heldItem }
	if err := json.Unmarshal([]byte(res.Body), &list); err != nil || list.Items == nil {
		t.Fatalf("GET %s = %s: %v", path, res.Body, err)
	}
	return list.Items
}

// TestUsersTokens: docs/decisions.md#what-a-person-holds.
func TestUsersTokens(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	path := authztest.Demo + "/tokens"
	if got := asRegistrar(h, http.MethodGet, path).Body; got != `{"items":[]}` {
		t.Errorf("GET of nothing = %s, want an empty list", got)
	}
	shop, spa := h.Tokens("shop", authztest.Demo, "scope", "openid profile"), h.Tokens("spa", authztest.Demo)
	guest := h.Tokens("shop", authztest.Guest)
	h.Refresh("shop", shop.Refresh)
	items := heldItems(t, h, path)
	if len(items) != 2 || items[0].ClientID != "shop" || items[0].Scope != "openid profile" || !items[0].CreatedAt.Equal(authztest.Start) ||
		!items[0].ExpiresAt.Equal(authztest.Start.Add(90*24*time.Hour)) || items[1].ClientID != "spa" || items[0].ID == "" {
		t.Errorf("items = %+v", items)
	}
	res := asRegistrar(h, http.MethodDelete, path+"/"+items[0].ID)
	if res.Status != 204 || res.Body != "" {
		t.Errorf("DELETE = %d %q, want 204 and nothing", res.Status, res.Body)
	}
	wantActive(t, h, "access token of the item", shop.Access, false)
	wantError(t, "refresh token of the item", h.Refresh("shop", shop.Refresh), 400, "invalid_grant")
	wantActive(t, h, "of another item", spa.Access, true)
	wantError(t, "again", asRegistrar(h, http.MethodDelete, path+"/"+items[0].ID), 404, "not_found")
	wantStatus(t, "DELETE of all", asRegistrar(h, http.MethodDelete, path), 204)
	wantActive(t, h, "after all are deleted", spa.Access, false)
	wantActive(t, h, "of another person", guest.Access, true)
	wantStatus(t, "DELETE of none", asRegistrar(h, http.MethodDelete, path), 204)
	wantEvent(t, h, authztest.Demo, "token.RefreshTokenRevokedEvent", 2)
	// Expired items are not listed.
	h.Tokens("shop", authztest.Demo)
	h.People.Change(authztest.Demo, func(s *login.Subject) { s.Epoch++ })
	if got := heldItems(t, h, path); len(got) != 0 {
		t.Errorf("after a changed password: %+v", got)
	}
	h.Tokens("two", authztest.Demo)
	h.Clock.Advance(15 * time.Minute)
	if got := heldItems(t, h, path); len(got) != 0 {
		t.Errorf("after the expiry: %+v", got)
	}
	h.Invariants(t)
}

func TestUsersSessions(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	path := authztest.Demo + "/sessions"
	one, two := h.Browser(authztest.Demo).SignIn(authztest.Demo), h.Browser(authztest.Demo).SignIn(authztest.Demo)
	site := openSite(t, h, one)
	items := heldItems(t, h, path)
	if len(items) != 2 || items[0].ID != one.Session() || items[0].ClientID != "" || !items[0].CreatedAt.Equal(authztest.Start) || items[0].ExpiresAt.IsZero() {
		t.Errorf("items = %+v, want those of %s and %s", items, one.Session(), two.Session())
	}
	if !siteActive(t, h, wiki, site.Token) {
		t.Error("the site's session is not active")
	}
	wantError(t, "session of another person", asRegistrar(h, http.MethodDelete, authztest.Guest+"/sessions/"+items[0].ID), 404, "not_found")
	wantStatus(t, "DELETE", asRegistrar(h, http.MethodDelete, path+"/"+items[0].ID), 204)
	if siteActive(t, h, wiki, site.Token) {
		t.Error("a site's session goes on without the issuer's")
	}
	wantRedirectError(t, h, "silent request of the ended session", one.Authorize("shop", "prompt", "none"), "login_required")
	if two.Code("shop", "prompt", "none") == "" {
		t.Error("the other session has ended")
	}
	wantStatus(t, "DELETE of all", asRegistrar(h, http.MethodDelete, path), 204)
	if got := heldItems(t, h, path); len(got) != 0 {
		t.Errorf("items = %+v, want none", got)
	}
	wantEvent(t, h, authztest.Demo, "session.SessionEndedEvent", 2)
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
	items := heldItems(t, h, path)
	if len(items) != 2 || items[0].ID != odd || items[1].ID != "asks" || items[1].ClientID != "asks" || items[1].Scope != "openid profile" || !items[1].ExpiresAt.IsZero() {
		t.Errorf("items = %+v", items)
	}
	wantStatus(t, "DELETE", asRegistrar(h, http.MethodDelete, path+"/asks"), 204)
	wantActive(t, h, "token of a withdrawn consent", token, false)
	wantStatus(t, "DELETE of an escaped id", asRegistrar(h, http.MethodDelete, path+"/"+url.PathEscape(odd)), 204)
	if got := heldItems(t, h, path); len(got) != 0 {
		t.Errorf("items = %+v, want none", got)
	}
	wantEvent(t, h, authztest.Demo, "consent.ConsentWithdrawnEvent", 2)
	b := h.Browser(authztest.Demo)
	b.Decision = "-"
	wantStatus(t, "asked again", b.Authorize("asks", "scope", "openid profile"), 200)
	h.Invariants(t)
}

func TestUsersRefuses(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	basic := authztest.Basic("registrar", authztest.Secret("registrar"))
	path := usersPath + authztest.Demo + "/tokens"
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		wantError(t, "nobody", h.Do(method, path, ""), 401, "invalid_client")
		wantError(t, "wrong secret", h.Do(method, path, "", authztest.Basic("registrar", "x")...), 401, "invalid_client")
		wantError(t, "OAuth client", h.Do(method, path, "", authztest.Basic("shop", authztest.Secret("shop"))...), 401, "invalid_client")
		wantError(t, "another API", h.Do(method, path, "", authztest.Basic("ops", authztest.Secret("ops"))...), 403, "access_denied")
		for _, bad := range []string{
			"", "x", "x/tokens", authztest.Demo, authztest.Demo + "/", authztest.Demo + "/codes", authztest.Demo + "/tokens/", authztest.Demo + "/tokens/a/b",
			authztest.Demo + "/tokens/" + strings.Repeat("x", 10_000), "..%2f" + authztest.Demo + "/tokens", authztest.Demo + "%00/tokens", "%27%20OR%201=1--/tokens",
			"{env.HOME}/tokens", authztest.Demo + "/tokens/nothing", authztest.Demo + "/consents/nothing", authztest.Demo + "/sessions/nothing",
		} {
			wantError(t, method+" "+bad[:min(len(bad), 60)], h.Do(method, usersPath+bad, "", basic...), 404, "not_found")
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodHead} {
		if res := h.Do(method, path, "", basic...); res.Status != 405 || res.Header.Get("Allow") != "GET, DELETE" {
			t.Errorf("%s = %d, Allow %q", method, res.Status, res.Header.Get("Allow"))
		}
	}
	h.Invariants(t)
	h.AllowFailures()
	h.Store.Fail(errFull)
	wantError(t, "store fails", asRegistrar(h, http.MethodDelete, authztest.Demo+"/tokens"), 503, "temporarily_unavailable")
}

// TestUsersOfPartitions: the header of other APIs counts here too, and the limits of the API client.
func TestUsersOfPartitions(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		c.Partitioned = true
		c.APIClients = append(c.APIClients, &client.APIClient{
			ID: "west", Secrets: []secret.String{secret.New(authztest.Secret("west"))}, APIs: []string{"persons", "introspection"}, Partitions: []string{"west"},
		})
	}))
	h.People.Change(authztest.Demo, func(s *login.Subject) { s.Partition = "west" })
	h.People.Change(authztest.Guest, func(s *login.Subject) { s.Partition = "default" })
	mine, others := h.Tokens("shop", authztest.Demo), h.Tokens("shop", authztest.Guest)
	ask := func(who, method, path string, partition ...string) int {
		headers := authztest.Basic(who, authztest.Secret(who))
		for _, p := range partition {
			headers = append(headers, "X-Service-Persons-Partition-Id", p)
		}
		return h.Do(method, usersPath+path, "", headers...).Status
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
		for _, kind := range []string{"/tokens", "/sessions", "/consents"} {
			if got := ask(tt.who, http.MethodGet, tt.path+kind, tt.partition...); got != tt.want {
				t.Errorf("%s: GET %s = %d, want %d", tt.name, kind, got, tt.want)
			}
			if tt.want != 200 {
				if got := ask(tt.who, http.MethodDelete, tt.path+kind, tt.partition...); got != tt.want {
					t.Errorf("%s: DELETE %s = %d, want %d", tt.name, kind, got, tt.want)
				}
			}
		}
	}
	introspect := func(token string) bool {
		res := h.Do(http.MethodPost, "/oauth/api/v2/token/introspect", url.Values{"token": {token}}.Encode(),
			append(authztest.Basic("west", authztest.Secret("west")), "Content-Type", "application/x-www-form-urlencoded")...)
		wantStatus(t, "introspect", res, 200)
		return strings.Contains(res.Body, `"active":true`)
	}
	if !introspect(mine.Access) || introspect(others.Access) || introspect(others.Refresh) {
		t.Error("introspection: an API client with partitions must know the tokens of their persons alone")
	}
}
