package mfa_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
)

// TestRemovedMethodLowersSessions: removing a method lowers the sessions that it raised to the level of their other
// methods.
func TestRemovedMethodLowersSessions(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 3)
	u.Features.PINEnabled = true
	first, second, third := h.Browser(), h.Browser(), h.Browser()
	first.Plain()
	app, recovery, _ := first.AddApp(identitytest.AuthenticatorPage)
	if a := first.Post(first.Get("/account/security/pin"), "pin", "471193", "again", "471193"); a.Code != http.StatusSeeOther {
		t.Fatalf("a PIN = %d", a.Code)
	}
	second.Plain()
	if a := second.Post(second.Get(second.Get("/next").URL+"&method=authenticator"), "code", h.Code(app)); a.Code != http.StatusSeeOther {
		t.Fatalf("the app = %d", a.Code)
	}
	third.Plain()
	page := third.Get("/next")
	page = third.Get(page.URL[:strings.Index(page.URL+"&", "&")] + "&method=recovery")
	if a := third.Post(page, "code", recovery[0]); a.Code != http.StatusSeeOther {
		t.Fatalf("a recovery code = %d:\n%s", a.Code, a.Body)
	}
	want := func(when string, levels ...int) {
		t.Helper()
		for i, b := range []*identitytest.Browser{first, second, third} {
			s, err := h.SessionOf(b)
			if err != nil || s.Level != levels[i] {
				t.Errorf("%s session %d has level %d (%v), want %d", when, i+1, s.Level, err, levels[i])
			}
		}
	}
	want("before,", 3, 3, 3)
	if r, err := h.SessionOf(second); err != nil || !slices.Equal(r.References, []string{"otp"}) {
		t.Errorf("the references of the session are %v (%v)", r, err)
	}
	if r, err := h.SessionOf(first); err != nil || !slices.Equal(r.References, []string{"otp", "pin"}) {
		t.Errorf("the references of the session with two are %v (%v)", r, err)
	}
	if a := first.Post(first.Get("/account/security/remove?method=authenticator")); a.Code != http.StatusSeeOther {
		t.Fatalf("removing the app = %d", a.Code)
	}
	want("without the app,", 2, 1, 1)
	if s, err := h.SessionOf(second); err != nil || !slices.Equal(s.AMR, []string{"DEFAULT"}) {
		t.Errorf("the words of a session that fell are %v (%v)", s.AMR, err)
	}
	if a := second.Get("/next"); strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Error("level 3 is still open to a session that fell")
	}
	if err := h.RemoveMethod("pin"); err != nil {
		t.Fatal(err)
	}
	want("without the PIN,", 1, 1, 1)
	h.CheckInvariants()
}
