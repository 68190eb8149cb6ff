package identity_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/enrol"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// newTexting is newInviting with text messages, where invited persons must type a code from one.
func newTexting(t *testing.T) *inviting {
	t.Helper()
	x := newInviting(t)
	x.texts = new(notifytest.Texts)
	x.start()
	x.u.Features.SMSEnabled, x.u.Features.InvitationVerificationRequired.ViaSMSEnabled = true, true
	return x
}

// text returns the code of the only message that was sent, and the number it went to.
func (x *inviting) text() (code, to string) {
	x.t.Helper()
	list := x.texts.Take()
	if len(list) != 1 {
		x.t.Fatalf("%d text messages, want 1", len(list))
	}
	return list[0].Data["code"], list[0].To
}

func TestInvitationBySMS(t *testing.T) {
	t.Parallel()
	x := newTexting(t)
	made := x.invite(enrol.NewInvitation{Email: guest, PhoneNumbers: []string{"0031 6 12345678"}})
	b := x.browser()
	page := b.get(x.link())
	if body := page.Body.String(); page.url != "/invitation/check" || strings.Contains(body, "12345678") || !strings.Contains(body, "678") {
		t.Fatalf("the link leads to %s, want a page that names the end of the number:\n%s", page.url, body)
	}
	if n := len(x.texts.Take()); n != 0 {
		t.Errorf("looking at the page sent %d messages", n)
	}
	a := b.post(page, "send", "yes")
	code, to := x.text()
	if a.Code != http.StatusSeeOther || to != "+31612345678" || len(code) != 6 {
		t.Fatalf("the button = %d, a code %q to %s", a.Code, code, to)
	}
	page = b.get(a.Header().Get("Location"))
	if !strings.Contains(page.Body.String(), `autocomplete="one-time-code"`) {
		t.Errorf("no field for the code:\n%s", page.Body)
	}
	if a := b.post(page, "send", "yes"); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") != "60" {
		t.Errorf("another code at once = %d, want 429", a.Code)
	}
	if a := b.post(page, "answer", "000000"); a.Code != http.StatusUnprocessableEntity && code != "000000" {
		t.Errorf("a wrong code = %d, want 422", a.Code)
	}
	if a := b.post(page, "answer", code); a.Header().Get("Location") != "/invitation" {
		t.Fatalf("the code = %d to %q\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if a := b.post(b.get("/invitation"), "password", guestPassword); a.Code != http.StatusSeeOther {
		t.Fatalf("accepting = %d", a.Code)
	}
	err := x.store.View(t.Context(), func(tx storage.Tx) error {
		p, err := x.Person.Profile(tx, made.PersonID)
		if err == nil && !p.PhoneNumbers[0].Verified {
			t.Error("the number that got the code is not verified")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestInvitationSMSNeeds: without text messages, or a number that they can be sent to, this check is not offered.
func TestInvitationSMSNeeds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		number string
		change func(*inviting)
	}{
		"switched off":         {"+31612345678", func(x *inviting) { x.u.Features.SMSEnabled = false }},
		"nothing to send with": {"+31612345678", func(x *inviting) { x.texts = nil; x.start() }},
		"a national number":    {"06 12345678", func(*inviting) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTexting(t)
			tt.change(x)
			x.invite(enrol.NewInvitation{Email: guest, PhoneNumbers: []string{tt.number}})
			if page := x.browser().get(x.link()); !strings.Contains(page.Body.String(), "Contact the person who invited you") || strings.Contains(page.Body.String(), `name="send"`) {
				t.Errorf("the page says\n%s", page.Body)
			}
		})
	}
}

func TestInvitationSMSAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 267: a code of one browser in another", func(t *testing.T) {
		t.Parallel()
		x := newTexting(t)
		x.invite(enrol.NewInvitation{Email: guest, PhoneNumbers: []string{"+31612345678"}})
		link := x.link()
		b, other := x.browser(), x.browser()
		b.post(b.get(link), "send", "yes")
		code, _ := x.text()
		page := other.get(link)
		if a := other.post(page, "answer", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code of another browser = %d, want 422", a.Code)
		}
		if a := b.post(b.get("/invitation/check"), "answer", code); a.Header().Get("Location") != "/invitation" {
			t.Errorf("the code where it was asked for = %d", a.Code)
		}
	})
	t.Run("attack 267: filling a telephone with codes", func(t *testing.T) {
		t.Parallel()
		x := newTexting(t)
		x.invite(enrol.NewInvitation{Email: guest, PhoneNumbers: []string{"+31612345678"}})
		link := x.link()
		sent := 0
		for range 20 {
			b := x.browser() // each gets its own code
			b.post(b.get(link), "send", "yes")
			sent += len(x.texts.Take())
		}
		if sent != 5 {
			t.Errorf("%d messages at once, want 5", sent)
		}
	})
	t.Run("attack 267: guessing, with a new code each time", func(t *testing.T) {
		t.Parallel()
		x := newTexting(t)
		x.invite(enrol.NewInvitation{Email: guest, PhoneNumbers: []string{"+31612345678"}})
		b := x.browser()
		page := b.get(x.link())
		for i := range 5 {
			b.post(page, "send", "yes")
			if a := b.post(page, "answer", "12345x"); i == 4 && a.Code != http.StatusForbidden {
				t.Errorf("the fifth wrong code = %d, want to be locked", a.Code)
			}
			x.clock.Advance(time.Minute)
		}
		x.texts.Take()
		if a := b.post(page, "send", "yes"); a.Code != http.StatusForbidden || len(x.texts.Take()) != 0 {
			t.Errorf("another code, once locked = %d, want 403 and no message", a.Code)
		}
	})
}
