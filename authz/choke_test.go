package authz_test

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"pgregory.net/rapid"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/workload"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/modeltest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

var (
	chokeGrants = []string{
		"authorization_code", "refresh_token", "client_credentials", "id_token", "implicit", "password",
		"validate_bearer", "device_code", "token_exchange", "jwt_bearer",
	}
	chokeScopes    = []string{"a.read", "b.read", "high.read"} // the last one needs level 2
	chokeResources = []string{"https://one.example.com", "https://two.example.com"}
)

// wish is a request of the client under test, for one grant and with one of each thing that can be denied.
type wish struct {
	grant, provider string
	scope           []string
	resource        string // empty: none
}

// choke is the client under test, redrawn each time.
type choke struct {
	h      *authztest.Harness
	client client.Client
	other  string // a token of another client, for validation
	issuer *authztest.BuildServer
}

// chokeHarness is a server with a client whose tokens the client under test can exchange, and an issuer whose identity
// assertions it can show.
func chokeHarness(t *testing.T) (*authztest.Harness, *authztest.BuildServer) {
	t.Helper()
	issuer := authztest.NewBuildServer(t, jose.ES256)
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		c.Scopes = append(c.Scopes, client.Scope{Name: "high.read", Level: 2})
		c.Providers = append(c.Providers, clientstore.Provider{ID: "partner"})
		c.Clients = append(c.Clients, &client.Client{
			ID: "source", Secrets: []secret.String{secret.New(authztest.Secret("source"))},
			RedirectURIs: []string{"https://source.example.com/callback"}, Consent: "off",
			Grants: []string{"authorization_code"}, Scopes: append([]string{"openid"}, chokeScopes...), IDPs: []string{"identity", "partner"},
		})
	}))
	h.People.Link("identity", issuer.URL, "u1", authztest.Demo)
	return h, issuer
}

func (c *choke) has(grant string) bool {
	return slices.Contains(c.client.Grants, grant) || (grant == "id_token" && slices.Contains(c.client.Grants, "implicit"))
}

// allowed is a second implementation of the rules of the choke point.
func (c *choke) allowed(w wish) bool {
	switch {
	case c.client.Disabled, !c.has(w.grant):
		return false
	case w.grant == "validate_bearer":
		return true // it asks for nothing further
	case slices.ContainsFunc(w.scope, func(s string) bool { return !slices.Contains(c.client.Scopes, s) }):
		return false
	case w.grant == "token_exchange" && !slices.Contains(c.client.Audiences, cmp.Or(w.resource, chokeResources[0])):
		return false // it is always for someone
	case w.resource != "" && !slices.Contains(c.client.Audiences, w.resource):
		return false
	case slices.Contains(w.scope, "high.read") && (w.grant == "client_credentials" || w.grant == "password" || w.grant == "jwt_bearer"):
		return false // there is no person, or none who could be asked to step up
	}
	byPerson := w.grant == "authorization_code" || w.grant == "id_token" || w.grant == "implicit" || w.grant == "password" ||
		w.grant == "device_code" || w.grant == "token_exchange"
	return !byPerson || w.provider == "identity"
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Fatalf(format string, args ...any)
}

// configure makes the client one of the configuration, as a reload does.
func (c *choke) configure(changed client.Client) {
	if slices.Contains(changed.Grants, "token_exchange") {
		changed.Exchange = &client.Exchange{From: []string{"source"}, To: changed.Audiences}
		if len(changed.Audiences) == 0 {
			changed.Exchange.To = []string{"https://none.example.com"}
		}
	}
	c.h.Restart(func(cfg *authz.Config) {
		cfg.Trusted = nil
		if slices.Contains(changed.Grants, "jwt_bearer") {
			cfg.Trusted = []workload.Rule{{Issuer: c.issuer.URL, Client: changed.ID, Provider: "identity"}}
		}
		cfg.Clients = slices.DeleteFunc(slices.Clone(cfg.Clients), func(o *client.Client) bool { return o.ID == changed.ID })
		cfg.Clients = append(cfg.Clients, &changed)
	})
}

