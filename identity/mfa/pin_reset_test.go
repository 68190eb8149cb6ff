package mfa_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const pinForgot = "/account/security/pin/forgot"

// lockPIN enters wrong PINs until the PIN is locked.
func lockPIN(b *identitytest.Browser) {
	b.H.T.Helper()
	for range 5 {
		b.Post(b.Get("/next"), "code", "000000")
	}
	b.H.Clock.Advance(time.Minute)
}

// pinLink requests a link to reset the PIN and returns it.
func pinLink(b *identitytest.Browser, box *notifytest.Notices, at string) string {
	b.H.T.Helper()
	if a := b.Post(b.Get(at)); a.Code != http.StatusSeeOther || !strings.Contains(a.Header().Get("Location"), "sent=1") {
		b.H.T.Fatalf("asking for a link = %d:\n%s", a.Code, a.Body)
	}
	list := box.Take()
	if len(list) != 1 || list[0].Kind != notify.PINReset || list[0].To != identitytest.Demo ||
		!strings.HasPrefix(list[0].Link, "/account/security/pin-reset?token=") {
		b.H.T.Fatalf("sent: %+v", list)
	}
	return list[0].Link
}

func TestPINReset(t *testing.T) {
	t.Parallel()
	h, u, box := identitytest.NewWithPIN(t)
	b := h.Plain()
	if a := b.Get("/next"); !strings.Contains(a.Body.String(), "Forgot your PIN?") {
		t.Errorf("the page of the PIN offers no other one:\n%s", a.Body)
	}
	lockPIN(b)
	page := b.Get("/next")
	at := pinForgot + "?flow=" + url.QueryEscape(strings.TrimPrefix(page.URL, "/step-up?flow="))
	if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), pinForgot+"?flow=") {
		t.Fatalf("level 2 with a locked PIN = %d:\n%s", page.Code, page.Body)
	}
	if a := b.Get(pinForgot); a.Code != http.StatusOK || !strings.Contains(a.Body.String(), "d•••@example.com") || len(box.Take()) != 0 {
		t.Errorf("the page that asks = %d:\n%s", a.Code, a.Body)
	}
	link := pinLink(b, box, at)
	for key, value := range h.Dump() {
		if token := link[strings.Index(link, "=")+1:]; strings.Contains(value, token) || strings.Contains(key, token) {
			t.Errorf("%q holds the link", key)
		}
	}
	form := b.Get(link)
	if form.URL != "/account/security/pin-reset" || !strings.Contains(form.Body.String(), "Choose a PIN") {
		t.Fatalf("the link = %d %s:\n%s", form.Code, form.URL, form.Body)
	}
	if a := b.Post(form, "pin", "123456", "again", "123456"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("an easy PIN = %d", a.Code)
	}
	if a := b.Post(form, "pin", "827164", "again", "827164"); a.Code != http.StatusSeeOther ||
		!strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
		t.Fatalf("another PIN = %d to %q:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if a := b.Get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("after the reset = %d %s", a.Code, a.URL)
	}
	if n := h.Events()["person.PINResetEvent"]; n != 1 {
		t.Errorf("%d events of the reset", n)
	}
	other := h.Plain()
	if a := other.Post(other.Get("/next"), "code", "471193"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the PIN of before = %d", a.Code)
	}
	h.Clock.Advance(10 * time.Minute)
	if a := other.Post(other.Get("/next"), "code", "827164"); a.Code != http.StatusSeeOther {
		t.Errorf("the new PIN = %d", a.Code)
	}
	// While it is switched off, no one is offered a reset.
	u.EmailNotifications.PINReset = false
	third := h.Plain()
	if a := third.Get("/next"); strings.Contains(a.Body.String(), "Forgot your PIN?") {
		t.Error("a reset is offered while it is switched off")
	}
	if a := third.Get(pinForgot); a.URL != "/account/security" || len(box.Take()) != 0 {
		t.Errorf("the page that asks, switched off = %d %s", a.Code, a.URL)
	}
	h.CheckInvariants()
}

