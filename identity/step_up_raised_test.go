package identity_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/event"
)

// TestRemovedMethodLowersSessions: removing a method lowers the sessions that it raised to the level of their other
// methods.
func TestRemovedMethodLowersSessions(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 3)
	u.Features.PINEnabled = true
	first, second, third := h.browser(), h.browser(), h.browser()
	first.plain()
	app, recovery, _ := first.app(authenticatorPage)
	if a := first.post(first.get("/account/security/pin"), "pin", "471193", "again", "471193"); a.Code != http.StatusSeeOther {
		t.Fatalf("a PIN = %d", a.Code)
	}
	second.plain()
	if a := second.post(second.get(second.get("/next").url+"&method=authenticator"), "code", h.code(app)); a.Code != http.StatusSeeOther {
		t.Fatalf("the app = %d", a.Code)
	}
	third.plain()
	page := third.get("/next")
	page = third.get(page.url[:strings.Index(page.url+"&", "&")] + "&method=recovery")
	if a := third.post(page, "code", recovery[0]); a.Code != http.StatusSeeOther {
		t.Fatalf("a recovery code = %d:\n%s", a.Code, a.Body)
	}
	want := func(when string, levels ...int) {
		t.Helper()
		for i, b := range []*browser{first, second, third} {
			s, err := h.session(b)
			if err != nil || s.Level != levels[i] {
				t.Errorf("%s session %d has level %d (%v), want %d", when, i+1, s.Level, err, levels[i])
			}
		}
	}
	want("before,", 3, 3, 3)
	if r, err := h.session(second); err != nil || !slices.Equal(r.References, []string{"otp"}) {
		t.Errorf("the references of the session are %v (%v)", r, err)
	}
	if r, err := h.session(first); err != nil || !slices.Equal(r.References, []string{"otp", "pin"}) {
		t.Errorf("the references of the session with two are %v (%v)", r, err)
	}
	if a := first.post(first.get("/account/security/remove?method=authenticator")); a.Code != http.StatusSeeOther {
		t.Fatalf("removing the app = %d", a.Code)
	}
	want("without the app,", 2, 1, 1)
	if s, err := h.session(second); err != nil || !slices.Equal(s.AMR, []string{"DEFAULT"}) {
		t.Errorf("the words of a session that fell are %v (%v)", s.AMR, err)
	}
	if a := second.get("/next"); strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Error("level 3 is still open to a session that fell")
	}
	if err := h.StepUp.RemoveStepUp(t.Context(), demo, "pin", event.Actor{ID: "admin", Name: "admin"}); err != nil {
		t.Fatal(err)
	}
	want("without the PIN,", 1, 1, 1)
	h.checkInvariants()
}
