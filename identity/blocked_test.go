package identity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// TestBlockedWithTheRightPassword: a blocked person learns that from the right password, and nobody from a wrong one.
func TestBlockedWithTheRightPassword(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	known := h.browser()
	known.signIn(demo, demoPassword)
	if err := h.Person.SetState(t.Context(), demo, person.Blocked, admin); err != nil {
		t.Fatal(err)
	}
	wrong := h.browser().try(demo, "wrong password")
	if wrong.Code != http.StatusUnprocessableEntity || strings.Contains(wrong.Body.String(), "blocked") {
		t.Errorf("a wrong password: %d\n%s", wrong.Code, wrong.Body)
	}
	b := h.browser()
	for range 10 { // and is not throttled: it is no guess
		a := b.try(demo, demoPassword)
		if text := a.Body.String(); a.Code != http.StatusForbidden || !strings.Contains(text, "This account is blocked. Contact your Gatehouse administrator.") || b.isSignedIn() {
			t.Fatalf("the right password: %d, want 403 and whom to ask\n%s", a.Code, a.Body)
		}
	}
	if n := h.events()["login.LoginFailedEvent"]; n != 11 {
		t.Errorf("%d events of refused sign-ins, want 11", n)
	}
}
