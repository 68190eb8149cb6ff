package e2e

import (
	"strings"
	"testing"
)

// TestDeadEnds: the consent page, a page that is not there and a sign-out have a way on. Another person than the one
// who is signed in says so and comes back. A sign-out asks nothing twice and says that it is done.
func TestDeadEnds(t *testing.T) {
	t.Parallel()
	p, s := openShop(t)
	b := s.browse(t)
	see := look(b, "dead-ends-")
	b.open(p.address + "/")
	b.signIn(person, s.Password)
	b.screen(1280, 800, "light")
	if height := eval[float64](b, "document.documentElement.scrollHeight"); height > 860 {
		t.Errorf("the consent page is %v px high with four permissions and a site, want no more than 860", height)
	}
	see("consent")
	b.click(".who a")
	if filled := eval[string](b, `document.querySelector("#username").value`); filled != "" {
		t.Errorf("the sign-in page for another account is filled in with %q", filled)
	}
	see("another")
	b.signIn(person, s.Password)
	b.click("button[value=allow]")
	b.reaches(p.address + "/callback")

	b.open(s.Issuer + "/")
	b.reaches(s.Issuer + "/account")
	b.open(s.Issuer + "/nothing")
	if text := b.text("main"); !strings.Contains(text, person) {
		t.Errorf("the page that is not there says %q, want who is signed in", text)
	}
	see("not-found")
	b.click("main .buttons a")
	b.reaches(s.Issuer + "/account")

	b.click(`form[action="/sign-out"] button`)
	if title := b.text("h1"); title != "You’re signed out" {
		t.Errorf("after a click on sign-out: %q at %s", title, b.location())
	}
	see("signed-out")
	b.click("main .buttons a")
	b.signIn(person, s.Password)
	b.open(s.Issuer + "/sign-out") // typed: the page asks, and takes no for an answer
	see("sign-out")
	b.click("main a.quiet")
	b.reaches(s.Issuer + "/account")
}
