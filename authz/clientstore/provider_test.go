package clientstore_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// withProviders adds the providers edge and off, which is disabled, and clients for them.
func withProviders() authztest.Option {
	client := func(id string, idps ...string) *client.Client {
		return &client.Client{
			ID: id, Secrets: []secret.String{secret.New(authztest.Secret(id))},
			RedirectURIs: []string{"https://" + id + ".example.com/callback"}, Consent: "off",
			Grants: []string{"authorization_code", "refresh_token"}, Scopes: []string{"openid"}, IDPs: idps,
		}
	}
	jwt := client("front-jwt", "edge")
	jwt.TokenFormat = "jwt"
	return authztest.WithConfig(func(c *authz.Config) {
		c.Providers = []clientstore.Provider{
			{ID: "edge", Parameters: []string{"branch", "desk"}},
			{ID: "off", Disabled: true, Parameters: []string{"room"}},
		}
		c.Clients = append(c.Clients, client("front", "edge"), client("both", "identity", "edge", "off"),
			client("closed", "off", "identity"), jwt)
	})
}

// signInByEdge makes every sign-in one of edge, with its details of the person.
func signInByEdge(h *authztest.Harness) {
	h.People.After(func(r *authn.Result) {
		r.Provider, r.AMR, r.Level = "edge", []string{"IMPLICIT"}, 2
		r.Details = map[string][]string{"email": {"ann@example.com"}, "branch": {"north", "south"}}
	})
}

// token server document, "Authorization endpoint": idp.
func TestAuthorizeProvider(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withProviders())
	for _, tc := range []struct {
		name, client, idp string
		provider          string   // demanded
		providers         []string // demanded; nil: the 403 page
	}{
		{"default", "front", "", "", []string{"edge"}},
		{"chosen", "front", "edge", "edge", []string{"edge"}},
		{"first of several", "both", "", "", []string{"identity", "edge"}},
		{"second of several", "both", "edge", "edge", []string{"identity", "edge"}},
		{"identity", "both", "identity", "identity", []string{"identity", "edge"}},
		{"disabled", "both", "off", "", nil},
		{"default is disabled", "closed", "", "", nil},
		{"beside a disabled default", "closed", "identity", "identity", []string{"identity"}},
		{"not the client's", "front", "identity", "", nil},
		{"not the client's either", "shop", "edge", "", nil},
		{"unknown", "both", "partner", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := len(h.People.Demands())
			res := h.Browser("").Authorize(tc.client, "idp", tc.idp)
			demands := h.People.Demands()[before:]
			if tc.providers == nil {
				if res.Status != http.StatusForbidden || !strings.Contains(res.Body, "This sign-in method isn’t available here") ||
					len(demands) > 0 || res.Location() != "" {
					t.Errorf("Authorize = %d %q, %d demands, want the 403 page", res.Status, res.Location(), len(demands))
				}
				return
			}
			if len(demands) == 0 {
				t.Fatalf("Authorize = %d %s, want a demand", res.Status, res.Body)
			}
			for _, d := range demands {
				if d.Provider != tc.provider || !slices.Equal(d.Providers, tc.providers) {
					t.Errorf("demand of %q, %q, want %q, %q", d.Provider, d.Providers, tc.provider, tc.providers)
				}
			}
		})
	}
	h.Invariants(t)
}

// token server document, "Introspection response" and "Custom validation response": user_details, user_attributes, amr.
func TestUserDetails(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withProviders())
	signInByEdge(h)
	want := map[string]any{"email": "ann@example.com", "branch": []any{"north", "south"}}
	ask := func(token, refresh string) *authztest.Response {
		f := url.Values{"token": {token}}
		if refresh != "" {
			f.Set("refresh_user_details", refresh)
		}
		return h.Post("/oauth/api/v2/token/introspect", f, authztest.Basic("ops", authztest.Secret("ops"))...)
	}
	for _, client := range []string{"front", "front-jwt"} {
		tokens := h.Tokens(client, authztest.Demo)
		refreshed := h.Refresh(client, tokens.Refresh)
		for name, token := range map[string]string{
			"access": tokens.Access, "refreshed": refreshed.Text("access_token"),
			"refresh": refreshed.Text("refresh_token"),
		} {
			for _, again := range []string{"", "false", "true"} {
				res := ask(token, again)
				if diff := cmp.Diff(want, res.JSON()["user_details"]); diff != "" {
					t.Errorf("%s: user_details of the %s token, refresh_user_details=%q (-want +got):\n%s", client, name, again, diff)
				}
				if diff := cmp.Diff([]any{"IMPLICIT"}, res.JSON()["amr"]); diff != "" {
					t.Errorf("%s: amr of the %s token (-want +got):\n%s", client, name, diff)
				}
			}
		}
		authztest.WantError(t, "refresh_user_details=yes", ask(tokens.Access, "yes"), 400, "invalid_request")
		v := h.Validate(tokens.Access).JSON()
		if diff := cmp.Diff(map[string]any{"email": "ann@example.com", "branch": "north,south"}, v["user_attributes"]); diff != "" {
			t.Errorf("%s: user_attributes (-want +got):\n%s", client, diff)
		}
		if parts := strings.Split(tokens.Access, "."); client == "front-jwt" &&
			(len(parts) != 3 || strings.Contains(decode(t, parts[1]), "ann@example.com")) {
			t.Errorf("the JWT %s tells the details", tokens.Access)
		}
		if id := decode(t, strings.Split(tokens.ID, ".")[1]); strings.Contains(id, "ann@example.com") || strings.Contains(id, `"pwd"`) {
			t.Errorf("the ID token says %s, want neither details nor a password", id)
		}
	}
	// A sign-in without details has none, even if another sign-in of the person had some.
	h.People.After(nil)
	if res := h.Introspect(h.Tokens("shop", authztest.Demo).Access); res.JSON()["user_details"] != nil {
		t.Errorf("user_details = %v after a password, want none", res.JSON()["user_details"])
	}
	h.Invariants(t)
}

