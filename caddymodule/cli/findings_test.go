package cli_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// A healthy configuration has no findings, and a finding of check goes away with its cause.
func TestCheckFindsNothing(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	if all, err := s.Findings(); all != "" || err != nil {
		t.Errorf("check = %v, findings:\n%s", err, all)
	}
}

// A site with protect that answers strangers is open, whatever the configuration looks like.
func TestCheckReportsOpenSite(t *testing.T) {
	s := servertest.NewServer(t)
	// The harness ends the block with an answer, which is that of the named route here.
	s.Site = "route {\n\t\tinvoke door\n\t\tprotect orders.read\n\t}\n}\n&(door) {"
	s.MustLoad()
	_, err := s.Findings()
	if err == nil || !strings.Contains(err.Error(), "the protected site http://"+s.API+" answers 200 to a request without credentials") {
		t.Errorf("check of an open site = %v", err)
	}
	s.WantFinding("error", "answers 200", "look for what answers before `protect`")
}

// A reload loses requests without the listener wrapper: check says so of each server that needs it, in the running
// configuration and in a file, and is silent about one with the wrapper.
func TestCheckAdvisesListenerWrapper(t *testing.T) {
	s := servertest.NewServer(t)
	bare, err := servertest.Adapt(t, s.Caddyfile())
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load([]byte(bare), true); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{s.Addr, s.API} {
		_, port, _ := strings.Cut(addr, ":")
		s.WantFinding("warning", "the server at :"+port+" can lose connections and requests at a reload",
			"`servers { listener_wrappers { gatehouse tls } }`")
	}
	if all, err := s.Findings(); err != nil || strings.Count(all, "at a reload") != 2 {
		t.Errorf("check = %v, want a warning about each of two servers:\n%s", err, all)
	}
	s.MustLoad()
	if all, _ := s.Findings(); strings.Contains(all, "at a reload") {
		t.Errorf("with the wrapper, and still found:\n%s", all)
	}
	config := filepath.Join(s.Dir, "Caddyfile")
	for name, tt := range map[string]struct {
		options string
		want    int
	}{
		"without": {"", 2},
		"after":   {"servers {\n\t\tlistener_wrappers {\n\t\t\thttp_redirect\n\t\t\ttls\n\t\t\tgatehouse\n\t\t}\n\t}", 2},
		"with":    {"servers {\n\t\tlistener_wrappers {\n\t\t\tgatehouse\n\t\t\ttls\n\t\t}\n\t}", 0},
	} {
		s.Options = tt.options
		servertest.WriteFile(t, config, s.Caddyfile(), 0o600)
		if out, err := servertest.Run(t, "", "check", "--config", config); err != nil || strings.Count(out, "at a reload") != tt.want {
			t.Errorf("check --config %s the wrapper = %v, want %d warnings about reloads:\n%s", name, err, tt.want, out)
		} else if name == "after" && strings.Count(out, "Caddyfile:9") != tt.want {
			t.Errorf("check --config with the wrapper after tls does not name its line:\n%s", out)
		}
	}
}

// What the settings switch on needs something that sends.
func TestCheckReportsMissingMail(t *testing.T) {
	s := servertest.NewServer(t)
	servertest.WriteFile(t, filepath.Join(s.Dir, "units.json"), `{"features":{"password_reset_enabled":true,"sms_enabled":true}}`, 0o600)
	s.InIdentity = "bootstrap " + filepath.Join(s.Dir, "units.json")
	s.MustLoad()
	s.WantFinding("warning Caddyfile:", "features.password_reset_enabled", "mail smtp")
	s.WantFinding("warning Caddyfile:", "features.sms_enabled", "sms webhook")
	servertest.WriteFile(t, filepath.Join(s.Dir, "off.json"), `{"features":{"password_reset_enabled":false,"sms_enabled":false}}`, 0o600)
	s.Run("", "config", "import", filepath.Join(s.Dir, "off.json"))
	if all, _ := s.Findings(); all != "" {
		t.Errorf("switched off, and still found:\n%s", all)
	}
}

// The settings refuse new persons who lack a name. The server starts without those of the Caddyfile, and says so.
func TestCheckReportsPersonsThatTheSettingsRefuse(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	s.Run(`{"attributes":{"person_creation_mandatory_fields":{"first_name_required":true}}}`, "config", "import", "-")
	s.InIdentity = "person ann@example.com\nadmin bob@example.com"
	s.MustLoad()
	s.WantFinding("warning Caddyfile:", "person ann@example.com: does not exist and cannot be created: given_name is required")
	s.WantFinding("warning Caddyfile:", "admin bob@example.com: given_name is required")
}

// Files that others can read, and a clock that has been set back, are found while the server runs.
func TestCheckReportsFilesAndClock(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	key := filepath.Join(s.Dir, "store.key")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	s.WantFinding("warning", "encryption key", "can be read by others", "`chmod 600 "+key)
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	if all, _ := s.Findings(); all != "" {
		t.Errorf("mended, and still found:\n%s", all)
	}
	s.Stop()

	s.Storage, s.Key = "storage memory ahead", "encryption_key "+servertest.TestKey
	s.MustLoad()
	ahead := &audit.Recorder{Random: rand.Reader, Now: func() time.Time { return time.Now().Add(time.Hour) }}
	e, err := ahead.New(audit.Type{Type: "test", Name: "test"}, audit.Self)
	if err != nil {
		t.Fatal(err)
	}
	if err := servertest.MemoryOf(t, "ahead").Update(t.Context(), func(tx storage.Tx) error { return ahead.Append(tx, e) }); err != nil {
		t.Fatal(err)
	}
	s.WantFinding("warning", "the clock is", "behind the newest record", "set the clock")
}

// A misspelled scope is accepted, since a scope needs no more than a client, and not in silence.
func TestClientAddWarnsOfScope(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	out := s.Run("", "client", "add", "typo", "--grants", "client_credentials", "--scopes", "order.raed")
	if !strings.Contains(out, `did you mean "orders.read"?`) {
		t.Errorf("client add = %s", out)
	}
	if out := s.Run("", "client", "add", "fine", "--grants", "client_credentials", "--scopes", "customers"); strings.Contains(out, "warning") {
		t.Errorf("client add = %s", out)
	}
	s.Refused(`did you mean "reports"?`, "", "token", "issue", "--client", "report")
	s.Refused("has a *", "", "client", "add", "wild", "--grants", "authorization_code", "--scopes", "openid", "--redirect-uris",
		"https://*.example.com/cb")
}
