package grant_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// TestResourceAsURLClassesWriteIt: a client that writes the address of its API through a URL class gets its token,
// which names the API as the operator wrote it.
func TestResourceAsURLClassesWriteIt(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "reports", func(c *client.Client) {
			c.Audiences = []string{"https://API.example.com", "http://localhost:80/mcp", "https://api.example.com/v1/", "urn:example:api"}
		})
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Audiences = []string{"https://api.example.com"} })
		c.APIClients[3].Audiences = []string{"https://api.example.com:443/"}
	}))
	for sent, want := range map[string]string{
		"https://api.example.com/": "https://API.example.com", "https://api.example.com:443": "https://API.example.com",
		"HTTPS://Api.Example.COM": "https://API.example.com",
		"http://LOCALHOST/mcp":    "http://localhost:80/mcp", "https://api.example.com/v1/": "https://api.example.com/v1/",
		"urn:example:api": "urn:example:api",
	} {
		res := authztest.OwnToken(h, "resource", sent)
		if aud, ok := h.Introspect(res.Text("access_token")).JSON()["aud"].([]any); !ok || len(aud) != 1 || aud[0] != want {
			t.Errorf("resource %s: %d %s, aud = %v, want %s", sent, res.Status, res.Body, aud, want)
		}
	}
	for _, sent := range []string{
		"http://api.example.com/", "https://api.example.com:8443/", "https://api.example.com//", "https://api.example.com/V1/",
		"https://api.example.com/v1", "https://api.example.com/?x=1",
		"https://api.example.com/#a", "https://a@api.example.com/", "http://localhost/mcp/", "URN:example:api",
		"https://api.example.com.evil.example/",
	} {
		authztest.WantError(t, sent, authztest.OwnToken(h, "resource", sent), http.StatusBadRequest, "invalid_target")
	}
	// The same at the authorization endpoint, and when the audience is narrowed later.
	tokens := h.Tokens("shop", authztest.Demo, "resource", "https://API.example.com/")
	if got := h.Introspect(tokens.Access).JSON()["aud"]; len(got.([]any)) != 1 || got.([]any)[0] != "https://api.example.com" {
		t.Errorf("aud = %v, want the client's spelling", got)
	}
	authztest.WantStatus(t, "refresh", h.Token("shop", url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {tokens.Refresh}, "resource": {"https://api.example.com:443/"},
	}), http.StatusOK)
	// An API client that spells its audience in another way still reads the token.
	token := h.Tokens("shop", authztest.Demo, "resource", "https://api.example.com").Access
	if res := h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {token}},
		authztest.Basic("narrow", authztest.Secret("narrow"))...); res.JSON()["active"] != true {
		t.Errorf("Introspect as narrow = %s, want active", res.Body)
	}
	h.Invariants(t)
}

