package mfa_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
)

// setUpLink matches a link from a step-up to a page where a method is set up.
var setUpLink = regexp.MustCompile(`href="(/account/security/[a-z/]+\?flow=[^"]+)"`)

// TestSetUpOnTheWay: during a step-up, the form that sets up a method can redirect to the application that demanded the
// level. That holds only in the browser of that step-up.
func TestSetUpOnTheWay(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	u.Features.PINEnabled, u.Features.SMSEnabled = true, true
	h.Texts, h.Prompts = new(notifytest.Texts), new(notifytest.Prompts)
	h.Config.Passkeys.Off = false
	h.Start()
	const application = "https://shop.example.com"
	action := func(a *identitytest.Answer) string {
		_, list, _ := strings.Cut(a.Header().Get("Content-Security-Policy"), "form-action ")
		return list
	}
	b, other := h.Plain(), h.Plain()
	choices := b.Get("/next")
	links := setUpLink.FindAllStringSubmatch(choices.Body.String(), -1)
	if len(links) != 5 {
		t.Fatalf("%d methods to set up at %s, want 5:\n%s", len(links), choices.URL, choices.Body)
	}
	for _, l := range links {
		page := b.Get(l[1])
		if got := action(page); got != "'self' "+application {
			t.Errorf("form-action of %s = %q, want the application", page.URL, got)
		}
		if a := other.Get(l[1]); strings.Contains(action(a), application) {
			t.Errorf("form-action of %s in another browser = %q", l[1], action(a))
		}
		path, _, _ := strings.Cut(l[1], "?")
		if a := b.Get(path); action(a) != "'self'" {
			t.Errorf("form-action of %s = %q, want 'self'", path, action(a))
		}
	}
}
