package grant_test

import (
	"errors"
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

// byPassword uses the password grant of the client legacy as the person demo.
func byPassword(h *authztest.Harness, changes ...string) *authztest.Response {
	f := url.Values{
		"grant_type": {"password"}, "username": {"demo@example.com"}, "password": {authztest.Password},
		"scope": {"openid orders.read"},
	}
	for i := 0; i+1 < len(changes); i += 2 {
		f.Set(changes[i], changes[i+1])
	}
	return h.Token("legacy", f)
}

// RFC 6749 4.3, with the client of the token server document, "Token endpoint".
func TestPasswordGrant(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(authztest.LimitUses), authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "legacy", func(c *client.Client) { c.Scopes = append(c.Scopes, "secure.read", "two.read") })
	}))
	res := byPassword(h)
	authztest.WantStatus(t, "password", res, 200)
	authztest.WantAPIHeaders(t, "password", res)
	got := h.Introspect(res.Text("access_token")).JSON()
	if got["sub"] != authztest.Demo || got["client_id"] != "legacy" || got["scope"] != "openid orders.read" ||
		got["acr"] != "urn:gatehouse:level:1" {
		t.Errorf("Introspect = %v", got)
	}
	if res.Text("id_token") == "" || res.Text("profile_id") != "static" || res.JSON()["expires_in"] != 900.0 {
		t.Errorf("Token = %s", res.Body)
	}
	authztest.WantEvent(t, h, authztest.Demo, "token.AccessTokenIssuedEvent", 1)
	next := h.Refresh("legacy", res.Text("refresh_token"))
	authztest.WantStatus(t, "refresh", next, 200)
	authztest.WantActive(t, h, "refreshed", next.Text("access_token"), true)
	authztest.WantStatus(t, "v1",
		h.Call("/oauth/v1/token", "legacy",
			url.Values{"grant_type": {"password"}, "username": {"demo@example.com"}, "password": {authztest.Password}}), 200)
	once := byPassword(h, "scope", "two.read")
	if _, given := once.JSON()["refresh_token"]; given || once.Status != 200 {
		t.Errorf("limited = %d %s, want no refresh token", once.Status, once.Body)
	}
	h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Epoch++ })
	authztest.WantActive(t, h, "after a changed password", next.Text("access_token"), false)
	authztest.WantError(t, "refresh after a changed password", h.Refresh("legacy", next.Text("refresh_token")), 400, "invalid_grant")
	h.Invariants(t)

	for _, tc := range []struct {
		name, code string
		status     int
		changes    []string
	}{
		{"wrong password", "invalid_grant", 400, []string{"password", "wrong"}},
		{"unknown person", "invalid_grant", 400, []string{"username", "nobody"}},
		{"no username", "invalid_request", 400, []string{"username", ""}},
		{"no password", "invalid_request", 400, []string{"password", ""}},
		{"scope of another", "invalid_scope", 400, []string{"scope", "reports.read"}},
		{"scope of a higher level", "invalid_scope", 400, []string{"scope", "secure.read"}},
		{"resource of another", "invalid_target", 400, []string{"resource", "https://other.example.com"}},
		{"throttled", "temporarily_unavailable", 429, []string{"username", "throttled"}},
	} {
		res := byPassword(h, tc.changes...)
		authztest.WantError(t, tc.name, res, tc.status, tc.code)
		if after := res.Header.Get("Retry-After"); (tc.status == 429) != (after == "61") {
			t.Errorf("%s: Retry-After = %q", tc.name, after)
		}
	}
	authztest.WantError(t, "a client without the grant", authztest.OwnToken(h, "grant_type", "password"), 400, "unauthorized_client")
	h.People.SignInBy("partner")
	authztest.WantError(t, "a provider that the client may not use", byPassword(h), 403, "access_denied")
	h.People.SignInBy("")
	if strings.Contains(h.Log(), authztest.Password) {
		t.Error("the log holds the password")
	}
	h.Invariants(t)
	h.AllowFailures()
	h.People.Fail(secret.ErrBusy)
	authztest.WantError(t, "busy", byPassword(h), 503, "temporarily_unavailable")
	h.People.Fail(errors.New("no answer"))
	authztest.WantError(t, "no answer", byPassword(h), 503, "temporarily_unavailable")
}

// TestPasswordGrantAndTheSecondFactor: a client cannot pass by the second factor of a person, unless the operator says
// so for this client.
func TestPasswordGrantAndTheSecondFactor(t *testing.T) {
	t.Parallel()
	for only, status := range map[bool]int{false: 400, true: 200} {
		h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
			authztest.ChangeClient(c, "legacy", func(c *client.Client) { c.PasswordOnly = only })
		}))
		h.People.SetUpSecondFactor(true)
		res := byPassword(h)
		if res.Status != status || status == 400 &&
			(res.Text("error") != "invalid_grant" || !strings.Contains(res.Text("error_description"), "second factor")) {
			t.Errorf("password_only %t = %d %s, want %d", only, res.Status, res.Body, status)
		}
	}
}

func TestPasswordGrantOfABlockedPerson(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
	authztest.WantError(t, "blocked", byPassword(h), 400, "invalid_grant")
	h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = true })
	token := byPassword(h).Text("access_token")
	authztest.WantActive(t, h, "active", token, true)
	h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
	authztest.WantActive(t, h, "blocked", token, false)
	h.Clock.Advance(time.Second)
	h.Invariants(t)
}
