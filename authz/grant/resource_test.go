package grant_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
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
		"https://api.example.com/": "https://API.example.com", "https://api.example.com:443": "https://API.example.com", "HTTPS://Api.Example.COM": "https://API.example.com",
		"http://LOCALHOST/mcp": "http://localhost:80/mcp", "https://api.example.com/v1/": "https://api.example.com/v1/", "urn:example:api": "urn:example:api",
	} {
		res := authztest.OwnToken(h, "resource", sent)
		if aud, ok := h.Introspect(res.Text("access_token")).JSON()["aud"].([]any); !ok || len(aud) != 1 || aud[0] != want {
			t.Errorf("resource %s: %d %s, aud = %v, want %s", sent, res.Status, res.Body, aud, want)
		}
	}
	for _, sent := range []string{
		"http://api.example.com/", "https://api.example.com:8443/", "https://api.example.com//", "https://api.example.com/V1/", "https://api.example.com/v1", "https://api.example.com/?x=1",
		"https://api.example.com/#a", "https://a@api.example.com/", "http://localhost/mcp/", "URN:example:api", "https://api.example.com.evil.example/",
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
	if res := h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {token}}, authztest.Basic("narrow", authztest.Secret("narrow"))...); res.JSON()["active"] != true {
		t.Errorf("Introspect as narrow = %s, want active", res.Body)
	}
	h.Invariants(t)
}
