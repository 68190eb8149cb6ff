package caddymodule_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestSwitchesOfARunningServer: what the configuration API sets holds with the next request, at the token server too.
func TestSwitchesOfARunningServer(t *testing.T) {
	s := servertest.Configured(t, "client legacy {\n\tsecret "+servertest.TestSecret+"\n\tgrants password\n\tscopes profile\n}\n")
	s.MustLoad()
	byPassword := func() (int, string) {
		t.Helper()
		form := url.Values{
			"grant_type": {"password"}, "username": {"demo@example.com"},
			"password": {servertest.TestPassword}, "scope": {"profile"},
		}
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("legacy", servertest.TestSecret)
		resp, body := s.Do(r)
		return resp.StatusCode, body
	}
	set := func(path string, units map[string]any) {
		t.Helper()
		s.MustCall("POST", path, units, http.StatusNoContent)
	}
	if status, body := byPassword(); status != http.StatusOK {
		t.Fatalf("Token = %d %s", status, body)
	}
	set("/api/v2/config/features", map[string]any{"login_enabled": false})
	if status, body := byPassword(); status != http.StatusBadRequest || !strings.Contains(body, "invalid_grant") ||
		!strings.Contains(body, "switched off") {
		t.Errorf("Token while sign-in is switched off = %d %s", status, body)
	}
	if resp, body := s.Get("/sign-in"); resp.StatusCode != http.StatusForbidden ||
		!strings.Contains(body, "Sign-in is temporarily unavailable") {
		t.Errorf("the sign-in page while it is switched off = %d %s", resp.StatusCode, body)
	}
	set("/api/v2/config/features", map[string]any{"login_enabled": true})
	if status, body := byPassword(); status != http.StatusOK {
		t.Errorf("Token once sign-in is on again = %d %s", status, body)
	}

	if resp, _ := s.Get("/oauth/logout"); resp.StatusCode != http.StatusOK {
		t.Errorf("end session = %d, want our own page", resp.StatusCode)
	}
	set("/api/v2/config/redirects", map[string]any{"url_after_logout": "/bye", "default_origin_url": "https://www.example.com"})
	if resp, _ := s.Get("/oauth/logout"); resp.StatusCode != http.StatusFound || resp.Header.Get("Location") != "https://www.example.com/bye" {
		t.Errorf("end session = %d to %q, want https://www.example.com/bye", resp.StatusCode, resp.Header.Get("Location"))
	}
}
