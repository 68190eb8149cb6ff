package identity_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
)

// stored counts the records of a table.
func (h *harness) stored(table string) (n int) {
	for key := range h.dump() {
		if name, _, _ := strings.Cut(key, "/"); name == table {
			n++
		}
	}
	return n
}

// TestSessionsOfOnePerson: the session that was used longest ago ends when the person signs in once too often.
func TestSessionsOfOnePerson(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *identity.Config) { c.Session.PerPerson = 3 })
	var browsers []*browser
	for range 3 {
		b := h.browser()
		b.signIn(demo, demoPassword)
		browsers = append(browsers, b)
		h.clock.Advance(2 * time.Minute)
	}
	browsers[0].get("/next") // it was opened first, and is not the one that was used longest ago
	h.clock.Advance(2 * time.Minute)
	before := h.events()["session.SignedOutEvent"]
	fourth := h.browser()
	fourth.signIn(demo, demoPassword)
	for i, want := range []bool{true, false, true} {
		if got := browsers[i].isSignedIn(); got != want {
			t.Errorf("browser %d is signed in: %t, want %t", i+1, got, want)
		}
	}
	if !fourth.isSignedIn() || h.stored("identity_session") != 3 || h.stored("identity_session_of") != 3 || h.stored("identity_session_key") != 3 {
		t.Errorf("%d sessions are stored, want 3", h.stored("identity_session"))
	}
	if n := h.events()["session.SignedOutEvent"] - before; n != 1 {
		t.Errorf("%d events of the ended session, want 1: %v", n, h.events())
	}
	// Signing in again in one browser ends none.
	h.demandLogin()
	if again := fourth.post(fourth.get("/next?again=1"), "username", demo, "password", demoPassword); again.Code != http.StatusSeeOther {
		t.Fatalf("again: %d", again.Code)
	}
	if !browsers[0].isSignedIn() || !browsers[2].isSignedIn() {
		t.Error("signing in again in one browser has ended the session of another one")
	}
}

// TestEndedSessionsMakeRoomFirst: sessions that have ended by themselves make room before one that is still good.
func TestEndedSessionsMakeRoomFirst(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *identity.Config) { c.Session.PerPerson = 2 })
	kept := h.browser()
	form := kept.get("/next")
	if a := kept.post(form, "username", demo, "password", demoPassword, "remember", "yes"); a.Code != http.StatusSeeOther {
		t.Fatalf("sign-in: %d", a.Code)
	}
	h.browser().signIn(demo, demoPassword)
	h.clock.Advance(2 * time.Hour)
	h.browser().signIn(demo, demoPassword)
	if !kept.isSignedIn() || h.stored("identity_session") != 2 {
		t.Errorf("the remembered session is good: %t, %d are stored, want true and 2", kept.isSignedIn(), h.stored("identity_session"))
	}
}

// TestDevicesOfOnePerson: a person is recognised in so many browsers.
func TestDevicesOfOnePerson(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *identity.Config) { c.Session.PerPerson = 3 })
	for range 8 {
		h.clock.Advance(time.Minute)
		h.browser().signIn(demo, demoPassword)
	}
	if n := h.stored("identity_device"); n != 3 {
		t.Errorf("%d devices are stored, want 3", n)
	}
	h.checkInvariants()
}