// try makes the request and returns the answer, which can hold a token.
func (c *choke) try(t failer, w wish) url.Values {
	c.h.People.SignInBy(w.provider)
	c.h.People.After(func(r *authn.Result) { r.Provider = w.provider })
	defer c.h.People.After(nil)
	defer c.h.People.SignInBy("")
	f := url.Values{"grant_type": {w.grant}, "scope": {strings.Join(w.scope, " ")}}
	changes := []string{"scope", strings.Join(w.scope, " ")}
	if w.resource != "" {
		f.Set("resource", w.resource)
		changes = append(changes, "resource", w.resource)
	}
	switch w.grant {
	case "authorization_code", "id_token", "implicit":
		switch w.grant {
		case "implicit":
			changes = append(changes, "response_type", "token")
		case "id_token":
			changes = append(changes, "response_type", "id_token")
			changes[1] += " openid"
		}
		res := c.h.Browser(authztest.Demo).Authorize("choke", changes...)
		_, answer := res.Redirect()
		if res.Status >= 500 {
			t.Fatalf("%+v = %d %s", w, res.Status, res.Body)
		}
		if w.grant != "authorization_code" || !answer.Has("code") {
			return answer
		}
		f = c.h.CodeForm("choke", answer.Get("code"))
	case "refresh_token":
		liberal := c.client
		liberal.Grants, liberal.Scopes, liberal.Audiences, liberal.Disabled = []string{"authorization_code", "refresh_token"},
			append([]string{"openid"}, chokeScopes...), chokeResources, false
		c.configure(liberal)
		c.h.People.After(nil)
		f.Set("refresh_token", c.h.Tokens("choke", authztest.Demo, "scope", strings.Join(w.scope, " ")).Refresh)
		c.configure(c.client)
	case "password":
		f.Set("username", "demo@example.com")
		f.Set("password", authztest.Password)
	case "device_code":
		answer := c.h.Call("/oauth/device_authorization", "choke", f)
		if answer.Status >= 500 {
			t.Fatalf("%+v = %d %s", w, answer.Status, answer.Body)
		}
		if answer.Status != http.StatusOK {
			return url.Values{}
		}
		c.h.Browser(authztest.Demo).Decide(answer.Text("user_code"), "allow")
		f = url.Values{"grant_type": {authztest.DeviceGrant}, "device_code": {answer.Text("device_code")}}
	case "token_exchange":
		f = authztest.ExchangeForm(c.h.Tokens("source", authztest.Demo, "scope", strings.Join(w.scope, " ")).Access, "scope",
			strings.Join(w.scope, " "), "audience", cmp.Or(w.resource, chokeResources[0]))
	case "jwt_bearer":
		f.Set("grant_type", authztest.JWTBearer)
		f.Set("assertion", c.issuer.Sign(c.h.T, c.issuer.About(c.h, "client_id", "choke", "scope", nil, "resource", nil), authztest.IDJAGType))
	case "validate_bearer":
		f = url.Values{"grant_type": {authztest.ValidateBearer}, "token": {c.other}}
	}
	res := c.h.Token("choke", f)
	if res.Status >= 500 {
		t.Fatalf("%+v = %d %s", w, res.Status, res.Body)
	}
	answer := url.Values{}
	if res.Status == http.StatusOK {
		answer.Set("access_token", res.Text("access_token"))
		if w.grant == "validate_bearer" {
			answer.Set("access_token", c.other) // the answer described the token, which must be allowed
		}
	}
	return answer
}

// subset draws some of the values, in their order.
func subset(t *rapid.T, of []string, label string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(v string) bool { return rapid.IntRange(0, 3).Draw(t, label+" "+v) == 0 })
}

// Every grant gives what the client is allowed and nothing else, for any set of restrictions.
func TestChokePoint(t *testing.T) {
	t.Parallel()
	h, issuer := chokeHarness(t)
	other := h.Tokens("other", authztest.Guest).Access
	modeltest.Check(t, func(t *rapid.T) {
		c := &choke{h: h, other: other, issuer: issuer, client: client.Client{
			ID: "choke", Secrets: []secret.String{secret.New(authztest.Secret("choke"))},
			RedirectURIs: []string{"https://choke.example.com/callback"},
			Consent:      "off", Grants: subset(t, chokeGrants, "grant"), Scopes: append(subset(t, chokeScopes, "scope"), "openid"),
			Audiences: subset(t, chokeResources, "audience"),
			Disabled:  rapid.IntRange(0, 9).Draw(t, "disabled") == 0,
		}}
		if c.has("password") { // never together with a code
			c.client.Grants = slices.DeleteFunc(c.client.Grants, func(g string) bool { return g == "authorization_code" })
		}
		if !c.has("authorization_code") && !c.has("password") && !c.has("device_code") {
			c.client.Grants = slices.DeleteFunc(c.client.Grants, func(g string) bool { return g == "refresh_token" })
		}
		if len(c.client.Grants) == 0 {
			c.client.Grants = []string{"client_credentials"}
		}
		c.configure(c.client)
		w := wish{
			grant: rapid.SampledFrom(chokeGrants).Draw(t, "asked grant"), scope: subset(t, chokeScopes, "asked scope"),
			provider: rapid.SampledFrom([]string{"identity", "identity", "partner"}).Draw(t, "provider"),
			resource: rapid.SampledFrom(append([]string{""}, chokeResources...)).Draw(t, "asked resource"),
		}
		if len(w.scope) == 0 {
			w.scope = chokeScopes[:1]
		}
		c.check(t, w)
	})
	h.Invariants(t)
}

