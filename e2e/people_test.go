package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestSigningInAgainAndAgain: people who sign in and out a few times in a row meet no page that has expired. Where
// usernames are addresses the page asks for an address. A blocked account is named with the right password alone, and a
// site that is down has a page that says so.
func TestSigningInAgainAndAgain(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	down := freePorts(t, 1)[0]
	s := startEdited(t, "", func(caddyfile string) string {
		out := strings.Replace(caddyfile, "\n\t\tidentity {", "\n\t\tidentity {\n\t\t\tusernames email", 1)
		at := strings.Index(out, "\treverse_proxy ")
		end := at + strings.Index(out[at:], "\n")
		return out[:at] + "\thandle /down/* {\n\t\treverse_proxy 127.0.0.1:" + strconv.Itoa(down) + "\n\t}\n\thandle {\n" +
			out[at:end] + "\n\t}" + out[end:]
	})
	b := s.browse(t)
	for n := range 4 {
		b.open(s.Wiki + "/")
		if !b.has(`#username[type=email][inputmode=email]`) || b.text("label[for=username]") != "E-mail address" {
			t.Fatalf("sign-in %d leads to %s, want the page that asks for an address", n+1, b.location())
		}
		if n == 0 {
			inspect(b, "sign-in-address", string(axe))
		}
		b.signIn(person, s.Password)
		b.reaches(s.Wiki + "/")
		if n < 3 {
			signOut(b)
			if title := b.text("h1"); title != "You’re signed out" {
				t.Fatalf("sign-out %d leads to %s: %s", n+1, b.location(), title)
			}
		}
	}
	b.open(s.Wiki + "/down/x")
	if title := b.text("h1"); title != "This site isn’t responding" {
		t.Errorf("a site that is down: %s at %s", title, b.location())
	}
	inspect(b, "upstream-down", string(axe))

	s.must("", "person", "block", person)
	b.open(s.Wiki + "/")
	b.signIn(person, random(12))
	if said := b.text("[role=alert]"); strings.Contains(said, "blocked") {
		t.Errorf("a wrong password is told that the account is blocked: %s", said)
	}
	b.signIn(person, s.Password)
	if said := b.text("[role=alert]"); !strings.Contains(said, "This account is blocked") || !strings.Contains(said, "administrator") {
		t.Errorf("the right password of a blocked account: %s", said)
	}
	inspect(b, "sign-in-blocked", string(axe))
}
