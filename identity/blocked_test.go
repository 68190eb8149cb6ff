package identity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

// TestBlockedWithTheRightPassword: a blocked person learns that from the right password, and no one from a wrong one.
func TestBlockedWithTheRightPassword(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	known := h.Browser()
	known.SignIn(identitytest.Demo, identitytest.DemoPassword)
	if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, identitytest.Admin); err != nil {
		t.Fatal(err)
	}
	wrong := h.Browser().Try(identitytest.Demo, "wrong password")
	if wrong.Code != http.StatusUnprocessableEntity || strings.Contains(wrong.Body.String(), "blocked") {
		t.Errorf("a wrong password: %d\n%s", wrong.Code, wrong.Body)
	}
	b := h.Browser()
	for range 10 { // and is not throttled: it is no guess
		a := b.Try(identitytest.Demo, identitytest.DemoPassword)
		if text := a.Body.String(); a.Code != http.StatusForbidden ||
			!strings.Contains(text, "This account is blocked. Contact your Gatehouse administrator.") || b.IsSignedIn() {
			t.Fatalf("the right password: %d, want 403 and whom to ask\n%s", a.Code, a.Body)
		}
	}
	if n := h.Events()["login.LoginFailedEvent"]; n != 11 {
		t.Errorf("%d events of refused sign-ins, want 11", n)
	}
}
