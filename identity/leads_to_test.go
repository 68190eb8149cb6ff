package identity_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
)

// setUpLink matches a link from a step-up to a page where a method is set up.
var setUpLink = regexp.MustCompile(`href="(/account/security/[a-z/]+\?flow=[^"]+)"`)

// TestSetUpOnTheWay: during a step-up, the form that sets up a method can redirect to the application that demanded the
// level. That holds only in the browser of that step-up.
func TestSetUpOnTheWay(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 2)
	u.Features.PINEnabled, u.Features.SMSEnabled = true, true
	h.texts, h.prompts = new(notifytest.Texts), new(notifytest.Prompts)
	h.cfg.NoPasskeys = false
	h.start()
	const application = "https://shop.example.com"
	action := func(a *answer) string {
		_, list, _ := strings.Cut(a.Header().Get("Content-Security-Policy"), "form-action ")
		return list
	}
	b, other := h.plain(), h.plain()
	choices := b.get("/next")
	links := setUpLink.FindAllStringSubmatch(choices.Body.String(), -1)
	if len(links) != 5 {
		t.Fatalf("%d methods to set up at %s, want 5:\n%s", len(links), choices.url, choices.Body)
	}
	for _, l := range links {
		page := b.get(l[1])
		if got := action(page); got != "'self' "+application {
			t.Errorf("form-action of %s = %q, want the application", page.url, got)
		}
		if a := other.get(l[1]); strings.Contains(action(a), application) {
			t.Errorf("form-action of %s in another browser = %q", l[1], action(a))
		}
		path, _, _ := strings.Cut(l[1], "?")
		if a := b.get(path); action(a) != "'self'" {
			t.Errorf("form-action of %s = %q, want 'self'", path, action(a))
		}
	}
}
