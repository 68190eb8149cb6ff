package authztest

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// DeviceGrant is the grant type of devices (RFC 8628).
const DeviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// WithTV adds a television, which is public, and an application that approves devices.
func WithTV() Option {
	return WithClients(
		&client.Client{
			ID: "tv", Name: "The television", Public: true, Grants: []string{"device_code", "refresh_token"},
			Scopes: []string{"openid", "profile", "orders.read", "secure.read"}, DefaultScopes: []string{"openid"},
			Audiences: []string{"https://api.example.com"},
		},
		&client.Client{
			ID: "radio", Secrets: []secret.String{secret.New(Secret("radio"))}, Grants: []string{"device_code"}, Scopes: []string{"openid"},
		},
		&client.Client{
			ID: "wallet", Secrets: []secret.String{secret.New(Secret("wallet"))}, Grants: []string{"authorization_code", "refresh_token"},
			Consent:      "off",
			RedirectURIs: []string{"https://wallet.example.com/callback"}, Scopes: []string{"openid", "access:device-authorization:approve"},
		},
	)
}

// BeginDevice asks for codes as the television.
func BeginDevice(t *testing.T, h *Harness, scope string) *Response {
	t.Helper()
	res := h.Call("/oauth/device_authorization", "tv", url.Values{"scope": {scope}})
	if res.Status != http.StatusOK {
		t.Fatalf("DeviceAuthorization = %d %s, want 200", res.Status, res.Body)
	}
	return res
}

// PollDevice asks for tokens as the television.
func PollDevice(h *Harness, begun *Response) *Response {
	return h.Token("tv", url.Values{"grant_type": {DeviceGrant}, "device_code": {begun.Text("device_code")}})
}
