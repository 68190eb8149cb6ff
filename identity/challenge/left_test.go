package challenge_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// leaving returns a window of the browser that hangs up before the n-th Update of each form.
func leaving(b *identitytest.Browser, n int64) *identitytest.Browser {
	out := b.Clone()
	out.Leaves = n
	return out
}

// TestReloadsDoNotThrottleTheRightPassword: someone who sends the right password again and again, and never waits for
// the answer, is not told to wait.
func TestReloadsDoNotThrottleTheRightPassword(t *testing.T) {
	t.Parallel()
	for n := range int64(3) {
		h := identitytest.New(t)
		b := h.Browser()
		form := b.Get("/next")
		for range 30 {
			leaving(b, n+1).Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword)
		}
		if a := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusSeeOther {
			t.Errorf("the right password after 30 reloads before Update %d: status %d, want 303", n+1, a.Code)
		}
	}
}

// TestReloadsDoNotLockTheRightPIN: a double click on the right PIN does not lock it.
func TestReloadsDoNotLockTheRightPIN(t *testing.T) {
	t.Parallel()
	for n := range int64(4) {
		h, u := identitytest.NewStepping(t, 2)
		u.Features.PINEnabled = true
		h.Plain().SetPIN("827164")
		b := h.Plain()
		form := b.Get("/next")
		for range 10 {
			left := leaving(b, n+1)
			left.Post(form, "code", "827164")
			if left.Session() != b.Session() { // a form is handled to its end, so this window is stepped up
				b = h.Plain()
				form = b.Get("/next")
			}
		}
		if a := b.Post(form, "code", "827164"); a.Code != http.StatusSeeOther {
			t.Errorf("the right PIN after ten reloads before Update %d: status %d, want 303", n+1, a.Code)
		}
		h.WantLevel(b, 2)
		if n := h.Events()["person.PINLockedEvent"]; n != 0 {
			t.Errorf("%d events of a locked PIN, want none", n)
		}
	}
}

// TestRefusedSignInLeavesAnEventAfterAHangUp: who hangs up after a wrong password is counted and recorded all the same.
func TestRefusedSignInLeavesAnEventAfterAHangUp(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	form := b.Get("/next")
	for range 5 {
		leaving(b, 2).Post(form, "username", identitytest.Demo, "password", "wrong")
	}
	if n := h.Events()["login.LoginFailedEvent"]; n != 5 {
		t.Errorf("%d events of five wrong passwords whose sender hung up, want 5", n)
	}
	if a := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusTooManyRequests {
		t.Errorf("after five wrong passwords: status %d, want 429", a.Code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer h.HangUpBefore(2, cancel)()
	if _, err := h.CheckPassword(ctx, "shop", "ben", "wrong", audit.Origin{ClientIP: "198.51.100.1"}); !errors.Is(err,
		authn.ErrBadCredentials) {
		t.Errorf("a wrong password of a client that hangs up = %v, want ErrBadCredentials", err)
	}
	if n := h.Events()["login.LoginFailedEvent"]; n != 6 {
		t.Errorf("%d events, want one more for the client that hung up", n)
	}
}

// TestWrongPINLeavesAnEventAfterAHangUp is the same for a step-up.
func TestWrongPINLeavesAnEventAfterAHangUp(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	u.Features.PINEnabled = true
	h.Plain().SetPIN("827164")
	b := h.Plain()
	form := b.Get("/next")
	for range 5 {
		leaving(b, 3).Post(form, "code", "111222")
	}
	if a := b.Get("/next"); strings.Contains(a.Body.String(), `name="code"`) {
		t.Errorf("the PIN is asked for after five wrong ones:\n%s", a.Body)
	}
	if ev := h.Events(); ev["person.PINLockedEvent"] != 1 {
		t.Errorf("events = %v, want one of the locked PIN", ev)
	}
}