func TestPINResetAttacks(t *testing.T) {
	t.Parallel()
	newPIN := []string{"pin", "827164", "again", "827164"}
	t.Run("attack 238: a link for another PIN is good once, of 64 in parallel", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithPIN(t)
		b := h.Plain()
		form := b.Get(pinLink(b, box, pinForgot))
		var wg sync.WaitGroup
		var mu sync.Mutex
		good := 0
		for range 64 {
			wg.Go(func() {
				c := b.Clone()
				// A reset gives the session a new cookie. A browser that still has the old one is sent to sign in.
				if a := c.Post(form, newPIN...); a.Code == http.StatusSeeOther && !strings.HasPrefix(a.Header().Get("Location"), "/sign-in") {
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
		for name, spoil := range map[string]func(h *identitytest.Harness, b *identitytest.Browser, box *notifytest.Notices){
			"a newer one": func(h *identitytest.Harness, b *identitytest.Browser, box *notifytest.Notices) {
				h.Clock.Advance(time.Minute)
				pinLink(b, box, pinForgot)
			},
			"time": func(h *identitytest.Harness, _ *identitytest.Browser, _ *notifytest.Notices) {
				h.Clock.Advance(30 * time.Minute)
			},
			"another address": func(h *identitytest.Harness, _ *identitytest.Browser, _ *notifytest.Notices) {
				p, err := h.Person.Person(h.T.Context(), identitytest.Demo)
				if err == nil {
					_, err = h.Person.UpdatePerson(h.T.Context(), p.ID, person.Edit{By: audit.Actor{ID: "admin"}, Verified: true},
						func(_ storage.Tx, d *person.Details) error {
							d.Profile.EmailAddresses = []person.EmailAddress{{Primary: true, Verified: true, Value: "other@example.com"}}
							return nil
						})
				}
				if err != nil {
					h.T.Fatal(err)
				}
			},
		} {
			h, _, box := identitytest.NewWithPIN(t)
			b := h.Plain()
			link := pinLink(b, box, pinForgot)
			spoil(h, b, box)
			if a := b.Get(link); a.Code != http.StatusBadRequest {
				t.Errorf("%s: the link = %d %s", name, a.Code, a.URL)
			}
		}
		h, _, box := identitytest.NewWithPIN(t)
		b := h.Plain()
		link := pinLink(b, box, pinForgot)
		if err := h.Person.SetPassword(t.Context(), identitytest.Demo, secret.New("another horse 2"), audit.Actor{ID: "admin"}); err != nil {
			t.Fatal(err)
		}
		if a := b.Get(link); a.Code != http.StatusBadRequest {
			t.Errorf("another password: the link = %d %s", a.Code, a.URL)
		}
	})
	t.Run("attack 237: looking at a link uses nothing up, and it is nothing without the password", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithPIN(t)
		b := h.Plain()
		link := pinLink(b, box, pinForgot)
		for range 3 {
			scanner := h.Browser()
			if a := scanner.Get(link); !strings.HasPrefix(a.URL, "/sign-in") {
				t.Errorf("who is not signed in comes to %s", a.URL)
			}
		}
		if a := b.Post(b.Get(link), newPIN...); a.Code != http.StatusSeeOther {
			t.Errorf("the link after others looked at it = %d", a.Code)
		}
	})
	t.Run("attack 282: no link is sent, and no PIN set, without the form's token", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithPIN(t)
		b := h.Plain()
		if a := b.Do(http.MethodPost, pinForgot, ""); a.Code != http.StatusForbidden || len(box.Take()) != 0 {
			t.Errorf("POST without a token = %d", a.Code)
		}
		b.Get(pinLink(b, box, pinForgot))
		if a := b.Do(http.MethodPost, "/account/security/pin-reset", "pin=827164&again=827164"); a.Code != http.StatusForbidden {
			t.Errorf("POST of a PIN without a token = %d", a.Code)
		}
	})
	t.Run("attack 221: nobody's mailbox is filled", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithPIN(t)
		b := h.Plain()
		var last *identitytest.Answer
		for range 20 {
			last = b.Post(b.Get(pinForgot))
		}
		if last.Code != http.StatusTooManyRequests || !strings.Contains(last.Body.String(), "We just sent you a link.") {
			t.Errorf("the last = %d\n%s", last.Code, last.Body)
		}
		if n := len(box.Take()); n != 5 {
			t.Errorf("%d e-mails, want 5", n)
		}
	})
}
