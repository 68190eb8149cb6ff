package grant_test

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// The members of the token server document, "Custom validation response".
func TestValidateBearer(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(authztest.LimitUses))
	h.People.Change(authztest.Demo, func(s *authn.Subject) {
		s.Details = map[string][]string{"branch": {"north"}, "roles": {"a", "b"}}
	})
	token := h.Tokens("shop", authztest.Demo, "scope", "openid profile").Access
	h.Clock.Advance(time.Minute)
	res := h.Validate(token)
	authztest.WantStatus(t, "Validate", res, 200)
	authztest.WantAPIHeaders(t, "Validate", res)
	got := res.JSON()
	for member, want := range map[string]any{
		"token_type": "bearer", "client_id": "shop", "expires_in": 840.0, "scope": "openid profile", "reference_id": authztest.Demo,
		"app_identifier": "", "app_version": "", "app_platform": "",
	} {
		if got[member] != want {
			t.Errorf("%s = %v, want %v", member, got[member], want)
		}
		delete(got, member)
	}
	attributes, _ := got["user_attributes"].(map[string]any)
	if attributes["branch"] != "north" || attributes["roles"] != "a,b" || len(attributes) != 2 {
		t.Errorf("user_attributes = %v", got["user_attributes"])
	}
	delete(got, "user_attributes")
	if len(got) > 0 {
		t.Errorf("further members: %v", slices.Sorted(maps.Keys(got)))
	}
	for _, member := range []string{"reference_id", "user_attributes", "usage_limit", "usage_count"} {
		if _, told := h.Validate(authztest.OwnToken(h).Text("access_token")).JSON()[member]; told {
			t.Errorf("%s is told of a client's own token", member)
		}
	}
	bound := h.Validate(authztest.OwnToken(h, "scope", "two.read").Text("access_token")).JSON()
	if bound["usage_limit"] != 2.0 || bound["usage_count"] != 1.0 {
		t.Errorf("limited = %v, want usage_limit 2, usage_count 1", bound)
	}
	h.Invariants(t)
}

// The answer cannot say for whom a token is meant, so a token for somewhere else is invalid at a resource server, and
// no use of it is counted.
func TestValidateBearerOfAnotherAudience(t *testing.T) {
	t.Parallel()
	const ours, theirs = "https://api.example.com", "https://other.example.com"
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Audiences = []string{ours, theirs} })
		authztest.ChangeClient(c, "rs", func(c *client.Client) { c.Audiences = []string{ours + "/"} })
	}))
	for _, tt := range []struct {
		name      string
		resources []string
		status    int
	}{
		{"for no resource", nil, 200},
		{"for the resource server", []string{ours}, 200},
		{"attack: for another one", []string{theirs}, 400},
	} {
		changes := []string{}
		for _, r := range tt.resources {
			changes = append(changes, "resource", r)
		}
		res := h.Validate(h.Tokens("shop", authztest.Demo, changes...).Access)
		if tt.status == 400 {
			authztest.WantError(t, tt.name, res, 400, "invalid_grant")
			continue
		}
		authztest.WantStatus(t, tt.name, res, tt.status)
	}
	h.Invariants(t)
}

// A token of a sign-in by a provider that is gone or disabled, or taken from the client, is inactive for both ways to
// ask. The identity service itself is no such provider.
func TestTokensOfDisabledProviders(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for provider, active := range map[string]bool{"identity": true, "partner": false} {
		tokens := h.Tokens("shop", authztest.Demo)
		if err := moveToProvider(t.Context(), h.Store, tokens.Access, provider); err != nil {
			t.Fatal(err)
		}
		if got := h.Introspect(tokens.Access).JSON(); got["active"] != active || !active && len(got) != 1 {
			t.Errorf("Introspect of a token by %s = %v, want active %t", provider, got, active)
		}
		if res := h.Validate(tokens.Access); active {
			authztest.WantStatus(t, "Validate of a token by "+provider, res, 200)
		} else {
			authztest.WantError(t, "Validate of a token by "+provider, res, 403, "Unable to determine identity provider")
		}
	}
	h.Invariants(t)
}

// TestTokensOfProvidersThatAreOff: a token of a sign-in by a provider that is off is inactive wherever it is shown.
func TestTokensOfProvidersThatAreOff(t *testing.T) {
	t.Parallel()
	t.Run("attack 1811: a token of a provider that is off", func(t *testing.T) {
		t.Parallel()
		h := authztest.New(t)
		other := h.Tokens("shop", authztest.Demo).Access
		tokens := h.Tokens("shop", authztest.Demo)
		if err := moveToProvider(t.Context(), h.Store, tokens.Access, "partner"); err != nil {
			t.Fatal(err)
		}
		userinfo := func(token string) *authztest.Response {
			return h.Get("/oauth/userinfo", "Authorization", "Bearer "+token)
		}
		authztest.WantStatus(t, "userinfo before", userinfo(tokens.Access), 200)
		h.People.SwitchOff("partner")
		if in, err := h.Server().Introspect(t.Context(), tokens.Access); err != nil || in.Active {
			t.Errorf("what sites read of the token = %v (%v), want inactive", in, err)
		}
		authztest.WantStatus(t, "userinfo", userinfo(tokens.Access), 401)
		authztest.WantActive(t, h, "the token", tokens.Access, false)
		authztest.WantError(t, "Validate", h.Validate(tokens.Access), 403, "Unable to determine identity provider")
		authztest.WantStatus(t, "userinfo of another sign-in", userinfo(other), 200)
		h.Invariants(t)
	})
}