// TestScopesOfTheSite: a client that names no scope, but a site or an address below it, gets what the site asks for, as
// far as it is allowed it, in every grant.
func TestScopesOfTheSite(t *testing.T) {
	t.Parallel()
	const site = "https://mcp.example.com/mcp"
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		c.Scopes = append(c.Scopes, client.Scope{Name: "secure.tools", Level: 2})
		c.Resources = []client.Resource{
			{URI: site, Scopes: []string{"tools.read", "tools.other", "secure.tools"}, First: []string{"tools.read", "tools.other", "secure.tools"}},
			{URI: "https://reports.example.com", Scopes: []string{"reports.read", "tools.read"}, First: []string{"reports.read", "tools.read"}},
			{URI: "https://mcp.example.com", Scopes: []string{"root.read"}, First: []string{"root.read"}},
		}
		for _, id := range []string{"shop", "reports"} {
			authztest.ChangeClient(c, id, func(c *client.Client) {
				c.Scopes, c.Audiences = append(c.Scopes, "tools.read", "secure.tools", "root.read"), nil
			})
		}
	}))
	scopes := func(token string) (scope string, aud any) {
		t.Helper()
		v := h.Introspect(token).JSON()
		list := strings.Fields(fmt.Sprint(v["scope"]))
		slices.Sort(list)
		return strings.Join(list, " "), v["aud"]
	}
	for resource, want := range map[string]struct{ people, machine, aud string }{
		site:                             {"openid secure.tools tools.read", "reports.read tools.read", site},
		site + "/":                       {"openid secure.tools tools.read", "reports.read tools.read", site},
		"https://MCP.example.com/mcp/x/": {"openid secure.tools tools.read", "reports.read tools.read", site},
		"https://mcp.example.com/other":  {"openid root.read", "reports.read root.read", "https://mcp.example.com"},
	} {
		tokens := h.Tokens("shop", authztest.Demo, "scope", "", "resource", resource)
		if got, aud := scopes(tokens.Access); got != want.people || fmt.Sprint(aud) != "["+want.aud+"]" {
			t.Errorf("a code for %s = %q for %v, want %q for %s", resource, got, aud, want.people, want.aud)
		}
		res := h.Token("shop", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.Refresh}, "resource": {resource}})
		if got, _ := scopes(res.Text("access_token")); res.Status != http.StatusOK || got != want.people {
			t.Errorf("a refresh for %s = %d %q, want %q", resource, res.Status, got, want.people)
		}
		res = authztest.OwnToken(h, "resource", resource)
		if got, aud := scopes(res.Text("access_token")); got != want.machine || fmt.Sprint(aud) != "["+want.aud+"]" {
			t.Errorf("a client's own token for %s = %d %q for %v, want %q for %s", resource, res.Status, got, aud, want.machine, want.aud)
		}
	}
	if got, _ := scopes(authztest.OwnToken(h, "resource", "https://reports.example.com").Text("access_token")); got != "reports.read" {
		t.Errorf("a client whose default scopes have some of the site gets %q, want its own", got)
	}
	tokens := h.Tokens("shop", authztest.Demo, "scope", "openid", "resource", site)
	if got, _ := scopes(tokens.Access); got != "openid" {
		t.Errorf("a client that names openid gets %q", got)
	}
	h.Invariants(t)
}

// TestUnknownResourceWithoutScopes: a client without default scopes that names no scope and an unknown resource hears
// of the resource, at every door.
func TestUnknownResourceWithoutScopes(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithExchangers(), authztest.WithConfig(func(c *authz.Config) {
		for _, id := range []string{"reports", "legacy", "shop", "api"} {
			authztest.ChangeClient(c, id, func(c *client.Client) { c.DefaultScopes = nil })
		}
		c.Clients = append(c.Clients, &client.Client{
			ID: "radio", Secrets: []secret.String{secret.New(authztest.Secret("radio"))}, Grants: []string{"device_code"},
			Scopes: []string{"openid"},
		})
	}))
	const unknown = "https://nowhere.example.com/api"
	with := func(f url.Values) url.Values {
		f.Del("scope")
		f.Set("resource", unknown)
		return f
	}
	foreign := h.Tokens("shop", authztest.Demo, "scope", "openid").Access
	for name, res := range map[string]*authztest.Response{
		"client credentials": h.Token("reports", with(url.Values{"grant_type": {"client_credentials"}})),
		"password": h.Token("legacy", with(url.Values{
			"grant_type": {"password"}, "username": {authztest.Demo}, "password": {authztest.Password},
		})),
		"pushed request": h.Call("/oauth/par", "shop", with(h.Params("shop"))),
		"device":         h.Call("/oauth/device_authorization", "radio", with(url.Values{})),
		"token exchange": h.Token("api", with(authztest.ExchangeForm(foreign, "audience", ""))),
	} {
		authztest.WantError(t, name, res, http.StatusBadRequest, "invalid_target")
		if says := res.Text("error_description"); !strings.Contains(says, unknown) {
			t.Errorf("%s: %q, want the name of the resource", name, says)
		}
	}
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	if _, params := b.Authorize("shop", "scope", "", "resource", unknown).Redirect(); params.Get("error") != "invalid_target" {
		t.Errorf("authorization request: %v, want invalid_target", params)
	}
	authztest.WantError(t, "no scope and no resource", authztest.OwnToken(h), http.StatusBadRequest, "invalid_scope")
}
