package identity_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const pinForgot = "/account/security/pin/forgot"

// pinned returns the harness of stepping for level 2, with e-mail and a demo person who has a PIN.
func pinned(t *testing.T) (*harness, *config.Units, *notifytest.Notices) {
	t.Helper()
	h, u := stepping(t, 2)
	box := &notifytest.Notices{}
	h.notices = box
	h.start()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	u.Features.PINEnabled, u.EmailNotifications.PINReset = true, true
	b := h.plain()
	if a := b.post(b.get("/account/security/pin"), "pin", "471193", "again", "471193"); a.Code != http.StatusSeeOther {
		t.Fatalf("a PIN = %d", a.Code)
	}
	return h, u, box
}

// lockPIN enters wrong PINs until the PIN is locked.
func (b *browser) lockPIN() {
	b.h.t.Helper()
	for range 5 {
		b.post(b.get("/next"), "code", "000000")
	}
	b.h.clock.Advance(time.Minute)
}

// pinLink requests a link to reset the PIN and returns it.
func (b *browser) pinLink(box *notifytest.Notices, at string) string {
	b.h.t.Helper()
	if a := b.post(b.get(at)); a.Code != http.StatusSeeOther || !strings.Contains(a.Header().Get("Location"), "sent=1") {
		b.h.t.Fatalf("asking for a link = %d:\n%s", a.Code, a.Body)
	}
	list := box.Take()
	if len(list) != 1 || list[0].Kind != notify.PINReset || list[0].To != demo || !strings.HasPrefix(list[0].Link, "/account/security/pin-reset?token=") {
		b.h.t.Fatalf("sent: %+v", list)
	}
	return list[0].Link
}

func TestPINReset(t *testing.T) {
	t.Parallel()
	h, u, box := pinned(t)
	b := h.plain()
	if a := b.get("/next"); !strings.Contains(a.Body.String(), "Forgot your PIN?") {
		t.Errorf("the page of the PIN offers no other one:\n%s", a.Body)
	}
	b.lockPIN()
	page := b.get("/next")
	at := pinForgot + "?flow=" + url.QueryEscape(strings.TrimPrefix(page.url, "/step-up?flow="))
	if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), pinForgot+"?flow=") {
		t.Fatalf("level 2 with a locked PIN = %d:\n%s", page.Code, page.Body)
	}
	if a := b.get(pinForgot); a.Code != http.StatusOK || !strings.Contains(a.Body.String(), "d•••@example.com") || len(box.Take()) != 0 {
		t.Errorf("the page that asks = %d:\n%s", a.Code, a.Body)
	}
	link := b.pinLink(box, at)
	for key, value := range h.dump() {
		if token := link[strings.Index(link, "=")+1:]; strings.Contains(value, token) || strings.Contains(key, token) {
			t.Errorf("%q holds the link", key)
		}
	}
	form := b.get(link)
	if form.url != "/account/security/pin-reset" || !strings.Contains(form.Body.String(), "Choose a PIN") {
		t.Fatalf("the link = %d %s:\n%s", form.Code, form.url, form.Body)
	}
	if a := b.post(form, "pin", "123456", "again", "123456"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("an easy PIN = %d", a.Code)
	}
	if a := b.post(form, "pin", "827164", "again", "827164"); a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
		t.Fatalf("another PIN = %d to %q:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if a := b.get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("after the reset = %d %s", a.Code, a.url)
	}
	if n := h.events()["person.PINResetEvent"]; n != 1 {
		t.Errorf("%d events of the reset", n)
	}
	other := h.plain()
	if a := other.post(other.get("/next"), "code", "471193"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the PIN of before = %d", a.Code)
	}
	h.clock.Advance(10 * time.Minute)
	if a := other.post(other.get("/next"), "code", "827164"); a.Code != http.StatusSeeOther {
		t.Errorf("the new PIN = %d", a.Code)
	}
	// While it is switched off, nobody is offered a reset.
	u.EmailNotifications.PINReset = false
	third := h.plain()
	if a := third.get("/next"); strings.Contains(a.Body.String(), "Forgot your PIN?") {
		t.Error("a reset is offered while it is switched off")
	}
	if a := third.get(pinForgot); a.url != "/account/security" || len(box.Take()) != 0 {
		t.Errorf("the page that asks, switched off = %d %s", a.Code, a.url)
	}
	h.checkInvariants()
}

