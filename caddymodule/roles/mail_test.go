package roles_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

func TestMail(t *testing.T) {
	s := servertest.NewServer(t)
	address, mails := servertest.Mailbox(t)
	s.Extra = "mail smtp " + address + " {\n\tfrom Gatehouse <no-reply@example.com>\n}"
	s.MustLoad()
	if out := s.Run("", "check"); !strings.Contains(out, "mail           ok (0 waiting)") {
		t.Errorf("check = %s, want the mail server in it", out)
	}
	units := filepath.Join(t.TempDir(), "units.json")
	if err := os.WriteFile(units,
		[]byte(`{"email_notifications":{"welcome":{"on_api_enabled":true},"attributes_update":{"on_password_updated":true}}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	s.Run("", "config", "import", units)
	s.Run("", "person", "add", "ann@example.com", "--no-password")
	got := <-mails
	for _, want := range []string{
		"From: \"Gatehouse\" <no-reply@example.com>", "To: <ann@example.com>", "Subject: Welcome to Gatehouse",
		"Auto-Submitted: auto-generated", "@localhost>", s.Issuer() + "/account",
	} {
		if !strings.Contains(strings.ReplaceAll(got, "=\n", ""), want) {
			t.Errorf("mail = %s, want %q in it", got, want)
		}
	}
	// A reload, and a server that was not there for a while.
	s.Extra = "mail smtp " + servertest.FreeAddr(t) + " {\n\tfrom no-reply@example.com\n}"
	s.MustLoad()
	s.Run("another horse 2\n", "person", "passwd", "ann@example.com")
	if _, err := servertest.Run(t, "", "check", "--address", s.Admin); err == nil || !strings.Contains(err.Error(), "the mail server") {
		t.Errorf("check with a mail server that is down = %v, want it to say so", err)
	}
	out, _ := servertest.Run(t, "", "check", "--json", "--address", s.Admin)
	if answer := servertest.Decode[map[string]any](t, out); answer["mail_waiting"] != float64(1) || answer["mail"] == "ok" {
		t.Errorf("check --json = %v, want one mail that waits", answer)
	}
	// Without mail no message is sent, and nothing fails.
	s.Extra = ""
	s.MustLoad()
	s.Run("", "person", "add", "bob@example.com", "--no-password")
	if out := s.Run("", "check"); strings.Contains(out, "mail ") {
		t.Errorf("check = %s, want nothing of mail", out)
	}
	select {
	case m := <-mails:
		t.Errorf("a mail that nobody should have sent: %s", m)
	default:
	}
}

func TestBreach(t *testing.T) {
	s := servertest.NewServer(t)
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("password from a breach\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	t.Cleanup(down.Close)
	units := filepath.Join(t.TempDir(), "units.json")
	policy := `{"password_policy":{"min_length":8,"max_length":256,"lower_case_char_required":false,"upper_case_char_required":false,"special_char_required":false,"breached_password_blocked":true}}`
	if err := os.WriteFile(units, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	set := func(password string) string {
		t.Helper()
		_, err := servertest.Run(t, password+"\n", "person", "passwd", "demo@example.com", "--address", s.Admin)
		if err != nil {
			return err.Error()
		}
		return ""
	}
	load := func(options string) {
		t.Helper()
		s.InIdentity = "breach {\n" + options + "\n}"
		s.MustLoad()
	}
	load("file " + list)
	s.Run("", "config", "import", units)
	if said := set("password from a breach"); !strings.Contains(said, "known from a breach") {
		t.Errorf("a password of the file: %q, want a refusal", said)
	}
	if said := set("one that nobody knows"); said != "" {
		t.Errorf("another password: %s", said)
	}
	load("url " + down.URL + "/")
	if said := set("password from a breach"); said != "" {
		t.Errorf("open, and the service does not answer: %s", said)
	}
	load("url " + down.URL + "/\non_failure closed\ntimeout 500ms\nfile " + list)
	if said := set("one that nobody knows"); !strings.Contains(said, "cannot tell") {
		t.Errorf("closed, and the service does not answer: %q, want a refusal", said)
	}
	load("file " + list + ".none\non_failure closed")
	if said := set("one that nobody knows"); !strings.Contains(said, "cannot tell") {
		t.Errorf("closed, and the file is not there: %q, want a refusal", said)
	}
	s.WantFinding("warning Caddyfile:", "identity: breach file", "new passwords are refused")
	load("file " + list + ".none")
	if said := set("another that nobody knows"); said != "" {
		t.Errorf("open, and the file is not there: %s", said)
	}
}
