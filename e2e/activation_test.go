package e2e

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestActivation: a person who was created by command has to enter a code once, after the password, and is signed in
// then.
func TestActivation(t *testing.T) {
	t.Parallel()
	p, s := openShopEdited(t, func(caddyfile string) string {
		return strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
	})
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	if status, answer := s.configure(http.MethodPost, "/api/v2/config",
		`{"features":{"person_activation":{"enabled":true,"type":"EXTERNALLY_DELIVERED_CODE",`+
			`"activation_during_first_authentication_enabled":true}}}`); status != http.StatusNoContent {
		t.Fatalf("switch activation on: %d %s", status, answer)
	}
	password := random(12)
	s.secret("password of late", password)
	s.must(password+"\n", "person", "add", "late@example.com", "--name", "Late Comer")
	code := deliveredCode.FindString(s.must("", "person", "code", "late@example.com", "--for", "activation"))
	s.secret("activation code", code)

	b := s.browse(t)
	b.open(p.address + "/")
	b.signIn("late@example.com", password)
	inspect(b, "activate", string(axe))
	b.fill("#code", "AAAA-AAAA")
	if status := b.click("main form button:not([type])"); status != http.StatusUnprocessableEntity {
		t.Errorf("a wrong code = %d, want 422", status)
	}
	inspect(b, "activate-wrong", string(axe))
	b.fill("#code", strings.ToLower(code))
	b.click("main form button:not([type])")
	b.click("button[value=allow]")
	b.reaches(p.address)
}