// Each grant is given to a client without restrictions, and denied by each restriction that concerns it.
func TestChokePointRestrictions(t *testing.T) {
	t.Parallel()
	h, issuer := chokeHarness(t)
	other := h.Tokens("other", authztest.Guest).Access
	full := client.Client{
		ID: "choke", Secrets: []secret.String{secret.New(authztest.Secret("choke"))},
		RedirectURIs: []string{"https://choke.example.com/callback"},
		Consent:      "off", Scopes: append([]string{"openid"}, chokeScopes...), Audiences: chokeResources,
	}
	for _, tc := range []struct {
		name     string
		restrict func(*client.Client, *wish)
		spares   []string // the grants that it does not concern
	}{
		{"none", func(*client.Client, *wish) {}, chokeGrants},
		{"grant", func(c *client.Client, w *wish) {
			c.Grants = slices.DeleteFunc(slices.Clone(c.Grants), func(g string) bool {
				// What needs it goes too, and what includes it.
				return g == w.grant || (w.grant == "authorization_code" && g == "refresh_token") || (w.grant == "id_token" && g == "implicit")
			})
		}, nil},
		{"scope", func(c *client.Client, _ *wish) { c.Scopes = []string{"openid", "b.read"} }, []string{"validate_bearer"}},
		{
			"level", func(_ *client.Client, w *wish) { w.scope = []string{"high.read"} },
			[]string{"authorization_code", "id_token", "implicit", "refresh_token", "validate_bearer", "device_code", "token_exchange"},
		},
		{"resource", func(c *client.Client, _ *wish) { c.Audiences = chokeResources[1:] }, []string{"validate_bearer"}},
		{
			"provider", func(_ *client.Client, w *wish) { w.provider = "partner" },
			[]string{"client_credentials", "refresh_token", "validate_bearer", "jwt_bearer"},
		},
		{"disabled", func(c *client.Client, _ *wish) { c.Disabled = true }, nil},
	} {
		for _, grant := range chokeGrants {
			t.Run("peer 66: the restriction of "+tc.name+" for "+grant, func(t *testing.T) {
				c := &choke{h: h, client: full, other: other, issuer: issuer}
				c.client.Grants = []string{
					"authorization_code", "refresh_token", "client_credentials", "id_token", "implicit", "validate_bearer",
					"device_code", "token_exchange", "jwt_bearer",
				}
				if grant == "password" {
					c.client.Grants = []string{"password", "client_credentials"}
				}
				w := wish{grant: grant, provider: "identity", scope: chokeScopes[:1], resource: chokeResources[0]}
				tc.restrict(&c.client, &w)
				if want := slices.Contains(tc.spares, grant); c.allowed(w) != want {
					t.Fatalf("the rules give it: %t, want %t", c.allowed(w), want)
				}
				c.configure(c.client)
				c.check(t, w)
			})
		}
	}
	h.Invariants(t)
}

// check makes the request and compares the answer with the rules.
func (c *choke) check(t failer, w wish) {
	answer := c.try(t, w)
	token := answer.Get("access_token")
	if got, want := token != "" || answer.Has("id_token"), c.allowed(w); got != want {
		t.Fatalf("%+v of a client with grants %v, scopes %v, audiences %v, disabled %t: given = %t, want %t; log: %s",
			w, c.client.Grants, c.client.Scopes, c.client.Audiences, c.client.Disabled, got, want, c.h.Log())
	}
	if token == "" || w.grant == "validate_bearer" {
		return
	}
	in, err := c.h.Server().Introspect(c.h.T.Context(), token)
	if err != nil || !in.Active || !slices.Equal(in.Scope, w.scope) || (w.resource != "" && !slices.Equal(in.Audience, []string{w.resource})) {
		t.Fatalf("%+v gave %+v, %v", w, in, err)
	}
}
