package identity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestWaitPage: when the page is switched on, it shows after every kind of sign-in where the browser is going, and goes
// there by itself.
func TestWaitPage(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	u := config.Defaults()
	e.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	e.asking(func(d *login.Demand) {
		d.Client, d.Providers = login.Client{ID: "shop", Name: "The shop"}, []string{"identity", "partner"}
	})
	e.start()
	withPassword := func(b *browser) *answer { return b.get(b.try(demo, demoPassword).Header().Get("Location")) }
	withProvider := func(b *browser) *answer {
		form := b.get("/next")
		return b.come(b.leave(strings.Replace(form.url, "/sign-in?", "/sign-in/provider?", 1)+"&idp=partner"), e.partner.Answer(ann(), nil))
	}
	for name, signIn := range map[string]func(*browser) *answer{"password": withPassword, "provider": withProvider} {
		u.Redirects.ShowWaitPageWhileLoggingIn = false
		if a := signIn(e.browser()); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("%s, switched off: the browser ends at %s", name, a.url)
		}
		u.Redirects.ShowWaitPageWhileLoggingIn = true
		b := e.browser()
		a := signIn(b)
		if a.Code != http.StatusOK || !strings.HasPrefix(a.url, "/sign-in/wait?flow=") || a.Header().Get("Refresh") != "0; url=/next" || !strings.Contains(a.Body.String(), "Taking you to The shop") {
			t.Fatalf("%s: the browser ends at %s = %d, Refresh %q, want the page that one waits at", name, a.url, a.Code, a.Header().Get("Refresh"))
		}
		if !b.isSignedIn() {
			t.Errorf("%s: the person is not signed in at that page", name)
		}
		if stranger := e.browser().get(a.url); stranger.Code != http.StatusForbidden {
			t.Errorf("%s: the page in another browser = %d, want 403", name, stranger.Code)
		}
	}
}
