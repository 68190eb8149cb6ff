package webflow_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestWaitPage: when the page is switched on, it shows after every kind of sign-in where the browser is going, and goes
// there by itself.
func TestWaitPage(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	u := settings.Defaults()
	e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	e.Asking(func(d *authn.Demand) {
		d.Client, d.Providers = authn.Client{ID: "shop", Name: "The shop"}, []string{"identity", "partner"}
	})
	e.Start()
	withPassword := func(b *identitytest.Browser) *identitytest.Answer {
		return b.Get(b.Try(identitytest.Demo, identitytest.DemoPassword).Header().Get("Location"))
	}
	withProvider := func(b *identitytest.Browser) *identitytest.Answer {
		form := b.Get("/next")
		return b.Come(b.Leave(strings.Replace(form.URL, "/sign-in?", "/sign-in/provider?", 1)+"&idp=partner"),
			e.Partner.Answer(identitytest.Ann(), nil))
	}
	for name, signIn := range map[string]func(*identitytest.Browser) *identitytest.Answer{"password": withPassword, "provider": withProvider} {
		u.Redirects.ShowWaitPageWhileLoggingIn = false
		if a := signIn(e.Browser()); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("%s, switched off: the browser ends at %s", name, a.URL)
		}
		u.Redirects.ShowWaitPageWhileLoggingIn = true
		b := e.Browser()
		a := signIn(b)
		if a.Code != http.StatusOK || !strings.HasPrefix(a.URL, "/sign-in/wait?flow=") || a.Header().Get("Refresh") != "0; url=/next" ||
			!strings.Contains(a.Body.String(), "Taking you to The shop") {
			t.Fatalf("%s: the browser ends at %s = %d, Refresh %q, want the page that one waits at", name, a.URL, a.Code, a.Header().Get("Refresh"))
		}
		if !b.IsSignedIn() {
			t.Errorf("%s: the person is not signed in at that page", name)
		}
		if stranger := e.Browser().Get(a.URL); stranger.Code != http.StatusForbidden {
			t.Errorf("%s: the page in another browser = %d, want 403", name, stranger.Code)
		}
	}
}
