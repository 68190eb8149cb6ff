package identity_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// leaver is a store under which a caller hangs up before the n-th Update.
type leaver struct {
	storage.Store
	n       int64
	leave   func()
	updates atomic.Int64
}

func (s *leaver) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if s.updates.Add(1) == s.n {
		s.leave()
	}
	return s.Store.Update(ctx, fn)
}

// hangUpBefore lets leave be called before the n-th Update from now, until the function that it returns is called.
func (h *harness) hangUpBefore(n int64, leave func()) (restore func()) {
	before := h.store.Store
	h.store.Store = &leaver{Store: before, n: n, leave: leave}
	return func() { h.store.Store = before }
}

// leaving returns a window of the browser that hangs up before the n-th Update of each form.
func (b *browser) leaving(n int64) *browser {
	out := b.clone()
	out.leaves = n
	return out
}

// TestReloadsDoNotThrottleTheRightPassword: somebody who sends the right password again and again, and never waits for
// the answer, is not told to wait.
func TestReloadsDoNotThrottleTheRightPassword(t *testing.T) {
	t.Parallel()
	for n := range int64(3) {
		h := newHarness(t)
		b := h.browser()
		form := b.get("/next")
		for range 30 {
			b.leaving(n+1).post(form, "username", demo, "password", demoPassword)
		}
		if a := b.post(form, "username", demo, "password", demoPassword); a.Code != http.StatusSeeOther {
			t.Errorf("the right password after 30 reloads before Update %d: status %d, want 303", n+1, a.Code)
		}
	}
}

// TestReloadsDoNotLockTheRightPIN: a double click on the right PIN does not lock it.
func TestReloadsDoNotLockTheRightPIN(t *testing.T) {
	t.Parallel()
	for n := range int64(4) {
		h, u := stepping(t, 2)
		u.Features.PINEnabled = true
		h.plain().pin("827164")
		b := h.plain()
		form := b.get("/next")
		for range 10 {
			left := b.leaving(n + 1)
			left.post(form, "code", "827164")
			if left.session() != b.session() { // a form is handled to its end, so this window is stepped up
				b = h.plain()
				form = b.get("/next")
			}
		}
		if a := b.post(form, "code", "827164"); a.Code != http.StatusSeeOther {
			t.Errorf("the right PIN after ten reloads before Update %d: status %d, want 303", n+1, a.Code)
		}
		h.wantLevel(b, 2)
		if n := h.events()["person.PINLockedEvent"]; n != 0 {
			t.Errorf("%d events of a locked PIN, want none", n)
		}
	}
}

// TestRefusedSignInLeavesAnEventAfterAHangUp: who hangs up after a wrong password is counted and recorded all the same.
func TestRefusedSignInLeavesAnEventAfterAHangUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.browser()
	form := b.get("/next")
	for range 5 {
		b.leaving(2).post(form, "username", demo, "password", "wrong")
	}
	if n := h.events()["login.LoginFailedEvent"]; n != 5 {
		t.Errorf("%d events of five wrong passwords whose sender hung up, want 5", n)
	}
	if a := b.post(form, "username", demo, "password", demoPassword); a.Code != http.StatusTooManyRequests {
		t.Errorf("after five wrong passwords: status %d, want 429", a.Code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer h.hangUpBefore(2, cancel)()
	if _, err := h.CheckPassword(ctx, "shop", "ben", "wrong", event.Origin{ClientIP: "198.51.100.1"}); !errors.Is(err, login.ErrBadCredentials) {
		t.Errorf("a wrong password of a client that hangs up = %v, want ErrBadCredentials", err)
	}
	if n := h.events()["login.LoginFailedEvent"]; n != 6 {
		t.Errorf("%d events, want one more for the client that hung up", n)
	}
}

// TestWrongPINLeavesAnEventAfterAHangUp is the same for a step-up.
func TestWrongPINLeavesAnEventAfterAHangUp(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 2)
	u.Features.PINEnabled = true
	h.plain().pin("827164")
	b := h.plain()
	form := b.get("/next")
	for range 5 {
		b.leaving(3).post(form, "code", "111222")
	}
	if a := b.get("/next"); strings.Contains(a.Body.String(), `name="code"`) {
		t.Errorf("the PIN is asked for after five wrong ones:\n%s", a.Body)
	}
	if ev := h.events(); ev["person.PINLockedEvent"] != 1 {
		t.Errorf("events = %v, want one of the locked PIN", ev)
	}
}
