package caddymodule_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// findings are those of check, a line each, and the error that it ends with.
func (s *server) findings() (string, error) {
	s.t.Helper()
	out, err := run(s.t, "", "check", "--json", "--address", s.admin)
	if out == "" {
		s.t.Fatalf("check: %v", err)
	}
	var lines []string
	for _, f := range decode[struct {
		Findings []struct{ Severity, Place, Reason, Mend string } `json:"findings"`
	}](s.t, out).Findings {
		if f.Reason == "" || f.Mend == "" {
			s.t.Errorf("finding without reason or mend: %+v", f)
		}
		lines = append(lines, f.Severity+" "+f.Place+" "+f.Reason+": "+f.Mend)
	}
	return strings.Join(lines, "\n"), err
}

func (s *server) wantFinding(parts ...string) {
	s.t.Helper()
	all, _ := s.findings()
	for line := range strings.SplitSeq(all, "\n") {
		good := true
		for _, p := range parts {
			good = good && strings.Contains(line, p)
		}
		if good {
			return
		}
	}
	s.t.Errorf("check has no finding with %q:\n%s", parts, all)
}

// A healthy configuration has no findings, and a finding of check goes away with its cause.
func TestCheckFindsNothing(t *testing.T) {
	s := newServer(t)
	s.mustLoad()
	if all, err := s.findings(); all != "" || err != nil {
		t.Errorf("check = %v, findings:\n%s", err, all)
	}
}

// A site with protect that answers strangers is open, whatever the configuration looks like.
func TestCheckReportsOpenSite(t *testing.T) {
	s := newServer(t)
	// The harness ends the block with an answer, which is that of the named route here.
	s.site = "route {\n\t\tinvoke door\n\t\tprotect orders.read\n\t}\n}\n&(door) {"
	s.mustLoad()
	_, err := s.findings()
	if err == nil || !strings.Contains(err.Error(), "the protected site http://"+s.api+" answers 200 to a request without credentials") {
		t.Errorf("check of an open site = %v", err)
	}
	s.wantFinding("error", "answers 200", "look for what answers before `protect`")
}

// What the settings switch on needs something that sends.
func TestCheckReportsMissingMail(t *testing.T) {
	s := newServer(t)
	writeFile(t, filepath.Join(s.dir, "units.json"), `{"features":{"password_reset_enabled":true,"sms_enabled":true}}`, 0o600)
	s.inIdentity = "bootstrap " + filepath.Join(s.dir, "units.json")
	s.mustLoad()
	s.wantFinding("warning Caddyfile:", "features.password_reset_enabled", "mail smtp")
	s.wantFinding("warning Caddyfile:", "features.sms_enabled", "sms webhook")
	writeFile(t, filepath.Join(s.dir, "off.json"), `{"features":{"password_reset_enabled":false,"sms_enabled":false}}`, 0o600)
	s.run("", "config", "import", filepath.Join(s.dir, "off.json"))
	if all, _ := s.findings(); all != "" {
		t.Errorf("switched off, and still found:\n%s", all)
	}
}

// Files that others can read, and a clock that has been set back, are found while the server runs.
func TestCheckReportsFilesAndClock(t *testing.T) {
	s := newServer(t)
	s.mustLoad()
	key := filepath.Join(s.dir, "store.key")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	s.wantFinding("warning", "encryption key", "can be read by others", "`chmod 600 "+key)
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	if all, _ := s.findings(); all != "" {
		t.Errorf("mended, and still found:\n%s", all)
	}
	s.stop()

	s.storage, s.key = "storage memory ahead", "encryption_key "+testKey
	s.mustLoad()
	ahead := &event.Recorder{Random: rand.Reader, Now: func() time.Time { return time.Now().Add(time.Hour) }}
	e, err := ahead.New(event.Type{Type: "test", Name: "test"}, event.Self)
	if err != nil {
		t.Fatal(err)
	}
	if err := memoryOf(t, "ahead").Update(t.Context(), func(tx storage.Tx) error { return ahead.Append(tx, e) }); err != nil {
		t.Fatal(err)
	}
	s.wantFinding("warning", "the clock is", "behind the newest record", "set the clock")
}

// A misspelled scope is accepted, since a scope needs no more than a client, and not in silence.
func TestClientAddWarnsOfScope(t *testing.T) {
	s := newServer(t)
	s.mustLoad()
	out := s.run("", "client", "add", "typo", "--grants", "client_credentials", "--scopes", "order.raed")
	if !strings.Contains(out, `did you mean "orders.read"?`) {
		t.Errorf("client add = %s", out)
	}
	if out := s.run("", "client", "add", "fine", "--grants", "client_credentials", "--scopes", "customers"); strings.Contains(out, "warning") {
		t.Errorf("client add = %s", out)
	}
	s.refused(`did you mean "reports"?`, "", "token", "issue", "--client", "report")
	s.refused("has a *", "", "client", "add", "wild", "--grants", "authorization_code", "--scopes", "openid", "--redirect-uris", "https://*.example.com/cb")
}