// token server document, "Introspection response": "includes whitelisted request parameter values". Others are dropped,
// also those of a provider that the client is not allowed.
func TestProviderParameters(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withProviders())
	last := func(client string, changes ...string) (*authztest.Response, map[string][]string) {
		res := h.Browser("").Authorize(client, changes...)
		demands := h.People.Demands()
		return res, demands[len(demands)-1].Params
	}
	if _, got := last("both", "branch", "north", "room", "12", "other", "x", "desk", ""); !cmp.Equal(got,
		map[string][]string{"branch": {"north"}}) {
		t.Errorf("Params = %v, want branch alone", got)
	}
	if _, got := last("shop", "branch", "north"); got != nil {
		t.Errorf("Params = %v for a client of identity, want none", got)
	}
	for name, value := range map[string]string{"long": strings.Repeat("x", 513), "control": "a\x01"} {
		res := h.Browser("").Authorize("front", "branch", value)
		if _, params := res.Redirect(); params.Get("error") != "invalid_request" {
			t.Errorf("Authorize(%s) = %d %q, want invalid_request", name, res.Status, res.Location())
		}
	}
	twice := h.Browser("").Follow(h.AuthorizeURL("front", "branch", "north") + "&branch=south")
	if _, params := twice.Redirect(); params.Get("error") != "invalid_request" {
		t.Errorf("Authorize(branch twice) = %d %q, want invalid_request", twice.Status, twice.Location())
	}
	h.Invariants(t)
}

// A provider that is taken from a client or switched off cannot be used for new requests. Issued tokens stay valid,
// except that the validation grant refuses them.
func TestProviderTaken(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withProviders())
	signInByEdge(h)
	code := h.Browser(authztest.Demo).Code("front")
	token := h.Tokens("front", authztest.Demo).Access
	authztest.WantStatus(t, "Validate before", h.Validate(token), http.StatusOK)
	h.Restart(func(c *authz.Config) {
		c.Providers = slices.Clone(c.Providers)
		c.Providers[0].Disabled = true
	})
	authztest.WantError(t, "Validate after", h.Validate(token), 403, "Unable to determine identity provider")
	if res := h.Redeem("front", code); res.Status == http.StatusOK {
		t.Errorf("Token = %d, want the code refused", res.Status)
	}
	if res := h.Browser(authztest.Demo).Authorize("front"); res.Status != http.StatusForbidden {
		t.Errorf("Authorize = %d, want 403", res.Status)
	}
	h.Invariants(t)
}

func TestProviderConfig(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withProviders())
	for name, tc := range map[string]struct {
		change func(*authz.Config)
		want   string
	}{
		"unknown": {func(c *authz.Config) { c.Providers = nil }, `there is no identity provider "edge"`},
		"twice":   {func(c *authz.Config) { c.Providers = append(c.Providers, c.Providers[0]) }, `idp "edge" is declared twice`},
		"identity": {
			func(c *authz.Config) { c.Providers = append(c.Providers, clientstore.Provider{ID: "identity"}) },
			`idp "identity" is declared twice`,
		},
		"our parameter": {func(c *authz.Config) {
			c.Providers = append(c.Providers, clientstore.Provider{ID: "x", Parameters: []string{"client_id"}})
		}, "meaning of its own"},
		"empty parameter": {func(c *authz.Config) {
			c.Providers = append(c.Providers, clientstore.Provider{ID: "x", Parameters: []string{""}})
		}, "not the name of a parameter"},
	} {
		if err := h.Try(tc.change); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%s) = %v, want %q in it", name, err, tc.want)
		}
	}
	client := client.Client{ID: "added", Grants: []string{"client_credentials"}, Scopes: []string{"x"}, IDPs: []string{"partner"}}
	if _, err := h.Server().Clients().Add(t.Context(), client, authztest.Admin); err == nil ||
		!strings.Contains(err.Error(), `no identity provider "partner"`) {
		t.Errorf("AddClient = %v, want it refused", err)
	}
	client.IDPs = []string{"edge"}
	if _, err := h.Server().Clients().Add(t.Context(), client, authztest.Admin); err != nil {
		t.Errorf("AddClient = %v", err)
	}
}

// decode reads a part of a JWT.
func decode(t *testing.T, part string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
