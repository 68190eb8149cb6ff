package invitation_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// newTexting is newInviting with text messages, where invited persons must type a code from one.
func newTexting(t *testing.T) *identitytest.Inviting {
	t.Helper()
	x := identitytest.NewInviting(t)
	x.Texts = new(notifytest.Texts)
	x.Start()
	x.U.Features.SMSEnabled, x.U.Features.InvitationVerificationRequired.ViaSMSEnabled = true, true
	return x
}

// text returns the code of the only message that was sent, and the number it went to.
func text(x *identitytest.Inviting) (code, to string) {
	x.T.Helper()
	list := x.Texts.Take()
	if len(list) != 1 {
		x.T.Fatalf("%d text messages, want 1", len(list))
	}
	return list[0].Data["code"], list[0].To
}

func TestInvitationBySMS(t *testing.T) {
	t.Parallel()
	x := newTexting(t)
	made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest, PhoneNumbers: []string{"0031 6 12345678"}})
	b := x.Browser()
	page := b.Get(x.Link())
	if body := page.Body.String(); page.URL != "/invitation/check" || strings.Contains(body, "12345678") || !strings.Contains(body, "678") {
		t.Fatalf("the link leads to %s, want a page that names the end of the number:\n%s", page.URL, body)
	}
	if n := len(x.Texts.Take()); n != 0 {
		t.Errorf("looking at the page sent %d messages", n)
	}
	a := b.Post(page, "send", "yes")
	code, to := text(x)
	if a.Code != http.StatusSeeOther || to != "+31612345678" || len(code) != 6 {
		t.Fatalf("the button = %d, a code %q to %s", a.Code, code, to)
	}
	page = b.Get(a.Header().Get("Location"))
	if !strings.Contains(page.Body.String(), `autocomplete="one-time-code"`) {
		t.Errorf("no field for the code:\n%s", page.Body)
	}
	if a := b.Post(page, "send", "yes"); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") != "60" {
		t.Errorf("another code at once = %d, want 429", a.Code)
	}
	if a := b.Post(page, "answer", "000000"); a.Code != http.StatusUnprocessableEntity && code != "000000" {
		t.Errorf("a wrong code = %d, want 422", a.Code)
	}
	if a := b.Post(page, "answer", code); a.Header().Get("Location") != "/invitation" {
		t.Fatalf("the code = %d to %q\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if a := b.Post(b.Get("/invitation"), "password", identitytest.GuestPassword); a.Code != http.StatusSeeOther {
		t.Fatalf("accepting = %d", a.Code)
	}
	err := x.Store.View(t.Context(), func(tx storage.Tx) error {
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
		change func(*identitytest.Inviting)
	}{
		"switched off":         {"+31612345678", func(x *identitytest.Inviting) { x.U.Features.SMSEnabled = false }},
		"nothing to send with": {"+31612345678", func(x *identitytest.Inviting) { x.Texts = nil; x.Start() }},
		"a national number":    {"06 12345678", func(*identitytest.Inviting) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTexting(t)
			tt.change(x)
			x.Invite(invitation.NewInvitation{Email: identitytest.Guest, PhoneNumbers: []string{tt.number}})
			if page := x.Browser().Get(x.Link()); !strings.Contains(page.Body.String(), "Contact the person who invited you") ||
				strings.Contains(page.Body.String(), `name="send"`) {
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
		x.Invite(invitation.NewInvitation{Email: identitytest.Guest, PhoneNumbers: []string{"+31612345678"}})
		link := x.Link()
		b, other := x.Browser(), x.Browser()
		b.Post(b.Get(link), "send", "yes")
		code, _ := text(x)
		page := other.Get(link)
		if a := other.Post(page, "answer", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code of another browser = %d, want 422", a.Code)
		}
		if a := b.Post(b.Get("/invitation/check"), "answer", code); a.Header().Get("Location") != "/invitation" {
			t.Errorf("the code where it was asked for = %d", a.Code)
		}
	})
	t.Run("attack 267: filling a telephone with codes", func(t *testing.T) {
		t.Parallel()
		x := newTexting(t)
		x.Invite(invitation.NewInvitation{Email: identitytest.Guest, PhoneNumbers: []string{"+31612345678"}})
		link := x.Link()
		sent := 0
		for range 20 {
			b := x.Browser() // each gets its own code
			b.Post(b.Get(link), "send", "yes")
			sent += len(x.Texts.Take())
		}
		if sent != 5 {
			t.Errorf("%d messages at once, want 5", sent)
		}
	})
	t.Run("attack 267: guessing, with a new code each time", func(t *testing.T) {
		t.Parallel()
		x := newTexting(t)
		x.Invite(invitation.NewInvitation{Email: identitytest.Guest, PhoneNumbers: []string{"+31612345678"}})
		b := x.Browser()
		page := b.Get(x.Link())
		for i := range 5 {
			b.Post(page, "send", "yes")
			if a := b.Post(page, "answer", "12345x"); i == 4 && a.Code != http.StatusForbidden {
				t.Errorf("the fifth wrong code = %d, want to be locked", a.Code)
			}
			x.Clock.Advance(time.Minute)
		}
		x.Texts.Take()
		if a := b.Post(page, "send", "yes"); a.Code != http.StatusForbidden || len(x.Texts.Take()) != 0 {
			t.Errorf("another code, once locked = %d, want 403 and no message", a.Code)
		}
	})
}
