package authz_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

// TestConformanceDynamic runs the modules of the plan Dynamic OP about redirect URIs, for clients that register
// themselves. Those about logos, policies, sectors, unsigned ID tokens, signed userinfo and request URIs do not apply:
// their members are ignored or refused.
func TestConformanceDynamic(t *testing.T) {
	t.Parallel()
	const registered = "https://rp.example/cb?foo=bar"
	for module, tt := range map[string]struct{ sent, target string }{
		"oidcc-redirect-uri-query-OK":       {registered, "https://rp.example/cb"},
		"oidcc-redirect-uri-query-mismatch": {"https://rp.example/cb?bar=foo", ""},
		"oidcc-redirect-uri-query-added":    {registered + "&bar=foo", ""},
	} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			h := newRegistrationHarness(t)
			id := mustRegister(t, h, `{"redirect_uris":["`+registered+`"]}`)["client_id"].(string)
			res := h.Browser(authztest.Demo).Follow("/oauth/authorize?" + registeredParams(id, tt.sent, "openid").Encode())
			target, params := res.Redirect()
			if tt.target == "" && (res.Status != http.StatusBadRequest || res.Location() != "") || target != tt.target || (tt.target != "") != (params.Get("code") != "" && params.Get("foo") == "bar") {
				t.Errorf("authorize = %d %s, want a code at %q", res.Status, res.Location(), tt.target)
			}
		})
	}
	t.Run("oidcc-redirect-uri-regfrag", func(t *testing.T) {
		t.Parallel()
		h := newRegistrationHarness(t)
		if res := registers(h, `{"redirect_uris":["https://rp.example/cb#foobar"]}`); res.Status != http.StatusBadRequest || !strings.Contains(res.Body, `"invalid_redirect_uri"`) {
			t.Errorf("register = %d %s, want invalid_redirect_uri", res.Status, res.Body)
		}
	})
}
