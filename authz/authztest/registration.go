package authztest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/client"
)

// DocumentID is the id of a client that publishes a document.
const DocumentID = "https://app.example/client.json"

// ToolsResource is a resource for which such clients ask.
const ToolsResource = "https://mcp.example.com"

// DocumentParams returns the parameters of an authorization request of such a client.
func DocumentParams(redirect, scope string) url.Values {
	return url.Values{
		"response_type": {"code"}, "client_id": {DocumentID}, "redirect_uri": {redirect}, "scope": {scope}, "state": {"s"},
		"resource":       {ToolsResource + "/"},
		"code_challenge": {Challenge}, "code_challenge_method": {"S256"},
	}
}

// AllowDocument runs a request of the client to its end and returns the code, and whether the person was asked.
func AllowDocument(t *testing.T, h *Harness, b *Browser, v url.Values) (code string, asked bool) {
	t.Helper()
	b.Pages = nil
	res := b.Follow("/oauth/authorize?" + v.Encode())
	target, params := res.Redirect()
	if params.Get("code") == "" || target != v.Get("redirect_uri") {
		t.Fatalf("authorize = %d %q, want a code; log: %s", res.Status, res.Location(), h.Log())
	}
	for _, page := range b.Pages {
		asked = asked || strings.Contains(page.Body, `name="decision"`)
	}
	return params.Get("code"), asked
}

// NewWithRegistration is a server with a site that is a resource, at which clients can register.
func NewWithRegistration(t *testing.T, change ...func(*authz.Config)) *Harness {
	return New(t, WithAddresses(), WithConfig(func(c *authz.Config) {
		c.Registration.Who = "open"
		c.Resources = []client.Resource{{
			URI: ToolsResource, Name: "Tools of the office", Scopes: []string{"tools.read", "tools.write"},
			Tools: []string{"tools.write"}, First: []string{"tools.read", "tools.write"},
		}}
		for _, f := range change {
			f(c)
		}
	}))
}

// Registers sends metadata and returns the answer. Each call comes from another network unless the headers name one.
func Registers(h *Harness, metadata string, headers ...string) *Response {
	return h.Do(http.MethodPost, "/oauth/register", metadata, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// MustRegister returns what a client is told.
func MustRegister(t *testing.T, h *Harness, metadata string) map[string]any {
	t.Helper()
	res := Registers(h, metadata)
	if res.Status != http.StatusCreated {
		t.Fatalf("register %s = %d %s; log: %s", metadata, res.Status, res.Body, h.Log())
	}
	return res.JSON()
}

// RegisteredParams returns the parameters of an authorization request of a client that has registered itself.
func RegisteredParams(id, redirect, scope string) url.Values {
	v := DocumentParams(redirect, scope)
	v.Set("client_id", id)
	return v
}

// RedeemRegistered redeems a code of such a client.
func RedeemRegistered(h *Harness, id, code, redirect string, headers ...string) *Response {
	f := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {Verifier}}
	if len(headers) == 0 {
		f.Set("client_id", id)
	}
	return h.Post("/oauth/token", f, headers...)
}