// TestIntrospectionOfAStoredClient: the client of a token is read with it, once, also to decide about its provider.
func TestIntrospectionOfAStoredClient(t *testing.T) {
	t.Parallel()
	counted := &authztest.CountingStore{}
	h := authztest.New(t)
	counted.Store = h.Store.Store
	h.Store.Store = counted
	c := *h.Config.Clients[0]
	c.ID, c.Secrets = "stored", []secret.String{secret.New(authztest.Secret("stored"))}
	if _, err := h.Server().Clients().Add(t.Context(), c, authztest.Admin); err != nil {
		t.Fatal(err)
	}
	h.Config.Clients = append(h.Config.Clients, &c) // for the harness alone
	tokens := h.Tokens("stored", authztest.Demo)
	for name, token := range map[string]string{"access": tokens.Access, "refresh": tokens.Refresh} {
		got := counted.Work(func() {
			if !h.Active(token) {
				t.Errorf("Introspect of the %s token: inactive", name)
			}
		})
		if got[0] != 1 || got[1] != 0 {
			t.Errorf("Introspect of the %s token takes %d views and %d updates, want one view", name, got[0], got[1])
		}
	}
	h.Invariants(t)
}

// The rows of the token server document, "Errors".
func TestValidateBearerErrors(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	good := authztest.OwnToken(h).Text("access_token")
	refresh := h.Tokens("shop", authztest.Demo)
	gone := authztest.OwnToken(h).Text("access_token")
	h.Revoke("reports", gone)
	moved := h.Tokens("shop", authztest.Demo).Access
	if err := moveToProvider(t.Context(), h.Store, moved, "partner"); err != nil {
		t.Fatal(err)
	}
	form := func(token string) url.Values {
		return url.Values{"grant_type": {authztest.ValidateBearer}, "token": {token}}
	}
	basic := authztest.Basic("rs", authztest.Secret("rs"))
	post := func(f url.Values, headers ...string) *authztest.Response {
		return h.Post("/oauth/v1/token", f, headers...)
	}
	raw := func(body string, headers ...string) *authztest.Response {
		return h.Do(http.MethodPost, "/oauth/token", body, append([]string{"Content-Type", authztest.FormType}, headers...)...)
	}
	body := form(good).Encode()
	for _, tc := range []struct {
		name   string
		res    *authztest.Response
		status int
		code   string
	}{
		{"invalid", post(form("garbage"), basic...), 400, "invalid_grant"},
		{"revoked", post(form(gone), basic...), 400, "invalid_grant"},
		{"refresh token", post(form(refresh.Refresh), basic...), 400, "invalid_grant"},
		{"ID token", post(form(refresh.ID), basic...), 400, "invalid_grant"},
		{"token missing", post(url.Values{"grant_type": {authztest.ValidateBearer}}, basic...), 400, "invalid_request"},
		{"token twice", raw(body+"&token=x", basic...), 400, "invalid_request"},
		{"grant_type twice", raw(body+"&grant_type=x", basic...), 400, "invalid_request"},
		{"two credentials", post(form(good), append(basic, basic...)...), 400, "invalid_request"},
		{"two mechanisms", raw(body+"&client_secret=x", basic...), 400, "invalid_request"},
		{"malformed", raw("grant_type=%zz", basic...), 400, "invalid_request"},
		{"wrong secret", post(form(good), authztest.Basic("rs", "wrong")...), 401, "invalid_client"},
		{"no credentials, by name alone", raw(body + "&client_id=rs"), 401, "invalid_client"},
		{"not enabled", post(form(good), authztest.Basic("shop", authztest.Secret("shop"))...), 400, "unauthorized_client"},
		{"another grant type", post(url.Values{"grant_type": {"validate_bearer"}, "token": {good}}, basic...), 400, "unsupported_grant_type"},
		{"provider gone", post(form(moved), basic...), 403, "Unable to determine identity provider"},
	} {
		t.Run(tc.name, func(t *testing.T) { authztest.WantError(t, tc.name, tc.res, tc.status, tc.code) })
	}
	h.Clock.Advance(15 * time.Minute)
	authztest.WantError(t, "expired", h.Validate(good), 400, "invalid_grant")
	h.Invariants(t)

	h.AllowFailures()
	token := h.Tokens("shop", authztest.Demo).Access
	h.People.PanicOnGet()
	authztest.WantError(t, "unexpected", h.Validate(token), 500, "internal_server_error")
	h.People.PanicOnGet()
	authztest.WantError(t, "unexpected elsewhere", h.Introspect(token), 500, "server_error")
	h.People.Fail(errors.New("no answer"))
	authztest.WantError(t, "cannot tell", h.Validate(token), 503, "temporarily_unavailable")
}
