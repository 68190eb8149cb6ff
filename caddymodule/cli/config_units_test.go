package cli_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
)

func TestConfigurationByCommand(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	file := filepath.Join(t.TempDir(), "units.json")
	s.Run("", "config", "export", file)
	exported := servertest.Decode[map[string]any](t, s.Run("", "config", "export"))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || exported["features"] == nil || exported["key_pairs"] == nil {
		t.Errorf("config export: %v, %v", exported, err)
	}
	if out := s.Run("", "config", "diff", file); strings.TrimSpace(out) != "0 members would change" {
		t.Errorf("config diff of what was exported = %s", out)
	}
	if out := s.Run("", "config", "import", file); strings.TrimSpace(out) != "0 members changed" {
		t.Errorf("config import of what was exported = %s", out)
	}
	servertest.WriteFile(t, file,
		`{"features":{"configuration_api_enabled":false},"password_policy":{"min_length":12,"max_length":64,"lower_case_char_required":false,`+
			`"upper_case_char_required":false,"special_char_required":false,"breached_password_blocked":false}}`, 0o600)
	if out := s.Run("", "config", "diff", file); !strings.Contains(out, "features.configuration_api_enabled: true -> false\n") ||
		!strings.Contains(out, "password_policy.min_length: 8 -> 12") {
		t.Errorf("config diff = %s", out)
	}
	s.MustCall("GET", "/api/v2/config/features", nil, http.StatusOK)
	if out := servertest.Decode[[]map[string]any](t, s.Run("", "config", "import", file, "--json")); len(out) != 3 ||
		out[0]["path"] != "features.configuration_api_enabled" || out[0]["to"] != false {
		t.Errorf("config import --json = %v", out)
	}
	s.MustCall("GET", "/api/v2/config/features", nil, http.StatusConflict)
	s.MustCall("GET", "/api/config", nil, http.StatusInternalServerError)
	s.Refused("12 to 64", "too short\n", "person", "add", "ann")
	// The way back works without the API.
	s.Run(`{"features":{"configuration_api_enabled":true}}`, "config", "import", "-")
	s.MustCall("GET", "/api/v2/config/features", nil, http.StatusOK)
	// A reload changes nothing of it.
	s.MustLoad()
	if body := s.MustCall("GET", "/api/config?fields=password_policy", nil, http.StatusOK); !strings.Contains(body, `"min_length":12`) {
		t.Errorf("after a reload: %s", body)
	}

	s.Refused("features.nothing: unknown member", `{"features":{"nothing":true}}`, "config", "import", "-")
	s.Refused("iDIN needs a contract", `{"login_methods":{"login_methods":[{"id":"p","type":"IDIN","enabled":true}]}}`, "config", "diff", "-")
	s.Refused("is not JSON", `{`, "config", "import", "-")
	s.Refused("too large: at most 16777216 bytes", strings.Repeat(" ", settings.MaxConfiguration+1), "config", "import", "-")
	large := `{"features":{"nothing":"` + strings.Repeat("x", 2<<20) + `"}}` // more than other requests may have
	s.Refused("features.nothing: unknown member", large, "config", "import", "-")
	s.Refused("features.nothing: unknown member", large, "config", "diff", "-")
	s.Refused("no such file", "", "config", "import", filepath.Join(t.TempDir(), "nothing"))
}

// emptyRefuses fails the test unless an empty storage refuses to start with the file of bootstrap.
func emptyRefuses(t *testing.T, s *servertest.Server, file, want string) {
	t.Helper()
	storage := s.Storage
	defer func() { s.Storage = storage }()
	s.Storage = "storage badger " + filepath.Join(t.TempDir(), "empty")
	if err := s.Load(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
		t.Errorf("load of an empty storage = %v, want %s and %q", err, file, want)
	}
}

func TestBootstrap(t *testing.T) {
	s := servertest.Configured(t, "")
	file := filepath.Join(t.TempDir(), "identity.json")
	servertest.WriteFile(t, file, `{"redirects":{"url_after_login":"/welcome"},"features":{"action_token":{"coupling":{"ttl":60}}}}`, 0o600)
	s.InIdentity = "bootstrap " + file
	s.MustLoad()
	if body := s.MustCall("GET", "/api/v2/config/redirects", nil, http.StatusOK); !strings.Contains(body, `"url_after_login":"/welcome"`) {
		t.Errorf("redirects = %s", body)
	}
	s.MustCall("POST", "/api/v2/config/redirects", map[string]any{"url_after_login": "/other"}, http.StatusNoContent)
	s.MustLoad() // it is for an empty storage only
	if body := s.MustCall("GET", "/api/v2/config/redirects", nil, http.StatusOK); !strings.Contains(body, `"url_after_login":"/other"`) {
		t.Errorf("redirects after a reload = %s", body)
	}
	for bad, want := range map[string]string{
		`{"features":{"nothing":true}}`: "features.nothing: unknown member",
		`{"login_methods":{"login_methods":[{"id":"p","type":"IDIN","enabled":true}]}}`:                                              "iDIN needs a contract",
		`{"password_policy":{"min_length":"long"}}`:                                                                                  "password_policy.min_length: must be an integer",
		`{"login_methods":{"login_methods":[{"id":"p","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"ftp://x"}}]}}`: "idp_metadata",
		`no JSON`: "not one JSON value",
	} {
		servertest.WriteFile(t, file, bad, 0o600)
		s.MustLoad()
		s.WantFinding("warning Caddyfile:", "identity: bootstrap "+file, want)
		emptyRefuses(t, s, file, want)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	emptyRefuses(t, s, file, "no such file")
	s.MustCall("GET", "/api/v2/config/redirects", nil, http.StatusOK)
}
