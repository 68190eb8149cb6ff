package console

import (
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// TestConnectionDetails: the page has the addresses that the grants of an application need, to copy, and the settings
// of applications that the guides know: the one that fits the redirect URI, or the one that is chosen.
func TestConnectionDetails(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, n := range []client.Client{
		{
			ID: "graphs", Grants: []string{"authorization_code"}, Scopes: []string{"openid"},
			RedirectURIs: []string{"https://graphs.example.org/login/generic_oauth"},
		},
		{ID: "nightly", Grants: []string{"client_credentials"}, Scopes: []string{"orders.read"}},
		{ID: "tv", Public: true, Grants: []string{"device_code"}, Scopes: []string{"openid"}},
	} {
		_, err := h.az.Clients().Add(t.Context(), n, audit.Actor{})
		h.must(err)
	}
	b := h.as("viewer@example.com")
	for _, tc := range []struct {
		name, path string
		has, lacks []string
	}{
		{
			name: "fits Grafana", path: "graphs/connection",
			has: []string{
				"root_url = https://graphs.example.org", "client_id = graphs", issuer + "/oauth/token", `data-copy="copy-issuer"`,
				`<form class="filter" `, `data-copy="settings-source"`, issuer + "/.well-known/openid-configuration</code>", `value="grafana" selected`,
			},
			lacks: []string{"device_authorization"},
		},
		{
			name: "chosen", path: "graphs/connection?for=portainer",
			has:   []string{"<code>" + issuer + "/oauth/userinfo</code>", "<code>graphs</code> and the secret"},
			lacks: []string{"client_id = graphs"},
		},
		{name: "none", path: "graphs/connection?for=", has: []string{issuer + "/oauth/jwks"}, lacks: []string{"root_url"}},
		{
			name: "a program", path: "nightly/connection", has: []string{issuer + "/oauth/token"},
			lacks: []string{"/oauth/authorize", "jwks", "<select"},
		},
		{
			name: "a device", path: "tv/connection", has: []string{issuer + "/oauth/device_authorization"},
			lacks: []string{"/oauth/authorize", "New secret"},
		},
	} {
		body := b.get("/admin/applications/" + tc.path).form()
		for _, want := range tc.has {
			if !strings.Contains(body, want) {
				t.Errorf("%s: the page lacks %q:\n%s", tc.name, want, body)
			}
		}
		for _, other := range tc.lacks {
			if strings.Contains(body, other) {
				t.Errorf("%s: the page has %q:\n%s", tc.name, other, body)
			}
		}
	}
	// A new secret is within the settings, this once.
	o := h.as("operator@example.com")
	page := o.submit(o.get("/admin/applications/add"), "template", "web", "client_id", "clouds",
		"redirect_uris", "https://clouds.example.org/apps/user_oidc/code").form()
	_, secret, _ := strings.Cut(page, `id="secret"><code>`)
	secret, _, _ = strings.Cut(secret, "<")
	if len(secret) < 32 || !strings.Contains(page, "--clientsecret="+secret) {
		t.Errorf("the settings of Nextcloud lack the new secret:\n%s", page)
	}
	if again := o.get("/admin/applications/clouds/connection").form(); strings.Contains(again, secret) || !strings.Contains(again, "--clientsecret=…") {
		t.Errorf("the secret is shown again:\n%s", again)
	}
}