func TestPINResetAttacks(t *testing.T) {
	t.Parallel()
	newPIN := []string{"pin", "827164", "again", "827164"}
	t.Run("attack 238: a link for another PIN is good once, of 64 in parallel", func(t *testing.T) {
		t.Parallel()
		h, _, box := pinned(t)
		b := h.plain()
		form := b.get(b.pinLink(box, pinForgot))
		var wg sync.WaitGroup
		var mu sync.Mutex
		good := 0
		for range 64 {
			wg.Go(func() {
				c := b.clone()
				// A reset gives the session a new cookie. A browser that still has the old one is sent to sign in.
				if a := c.post(form, newPIN...); a.Code == http.StatusSeeOther && !strings.HasPrefix(a.Header().Get("Location"), "/sign-in") {
					mu.Lock()
					defer mu.Unlock()
					good++
				}
			})
		}
		wg.Wait()
		if good != 1 {
			t.Errorf("%d of 64 have reset the PIN, want 1", good)
		}
	})
	t.Run("attack 238: a link ends with a newer one, its time, another password and another address", func(t *testing.T) {
		t.Parallel()
		for name, spoil := range map[string]func(h *harness, b *browser, box *notifytest.Notices){
			"a newer one": func(h *harness, b *browser, box *notifytest.Notices) {
				h.clock.Advance(time.Minute)
				b.pinLink(box, pinForgot)
			},
			"time": func(h *harness, _ *browser, _ *notifytest.Notices) { h.clock.Advance(30 * time.Minute) },
			"another address": func(h *harness, _ *browser, _ *notifytest.Notices) {
				p, err := h.Person.Person(h.t.Context(), demo)
				if err == nil {
					_, err = h.Person.UpdatePerson(h.t.Context(), p.ID, person.Edit{By: event.Actor{ID: "admin"}, Verified: true}, func(_ storage.Tx, d *person.Details) error {
						d.Profile.EmailAddresses = []person.EmailAddress{{Primary: true, Verified: true, Value: "other@example.com"}}
						return nil
					})
				}
				if err != nil {
					h.t.Fatal(err)
				}
			},
		} {
			h, _, box := pinned(t)
			b := h.plain()
			link := b.pinLink(box, pinForgot)
			spoil(h, b, box)
			if a := b.get(link); a.Code != http.StatusBadRequest {
				t.Errorf("%s: the link = %d %s", name, a.Code, a.url)
			}
		}
		h, _, box := pinned(t)
		b := h.plain()
		link := b.pinLink(box, pinForgot)
		if err := h.Person.SetPassword(t.Context(), demo, secret.New("another horse 2"), event.Actor{ID: "admin"}); err != nil {
			t.Fatal(err)
		}
		if a := b.get(link); a.Code != http.StatusBadRequest {
			t.Errorf("another password: the link = %d %s", a.Code, a.url)
		}
	})
	t.Run("attack 237: looking at a link uses nothing up, and it is nothing without the password", func(t *testing.T) {
		t.Parallel()
		h, _, box := pinned(t)
		b := h.plain()
		link := b.pinLink(box, pinForgot)
		for range 3 {
			scanner := h.browser()
			if a := scanner.get(link); !strings.HasPrefix(a.url, "/sign-in") {
				t.Errorf("who is not signed in comes to %s", a.url)
			}
		}
		if a := b.post(b.get(link), newPIN...); a.Code != http.StatusSeeOther {
			t.Errorf("the link after others looked at it = %d", a.Code)
		}
	})
	t.Run("attack 282: no link is sent, and no PIN set, without the form's token", func(t *testing.T) {
		t.Parallel()
		h, _, box := pinned(t)
		b := h.plain()
		if a := b.do(http.MethodPost, pinForgot, ""); a.Code != http.StatusForbidden || len(box.Take()) != 0 {
			t.Errorf("POST without a token = %d", a.Code)
		}
		b.get(b.pinLink(box, pinForgot))
		if a := b.do(http.MethodPost, "/account/security/pin-reset", "pin=827164&again=827164"); a.Code != http.StatusForbidden {
			t.Errorf("POST of a PIN without a token = %d", a.Code)
		}
	})
	t.Run("attack 221: nobody's mailbox is filled", func(t *testing.T) {
		t.Parallel()
		h, _, box := pinned(t)
		b := h.plain()
		var last *answer
		for range 20 {
			last = b.post(b.get(pinForgot))
		}
		if last.Code != http.StatusTooManyRequests || !strings.Contains(last.Body.String(), "We just sent you a link.") {
			t.Errorf("the last = %d\n%s", last.Code, last.Body)
		}
		if n := len(box.Take()); n != 5 {
			t.Errorf("%d e-mails, want 5", n)
		}
	})
}
