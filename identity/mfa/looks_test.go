package mfa_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
)

// TestSecurityShowsWhatIsUsed: the page about signing in marks what is on, and says when a PIN or an app was last used.
func TestSecurityShowsWhatIsUsed(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	u.Features.PINEnabled = true
	b := h.Plain()
	b.SetPIN("827164")
	if got := identitytest.Words(b.Get("/account/security")); !strings.Contains(got, `PIN</h2> <span class="mark good">On</span>`) ||
		strings.Contains(got, "Last used on") {
		t.Errorf("a PIN that was never used:\n%s", got)
	}
	h.Clock.Advance(time.Hour)
	other := h.Plain()
	if a := other.Post(other.Get("/next"), "code", "827164"); a.Code != http.StatusSeeOther {
		t.Fatalf("the PIN = %d:\n%s", a.Code, a.Body)
	}
	if got := identitytest.Words(other.Get("/account/security")); !strings.Contains(got, "Last used on 21 November 2026, 13:00 UTC") {
		t.Errorf("a PIN that was used:\n%s", got)
	}
}

// TestFavicon: a browser that asks for the icon where no page names it gets one.
func TestFavicon(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	a := h.Browser().Get("/favicon.ico")
	if a.Code != http.StatusOK || a.Header().Get("Content-Type") != "image/x-icon" || a.Body.Len() < 100 {
		t.Errorf("GET /favicon.ico = %d %s", a.Code, a.Header().Get("Content-Type"))
	}
}
