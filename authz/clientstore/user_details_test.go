package clientstore_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// token server document, "Token introspection": refresh_user_details=true forces a fresh fetch.
func TestRefreshUserDetails(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withProviders())
	signInByEdge(h)
	asked := 0
	h.People.OnRefresh(func(context.Context) (map[string][]string, error) {
		asked++
		return map[string][]string{"email": {"new@example.com"}}, nil
	})
	ask := func(token, refresh string) any {
		t.Helper()
		res := h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {token}, "refresh_user_details": {refresh}},
			authztest.Basic("ops", authztest.Secret("ops"))...)
		if want := map[string]string{"true": "refreshed"}[refresh]; res.JSON()["active"] == true &&
			res.Header.Get("Gatehouse-User-Details") != want {
			t.Errorf("refresh_user_details=%s: Gatehouse-User-Details = %q, want %q", refresh, res.Header.Get("Gatehouse-User-Details"), want)
		}
		return res.JSON()["user_details"]
	}
	old, fresh := map[string]any{"email": "ann@example.com", "branch": []any{"north", "south"}}, map[string]any{"email": "new@example.com"}
	for _, client := range []string{"front", "front-jwt"} {
		tokens := h.Tokens(client, authztest.Demo)
		asked = 0
		for _, step := range []struct {
			name, token, refresh string
			want                 any
			asked                int
		}{
			{"as it was", tokens.Access, "false", old, 0},
			{"again", tokens.Access, "true", fresh, 1},
			{"kept", tokens.Access, "false", fresh, 1},
			{"kept for the refresh token too", tokens.Refresh, "false", fresh, 1},
			{"again by the refresh token", tokens.Refresh, "true", fresh, 2},
		} {
			if diff := cmp.Diff(step.want, ask(step.token, step.refresh)); diff != "" || asked != step.asked {
				t.Errorf("%s: %s: asked %d times, want %d; user_details (-want +got):\n%s", client, step.name, asked, step.asked, diff)
			}
		}
	}
	// The provider is not asked about an inactive token.
	asked = 0
	ask("garbage", "true")
	if asked != 0 {
		t.Errorf("asked %d times about a token of nobody", asked)
	}
	h.Invariants(t)
}

func TestRefreshUserDetailsAttack(t *testing.T) {
	t.Parallel()
	t.Run("attack 92: a provider that is down, slow or endless", func(t *testing.T) {
		t.Parallel()
		h := authztest.New(t, withProviders())
		signInByEdge(h)
		token := h.Tokens("front", authztest.Demo).Access
		want := map[string]any{"email": "ann@example.com", "branch": []any{"north", "south"}}
		for name, refresh := range map[string]func(context.Context) (map[string][]string, error){
			"down":   func(context.Context) (map[string][]string, error) { return nil, errors.New("connection refused") },
			"nobody": func(context.Context) (map[string][]string, error) { return nil, nil },
			"slow": func(ctx context.Context) (map[string][]string, error) {
				limit, ok := ctx.Deadline()
				if !ok || time.Until(limit) > 2*time.Second {
					t.Errorf("the provider has until %v, want 2 s at most", limit)
				}
				return nil, context.DeadlineExceeded
			},
		} {
			h.People.OnRefresh(refresh)
			res := h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {token}, "refresh_user_details": {"true"}},
				authztest.Basic("ops", authztest.Secret("ops"))...)
			if diff := cmp.Diff(want, res.JSON()["user_details"]); diff != "" || res.Status != http.StatusOK ||
				res.Header.Get("Gatehouse-User-Details") != "cached" {
				t.Errorf("%s: %d, Gatehouse-User-Details %q, want cached, user_details (-want +got):\n%s", name, res.Status,
					res.Header.Get("Gatehouse-User-Details"), diff)
			}
		}
		if got := strings.Count(h.Log(), "user details not refreshed"); got != 3 {
			t.Errorf("%d log lines say that nothing was fetched, want 3", got)
		}
		own := authztest.OwnToken(h).Text("access_token")
		res := h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {own}, "refresh_user_details": {"true"}},
			authztest.Basic("ops", authztest.Secret("ops"))...)
		if got := res.Header.Get("Gatehouse-User-Details"); res.JSON()["active"] != true || got != "cached" {
			t.Errorf("a client's own token: %d %s, Gatehouse-User-Details = %q, want cached", res.Status, res.Body, got)
		}
		h.Invariants(t)
	})
}

// dynamic are providers that come and go.
type dynamic struct {
	mu      sync.Mutex // guards all below
	list    []clientstore.Provider
	version uint64
	err     error
}

func (d *dynamic) Providers(context.Context) ([]clientstore.Provider, uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list, d.version, d.err
}

func (d *dynamic) set(err error, list ...clientstore.Provider) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list, d.err = list, err
	d.version++
}

