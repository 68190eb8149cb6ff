package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// configure calls the configuration API.
func (s *server) configure(method, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.Issuer+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.SetBasicAuth("ops", s.OpsSecret)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestConfigurationSurvivesKill: every change that was answered 204 is there after SIGKILL, including secrets, and a
// file restores an API that was switched off.
func TestConfigurationSurvivesKill(t *testing.T) {
	t.Parallel()
	s := startEdited(t, "", func(caddyfile string) string {
		return strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
	})
	hidden := random(32)
	s.secret("secret of a login method", hidden)
	answered := func(status int, method, path, body string) string {
		t.Helper()
		got, text := s.configure(method, path, body)
		if got != status {
			t.Fatalf("%s %s = %d %s, want %d", method, path, got, text, status)
		}
		return text
	}
	answered(http.StatusNoContent, "POST", "/api/v2/config",
		`{"login_methods":{"login_methods":[{"id":"corp","name":"Corp","type":"OPEN_ID_CONNECT","enabled":false,`+
			`"open_id_connect_attributes":{"client_id":"x","client_secret":"`+hidden+`"}}]}}`)
	for i := range 20 {
		answered(http.StatusNoContent, "POST", "/api/v2/config/redirects", fmt.Sprintf(`{"url_after_login":"/round-%d"}`, i))
		if i%10 != 9 {
			continue
		}
		s.restart()
		if text := answered(http.StatusOK, "GET", "/api/v2/config/redirects", ""); !strings.Contains(text,
			fmt.Sprintf(`"url_after_login":"/round-%d"`, i)) {
			t.Errorf("after SIGKILL: %s, want round %d", text, i)
		}
	}
	if text := answered(http.StatusOK, "GET", "/api/v2/config/login-methods", ""); !strings.Contains(text, `"id":"corp"`) ||
		strings.Contains(text, hidden) {
		t.Errorf("login methods after SIGKILL: %s", text)
	}

	exported := filepath.Join(t.TempDir(), "units.json")
	s.must("", "config", "export", exported)
	raw, err := os.ReadFile(exported)
	if err != nil || strings.Contains(string(raw), hidden) || !strings.Contains(string(raw), `"/round-19"`) {
		t.Errorf("the export: %v, with the secret: %v", err, strings.Contains(string(raw), hidden))
	}
	answered(http.StatusNoContent, "POST", "/api/v2/config/features", `{"configuration_api_enabled":false}`)
	answered(http.StatusConflict, "GET", "/api/v2/config/features", "")
	if out := s.must("", "config", "diff", exported); !strings.Contains(out, "features.configuration_api_enabled: false -> true") {
		t.Errorf("config diff: %s", out)
	}
	s.must("", "config", "import", exported)
	answered(http.StatusOK, "GET", "/api/v2/config/features", "")
}
