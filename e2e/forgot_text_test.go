package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestForgotByText: a person who has forgotten the username gets it by text message, and then a code for a new
// password, with which the person signs in.
func TestForgotByText(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	type message struct{ To, Text string }
	texts := make(chan message, 10)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.Header.Get("Authorization") != "Bearer of texts" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		texts <- m
	}))
	t.Cleanup(service.Close)
	s := startEdited(t, "", func(caddyfile string) string {
		lines := fmt.Sprintf("\n\t\tsms webhook %s/send {\n\t\t\theader Authorization \"Bearer of texts\"\n\t\t}\n\t\tidentity {", service.URL)
		return strings.Replace(caddyfile, "\n\t\tidentity {", lines, 1)
	})
	next := func() message {
		t.Helper()
		select {
		case m := <-texts:
			return m
		case <-time.After(60 * time.Second):
			t.Fatal("no text message came")
			return message{}
		}
	}
	file := filepath.Join(s.dir, "units.json")
	if err := os.WriteFile(file, []byte(`{"features":{"sms_enabled":true,"password_reset_enabled":true,"username_reminder_via_sms_enabled":true},"step_up":{"second_factor":"ON_DEMAND"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("", "config", "import", file)
	s.must("", "import", writePerson(t, s, "tess@example.com", "+31612345678"))

	b := s.browse(t)
	b.open(s.Issuer + "/account")
	inspect(b, "sign-in-forgot-text", string(axe))
	b.click(`main ul.links a[href^="/forgot/username"]`)
	inspect(b, "forgot-username", string(axe))
	b.fill("#number", "06 12345678")
	b.click("main form button:not([type])")
	inspect(b, "forgot-username-wrong", string(axe))
	b.fill("#number", "+31 6 12345678")
	b.click("main form button:not([type])")
	inspect(b, "forgot-username-sent", string(axe))
	if m := next(); m.To != "+31612345678" || !strings.Contains(m.Text, "tess@example.com") {
		t.Errorf("text message = %+v, want the username", m)
	}

	other := s.browse(t) // the number gets one message per minute
	other.open(s.Issuer + "/account")
	other.click(`main ul.links a[href^="/forgot/text"]`)
	inspect(other, "forgot-text", string(axe))
	other.fill("#username", "nobody@example.com")
	other.click("main form button:not([type])")
	inspect(other, "forgot-code", string(axe))
	other.fill("#code", "123456")
	if status := other.click("main form button:not([type])"); status != http.StatusUnprocessableEntity {
		t.Errorf("a code that was not sent = %d, want 422", status)
	}
	inspect(other, "forgot-code-wrong", string(axe))

	s.must("", "import", writePerson(t, s, "uma@example.com", "+31687654321"))
	u := s.browse(t)
	u.open(s.Issuer + "/account")
	u.click(`main ul.links a[href^="/forgot/text"]`)
	u.fill("#username", "uma@example.com")
	u.click("main form button:not([type])")
	m := next()
	code := regexp.MustCompile(`\b\d{6}\b`).FindString(m.Text)
	if m.To != "+31687654321" || code == "" {
		t.Fatalf("text message = %+v, want a code", m)
	}
	s.secret("code of uma", code)
	u.fill("#code", code)
	u.click("main form button:not([type])")
	password := random(12)
	s.secret("password of uma", password)
	u.fill("#password", password)
	u.click("main form button:not([type])")
	u.click("main .buttons a")
	u.fill("#password", password)
	u.click("main form button:not([type])")
	u.reaches(s.Issuer + "/account")
}

// writePerson writes a file with one person with a verified number.
func writePerson(t *testing.T, s *server, username, number string) string {
	t.Helper()
	file := filepath.Join(s.dir, username+".jsonl")
	line := fmt.Sprintf(`{"username":%q,"password":"what was forgotten 1","profile":{"phone_numbers":[{"value":%q,"primary":true,"verified":true}]}}`, username, number)
	if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