// TestManagedProviders holds that a client of the identity service can use its providers while they exist.
func TestManagedProviders(t *testing.T) {
	t.Parallel()
	d := &dynamic{version: 1}
	h := authztest.New(t, withProviders(), authztest.WithProviders(d))
	demand := func(client string, changes ...string) (*authztest.Response, authn.Demand) {
		before := len(h.People.Demands())
		res := h.Browser("").Authorize(client, changes...)
		demands := h.People.Demands()
		if len(demands) == before {
			return res, authn.Demand{}
		}
		return res, demands[len(demands)-1]
	}
	if res, _ := demand("both", "idp", "partner"); res.Status != http.StatusForbidden {
		t.Errorf("before it is there: %d, want 403", res.Status)
	}
	d.set(nil, clientstore.Provider{ID: "partner", Managed: true}, clientstore.Provider{ID: "out", Managed: true, Disabled: true},
		clientstore.Provider{ID: "edge", Managed: true})
	for _, tc := range []struct {
		client, param, value string
		provider             string
		providers            []string // nil: the 403 page
	}{
		{"both", "", "", "", []string{"identity", "edge", "partner"}},
		{"both", "idp", "partner", "partner", []string{"identity", "edge", "partner"}},
		{"both", "external_idp", "urn:com:service:saml:idp:partner", "partner", []string{"identity", "edge", "partner"}},
		{"both", "external_idp", "urn:com:service:saml:idp:edge", "edge", []string{"identity", "edge", "partner"}},
		{"front", "external_idp", "urn:com:service:saml:idp:edge", "edge", []string{"edge"}},
		{"front", "external_idp", "urn:com:service:saml:idp:partner", "", nil},
		{"both", "external_idp", "urn:com:service:saml:idp:identity", "", nil},
		{"both", "external_idp", "urn:com:service:saml:idp:off", "", nil},
		{"both", "external_idp", "urn:com:service:saml:idp:PARTNER", "", nil},
		{"both", "idp", "out", "", nil},
		{"front", "", "", "", []string{"edge"}},
	} {
		changes := []string{}
		if tc.param != "" {
			changes = []string{tc.param, tc.value}
		}
		res, got := demand(tc.client, changes...)
		if tc.providers == nil {
			if res.Status != http.StatusForbidden || got.Client.ID != "" {
				t.Errorf("Authorize(%s, %q) = %d, want the 403 page", tc.client, changes, res.Status)
			}
			continue
		}
		if got.Provider != tc.provider || !slices.Equal(got.Providers, tc.providers) {
			t.Errorf("Authorize(%s, %q) = %d, demand of %q, %q, want %q, %q", tc.client, changes, res.Status, got.Provider, got.Providers,
				tc.provider, tc.providers)
		}
	}
	for name, other := range map[string]string{"another provider": "edge", "the same": "partner", "the service itself": "identity"} {
		res, _ := demand("both", "idp", other, "external_idp", "urn:com:service:saml:idp:partner")
		if refused := res.Status == http.StatusForbidden; refused != (other == "edge") {
			t.Errorf("idp of %s beside external_idp: %d", name, res.Status)
		}
	}
	// A code of a provider that was removed since is worthless.
	h.People.After(func(r *authn.Result) { r.Provider = "partner" })
	code := h.Browser(authztest.Demo).Code("both")
	d.set(nil)
	if res := h.Redeem("both", code); res.Status == http.StatusOK {
		t.Errorf("Token = %d after the provider is gone, want it refused", res.Status)
	}
	h.Invariants(t)
	h.AllowFailures()
	d.set(errors.New("storage is away"))
	res, err := h.Client.Get(h.Issuer + h.AuthorizeURL("both"))
	if err != nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("nobody can tell: %v, %v, want 503", res, err)
	}
	res.Body.Close()
}

// TestLogoutByWayOfTheProvider holds that a sign-out visits the identity provider and then its own target.
func TestLogoutByWayOfTheProvider(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.People.Farewell()
	b := h.Browser(authztest.Demo)
	id := h.Tokens("shop", authztest.Demo).ID
	b.Code("shop")
	target := h.Config.Clients[0].PostLogoutRedirectURIs[0]
	res := b.Get("/oauth/logout?" + url.Values{"id_token_hint": {id}, "post_logout_redirect_uri": {target}, "state": {"s"}}.Encode())
	u, err := url.Parse(res.Location())
	if err != nil || u.Path != "/test/farewell" || u.Query().Get("ret") != target+"?state=s" {
		t.Errorf("Logout = %d to %q, want by way of the provider to %s", res.Status, res.Location(), target)
	}
	b = h.Browser(authztest.Demo)
	b.Code("shop")
	res = b.Get("/oauth/logout?" + url.Values{"id_token_hint": {id}}.Encode())
	if u, err = url.Parse(res.Location()); err != nil || u.Query().Get("ret") != h.Issuer+"/sign-out" {
		t.Errorf("Logout without a target = %d to %q, want by way of the provider to our page", res.Status, res.Location())
	}
	h.Invariants(t)
}

// TestTokensEnded holds that the tokens of a session end with it, and no others.
func TestTokensEnded(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	one, other := h.Tokens("shop", authztest.Demo), h.Tokens("shop", authztest.Demo)
	in, err := h.Server().Introspect(t.Context(), one.Access)
	if err != nil || in.SessionID == "" {
		t.Fatalf("Introspect = %+v, %v", in, err)
	}
	err = h.Store.Update(t.Context(), func(tx storage.Tx) error { return h.Server().TokensEnded(tx, in.Subject, in.SessionID) })
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		token string
		want  bool
	}{"access": {one.Access, false}, "refresh": {one.Refresh, false}, "another session's": {other.Access, true}} {
		if got := h.Introspect(tc.token).JSON()["active"]; got != tc.want {
			t.Errorf("%s token active: %v, want %t", name, got, tc.want)
		}
	}
	h.Invariants(t)
}

// TestPassiveElsewhere holds that prompt=none can ask an identity provider, and never ends on a page.
func TestPassiveElsewhere(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.People.Elsewhere()
	b := h.Browser("")
	res := b.Get(h.AuthorizeURL("shop", "prompt", "none"))
	if res.Status != http.StatusSeeOther || !strings.HasPrefix(res.Location(), "/test/sign-in") {
		t.Fatalf("Authorize = %d to %q, want to be sent on", res.Status, res.Location())
	}
	demands := h.People.Demands()
	if d := demands[len(demands)-1]; !d.Passive || d.Return == "" {
		t.Errorf("demand = %+v, want a passive one with a way back", d)
	}
	h.Invariants(t)
}
