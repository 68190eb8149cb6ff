package identity_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

// mailing returns the harness of stepping for level 2, with codes by e-mail as the only method.
func mailing(t *testing.T) (*harness, *config.Units, *notifytest.Notices) {
	t.Helper()
	h, u := stepping(t, 2)
	box := &notifytest.Notices{}
	h.notices = box
	h.start()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	u.EmailNotifications.StepUpAuthentication = true
	return h, u, box
}

// ask requests a code and returns it with the page where it is entered.
func (b *browser) ask(box *notifytest.Notices) (page *answer, code string) {
	b.h.t.Helper()
	page = b.get("/next")
	if a := b.post(page, "send", "yes"); a.Code != http.StatusSeeOther {
		b.h.t.Fatalf("asking for a code at %s = %d:\n%s", page.url, a.Code, a.Body)
	}
	list := box.Take()
	if len(list) != 1 || list[0].Kind != notify.StepUpCode || list[0].To != demo || len(list[0].Data["code"]) != 6 {
		b.h.t.Fatalf("sent: %+v", list)
	}
	return b.get(page.url), list[0].Data["code"]
}

func TestEmailCode(t *testing.T) {
	t.Parallel()
	h, u, box := mailing(t)
	b := h.plain()
	if a := b.get("/next"); !strings.Contains(a.Body.String(), "d•••@example.com") || strings.Contains(a.Body.String(), `id="code"`) {
		t.Errorf("before a code is sent: %s", a.Body)
	}
	if n := len(box.Take()); n != 0 {
		t.Fatalf("opening the page sends %d e-mails", n)
	}
	page, code := b.ask(box)
	for key, value := range h.dump() {
		if strings.Contains(value, code) {
			t.Errorf("%q holds the code", key)
		}
	}
	if a := b.post(page, "send", "yes"); a.Code != http.StatusTooManyRequests || len(box.Take()) != 0 || a.Header().Get("Retry-After") != "60" {
		t.Errorf("another code at once = %d", a.Code)
	}
	wrong := wrongFor(code)
	if a := b.post(page, "code", wrong); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong code = %d", a.Code)
	}
	if a := b.post(page, "code", code[:3]+" "+code[3:]); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Errorf("the code = %d:\n%s", a.Code, a.Body)
	}
	h.wantLevel(b, 2)

	u.StepUp.AuthenticationMethods.EmailAuthenticationLevel = 1
	other := h.plain()
	if a := other.get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with codes of level 1 = %d", a.Code)
	}
	u.StepUp.AuthenticationMethods.EmailAuthenticationLevel = 2
	u.EmailNotifications.StepUpAuthentication = false
	if a := other.get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with codes switched off = %d", a.Code)
	}
	u.EmailNotifications.StepUpAuthentication = true
	h.notices = nil
	h.start()
	if a := other.get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with nothing to send by = %d", a.Code)
	}
	h.checkInvariants()
}

// TestEmailCodeAddress: codes are not sent to unverified addresses.
func TestEmailCodeAddress(t *testing.T) {
	t.Parallel()
	h, _, _ := mailing(t)
	no := false
	h.cfg.Persons = []person.NewPerson{{Username: "emil@example.com", Password: h.cfg.Persons[0].Password, EmailVerified: &no}}
	h.start()
	b := h.browser()
	a := b.post(b.get("/next?plain=1"), "username", "emil@example.com", "password", demoPassword)
	b.get(a.Header().Get("Location"))
	if a := b.get("/next"); a.Code != http.StatusForbidden || !b.isSignedIn() {
		t.Errorf("level 2 without a verified address = %d", a.Code)
	}
}

func TestEmailCodeAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 221: of a hundred tries at once five are looked at, whatever they are", func(t *testing.T) {
		t.Parallel()
		h, _, box := mailing(t)
		b := h.plain()
		page, code := b.ask(box)
		wrong := wrongFor(code)
		b.hundred(page, wrong)
		h.clock.Advance(time.Minute)
		if a := b.post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code after five wrong tries = %d, want it dead", a.Code)
		}
	})
	t.Run("attack 266: a code is good once, for its step-up, its browser, ten minutes, and until there is a newer one", func(t *testing.T) {
		t.Parallel()
		h, _, box := mailing(t)
		b, other := h.plain(), h.plain()
		page, code := b.ask(box)
		theirs, second := other.ask(box)
		if code != second {
			if a := other.post(theirs, "code", code); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("the code of another step-up = %d", a.Code)
			}
		}
		h.clock.Advance(time.Minute)
		if a := b.post(page, "send", "yes"); a.Code != http.StatusSeeOther {
			t.Fatalf("another code after a minute = %d", a.Code)
		}
		newer := box.Take()[0].Data["code"]
		if newer != code {
			if a := b.post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("the code before the newest = %d", a.Code)
			}
		}
		h.clock.Advance(10 * time.Minute)
		if a := b.post(page, "code", newer); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("a code of ten minutes ago = %d", a.Code)
		}
		again, last := b.ask(box)
		if a := b.post(again, "code", last); a.Code != http.StatusSeeOther {
			t.Errorf("a good code = %d", a.Code)
		}
	})
	t.Run("attack 266: one who knows the password cannot fill a mailbox", func(t *testing.T) {
		t.Parallel()
		h, _, box := mailing(t)
		b := h.plain()
		for i := range 20 {
			page := b.get("/next?n=" + url.QueryEscape(strings.Repeat("x", i+1)))
			b.post(page, "send", "yes")
		}
		if n := len(box.Take()); n != 5 {
			t.Errorf("%d e-mails in no time, want 5", n)
		}
	})
}
