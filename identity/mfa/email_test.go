package mfa_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

func TestEmailCode(t *testing.T) {
	t.Parallel()
	h, u, box := identitytest.NewWithEmailCodes(t)
	b := h.Plain()
	if a := b.Get("/next"); !strings.Contains(a.Body.String(), "d•••@example.com") || strings.Contains(a.Body.String(), `id="code"`) {
		t.Errorf("before a code is sent: %s", a.Body)
	}
	if n := len(box.Take()); n != 0 {
		t.Fatalf("opening the page sends %d e-mails", n)
	}
	page, code := b.Ask(box)
	for key, value := range h.Dump() {
		if strings.Contains(value, code) {
			t.Errorf("%q holds the code", key)
		}
	}
	if a := b.Post(page, "send", "yes"); a.Code != http.StatusTooManyRequests || len(box.Take()) != 0 ||
		a.Header().Get("Retry-After") != "60" {
		t.Errorf("another code at once = %d", a.Code)
	}
	wrong := identitytest.WrongFor(code)
	if a := b.Post(page, "code", wrong); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong code = %d", a.Code)
	}
	if a := b.Post(page, "code", code[:3]+" "+code[3:]); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Errorf("the code = %d:\n%s", a.Code, a.Body)
	}
	h.WantLevel(b, 2)

	u.StepUp.AuthenticationMethods.EmailAuthenticationLevel = 1
	other := h.Plain()
	if a := other.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with codes of level 1 = %d", a.Code)
	}
	u.StepUp.AuthenticationMethods.EmailAuthenticationLevel = 2
	u.EmailNotifications.StepUpAuthentication = false
	if a := other.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with codes switched off = %d", a.Code)
	}
	u.EmailNotifications.StepUpAuthentication = true
	h.Notices = nil
	h.Start()
	if a := other.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with nothing to send by = %d", a.Code)
	}
	h.CheckInvariants()
}

// TestEmailCodeAddress: codes are not sent to unverified addresses.
func TestEmailCodeAddress(t *testing.T) {
	t.Parallel()
	h, _, _ := identitytest.NewWithEmailCodes(t)
	no := false
	h.Config.Persons = []person.NewPerson{{Username: "emil@example.com", Password: h.Config.Persons[0].Password, EmailVerified: &no}}
	h.Start()
	b := h.Browser()
	a := b.Post(b.Get("/next?plain=1"), "username", "emil@example.com", "password", identitytest.DemoPassword)
	b.Get(a.Header().Get("Location"))
	if a := b.Get("/next"); a.Code != http.StatusForbidden || !b.IsSignedIn() {
		t.Errorf("level 2 without a verified address = %d", a.Code)
	}
}

func TestEmailCodeAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 221: of a hundred tries at once five are looked at, whatever they are", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithEmailCodes(t)
		b := h.Plain()
		page, code := b.Ask(box)
		wrong := identitytest.WrongFor(code)
		b.Hundred(page, wrong)
		h.Clock.Advance(time.Minute)
		if a := b.Post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code after five wrong tries = %d, want it dead", a.Code)
		}
	})
	t.Run("attack 266: a code is good once, for its step-up, its browser, ten minutes, and until there is a newer one", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithEmailCodes(t)
		b, other := h.Plain(), h.Plain()
		page, code := b.Ask(box)
		theirs, second := other.Ask(box)
		if code != second {
			if a := other.Post(theirs, "code", code); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("the code of another step-up = %d", a.Code)
			}
		}
		h.Clock.Advance(time.Minute)
		if a := b.Post(page, "send", "yes"); a.Code != http.StatusSeeOther {
			t.Fatalf("another code after a minute = %d", a.Code)
		}
		newer := box.Take()[0].Data["code"]
		if newer != code {
			if a := b.Post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("the code before the newest = %d", a.Code)
			}
		}
		h.Clock.Advance(10 * time.Minute)
		if a := b.Post(page, "code", newer); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("a code of ten minutes ago = %d", a.Code)
		}
		again, last := b.Ask(box)
		if a := b.Post(again, "code", last); a.Code != http.StatusSeeOther {
			t.Errorf("a good code = %d", a.Code)
		}
	})
	t.Run("attack 266: one who knows the password cannot fill a mailbox", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithEmailCodes(t)
		b := h.Plain()
		for i := range 20 {
			page := b.Get("/next?n=" + url.QueryEscape(strings.Repeat("x", i+1)))
			b.Post(page, "send", "yes")
		}
		if n := len(box.Take()); n != 5 {
			t.Errorf("%d e-mails in no time, want 5", n)
		}
	})
}
