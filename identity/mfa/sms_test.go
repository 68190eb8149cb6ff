package mfa_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

const smsPage = "/account/security/sms"

// smsing returns the harness of stepping for level 2, with codes by text message as the only method.
func smsing(t *testing.T) (*identitytest.Harness, *settings.Units, *notifytest.Texts) {
	t.Helper()
	h, u := identitytest.NewStepping(t, 2)
	box := &notifytest.Texts{}
	h.Texts = box
	h.Start()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	u.Features.SMSEnabled = true
	return h, u, box
}

// phones gives the demo person telephone numbers. Numbers that begin with ! are verified.
func phones(h *identitytest.Harness, numbers ...string) {
	h.T.Helper()
	p, err := h.Person.Person(h.T.Context(), identitytest.Demo)
	if err != nil {
		h.T.Fatal(err)
	}
	_, err = h.Person.UpdatePerson(h.T.Context(), p.ID, person.Edit{By: audit.Actor{ID: "admin"}, Verified: true},
		func(_ storage.Tx, d *person.Details) error {
			d.Profile.PhoneNumbers = nil
			for _, n := range numbers {
				value, verified := strings.CutPrefix(n, "!")
				d.Profile.PhoneNumbers = append(d.Profile.PhoneNumbers, person.PhoneNumber{Value: value, Verified: verified})
			}
			return nil
		})
	if err != nil {
		h.T.Fatal(err)
	}
}

// text returns the code in the only text message that was sent.
func text(h *identitytest.Harness, box *notifytest.Texts, kind notify.Kind, to string) string {
	h.T.Helper()
	list := box.Take()
	if len(list) != 1 || list[0].Kind != kind || list[0].To != to || len(list[0].Data["code"]) != 6 ||
		!list[0].Until.Equal(list[0].At.Add(10*time.Minute)) {
		h.T.Fatalf("sent: %+v, want one %s to %s", list, kind, to)
	}
	return list[0].Data["code"]
}

func TestSMSCode(t *testing.T) {
	t.Parallel()
	h, u, box := smsing(t)
	phones(h, "+31 6 87654321", "!+31 6 12345678")
	b := h.Plain()
	page := b.Get("/next")
	if !strings.Contains(page.Body.String(), "•••\u00a0678") || strings.Contains(page.Body.String(), "345678") {
		t.Errorf("before a code is sent: %s", page.Body)
	}
	if a := b.Post(page, "send", "yes"); a.Code != http.StatusSeeOther {
		t.Fatalf("asking for a code = %d:\n%s", a.Code, a.Body)
	}
	code := text(h, box, notify.SMSStepUpCode, "+31612345678")
	if a := b.Post(page, "send", "yes"); a.Code != http.StatusTooManyRequests || len(box.Take()) != 0 {
		t.Errorf("another code at once = %d", a.Code)
	}
	if a := b.Post(b.Get(page.URL), "code", code); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Errorf("the code = %d:\n%s", a.Code, a.Body)
	}
	h.WantLevel(b, 2)
	if got := identitytest.Words(b.Get("/account/security")); !strings.Contains(got, "Last used on 21 November 2026, 12:00 UTC") {
		t.Errorf("the page about security does not say when a code was last used:\n%s", got)
	}

	// Each switch makes level 2 unreachable.
	other := h.Plain()
	u.StepUp.AuthenticationMethods.SMSAuthenticationLevel = 1
	if a := other.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with codes of level 1 = %d", a.Code)
	}
	u.StepUp.AuthenticationMethods.SMSAuthenticationLevel = 2
	u.Features.SMSEnabled = false
	if a := other.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with text messages switched off = %d", a.Code)
	}
	if a := other.Get(smsPage); a.Code != http.StatusNotFound {
		t.Errorf("the set-up with text messages switched off = %d", a.Code)
	}
	u.Features.SMSEnabled = true
	h.Texts = nil
	h.Start()
	if a := other.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with nothing to send by = %d", a.Code)
	}
	if a := other.Get(smsPage); a.Code != http.StatusNotFound {
		t.Errorf("the set-up with nothing to send by = %d", a.Code)
	}
	h.CheckInvariants()
}

// TestSMSSetUp: the code that was sent to a number adds the number to the person and raises the session. The method can
// be removed again.
func TestSMSSetUp(t *testing.T) {
	t.Parallel()
	h, _, box := smsing(t)
	phones(h, "0031 6 12345678")
	b := h.Plain()
	if a := b.Get("/next"); !strings.Contains(a.Body.String(), smsPage+"?flow=") {
		t.Fatalf("level 2 with a number that is not verified = %d:\n%s", a.Code, a.Body)
	}
	page := b.Get(smsPage)
	if !strings.Contains(page.Body.String(), `value="&#43;31612345678"`) {
		t.Errorf("the form does not begin with the number of the profile:\n%s", page.Body)
	}
	for _, bad := range []string{"06 12345678", "", "+31 6 12345678, +31 6 87654321", "+31\r\n612345678"} {
		if a := b.Post(page, "number", bad); a.Code != http.StatusUnprocessableEntity || len(box.Take()) != 0 ||
			!strings.Contains(a.Body.String(), "aria-invalid") {
			t.Errorf("the number %q = %d:\n%s", bad, a.Code, a.Body)
		}
	}
	if a := b.Post(page, "number", "+31 (0)6 1234 5678"); a.Code != http.StatusSeeOther || a.Header().Get("Location") != smsPage {
		t.Fatalf("a number = %d:\n%s", a.Code, a.Body)
	}
	code := text(h, box, notify.SMSPhoneCode, "+31612345678")
	page = b.Get(smsPage)
	wrong := identitytest.WrongFor(code)
	if a := b.Post(page, "code", wrong); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "code is incorrect") {
		t.Errorf("a wrong code = %d:\n%s", a.Code, a.Body)
	}
	if a := b.Post(page, "code", code); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/account/security" {
		t.Fatalf("the code = %d:\n%s", a.Code, a.Body)
	}
	h.WantLevel(b, 2)
	p, err := h.Person.Person(t.Context(), identitytest.Demo)
	if err != nil {
		t.Fatal(err)
	}
	var d person.Details
	err = h.Store.View(t.Context(), func(tx storage.Tx) (err error) { d, err = h.Person.Details(tx, p.ID); return err })
	if err != nil || len(d.Profile.PhoneNumbers) != 1 || !d.Profile.PhoneNumbers[0].Verified ||
		d.Profile.PhoneNumbers[0].Value != "0031 6 12345678" {
		t.Errorf("the profile has %+v (%v), want its number verified", d.Profile.PhoneNumbers, err)
	}
	if a := b.Get("/account/security"); !strings.Contains(a.Body.String(), "•••\u00a0678") {
		t.Errorf("the page about security:\n%s", a.Body)
	}
	if n := h.Events()["person.StepUpMethodAddedEvent"]; n != 1 {
		t.Errorf("%d events of a method that was added", n)
	}
	// After the removal the method has to be set up again, although the number is known.
	if a := b.Post(b.Get("/account/security/remove?method=sms")); a.Code != http.StatusSeeOther {
		t.Fatalf("removing = %d", a.Code)
	}
	other := h.Plain()
	if a := other.Get("/next"); !strings.Contains(a.Body.String(), "Set up a second way") {
		t.Errorf("level 2 after the removal = %d:\n%s", a.Code, a.Body)
	}
	h.CheckInvariants()
}

func TestSMSAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 221: of a hundred tries of a text message's code at once five are looked at", func(t *testing.T) {
		t.Parallel()
		h, _, box := smsing(t)
		phones(h, "!+31612345678")
		b := h.Plain()
		page := b.Get("/next")
		b.Post(page, "send", "yes")
		code := text(h, box, notify.SMSStepUpCode, "+31612345678")
		wrong := identitytest.WrongFor(code)
		b.Hundred(page, wrong)
		h.Clock.Advance(time.Minute)
		if a := b.Post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code after five wrong tries = %d, want it dead", a.Code)
		}
	})
	t.Run("attack 222: step-up methods share one counter, and with the password", func(t *testing.T) {
		t.Parallel()
		h, u, box := smsing(t)
		phones(h, "!+31612345678")
		u.Features.ExternallyDeliveredCodeStepUp = settings.ExternallyDeliveredCodeStepUp{Enabled: true, ExpirationTime: 600}
		b := h.Plain()
		page := b.Get("/next")
		flow := page.URL[:strings.Index(page.URL+"&", "&")]
		sms, delivered := b.Get(flow+"&method=sms"), b.Get(flow+"&method=delivered")
		b.Post(sms, "send", "yes")
		code := text(h, box, notify.SMSStepUpCode, "+31612345678")
		for i := range 5 {
			page := delivered
			if i%2 == 1 {
				page = sms
			}
			if a := b.Post(page, "code", "AAAA-AAAA"); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("wrong code %d = %d", i+1, a.Code)
			}
		}
		if a := b.Post(sms, "code", code); a.Code != http.StatusTooManyRequests {
			t.Errorf("the right code of one method after five wrong ones of two = %d, want 429", a.Code)
		}
		// Signing in with the password does not reset the counter.
		other := h.Plain()
		if a := other.Post(other.Get(other.Get("/next").URL+"&method=delivered"), "code", "AAAA-AAAA"); a.Code != http.StatusTooManyRequests {
			t.Errorf("another browser after a right password = %d, want 429", a.Code)
		}
		h.Clock.Advance(time.Minute)
		if a := b.Post(sms, "code", code); a.Code != http.StatusSeeOther {
			t.Errorf("the right code after the wait = %d", a.Code)
		}
	})
	t.Run("attack 223: whoever uses up the codes of one method leaves the others, and no wait is for ever", func(t *testing.T) {
		t.Parallel()
		h, u, box := smsing(t)
		phones(h, "!+31612345678")
		u.Features.PINEnabled = true
		b := h.Plain()
		page := b.Get("/next")
		b.Post(page, "send", "yes")
		b.Post(b.Get(page.URL), "code", text(h, box, notify.SMSStepUpCode, "+31612345678"))
		if a := b.Post(b.Get("/account/security/pin"), "pin", "471193", "again", "471193"); a.Code != http.StatusSeeOther {
			t.Fatalf("a PIN = %d", a.Code)
		}
		thief := h.Browser()
		thief.Address = "198.51.100.9:1"
		thief.Plain()
		first := thief.Get("/next")
		flow := first.URL[:strings.Index(first.URL+"&", "&")]
		sent := 0
		for range 12 {
			h.Clock.Advance(61 * time.Second)
			thief.Post(thief.Get(flow+"&method=sms"), "send", "yes")
			sent += len(box.Take())
		}
		if sent > 8 {
			t.Errorf("%d text messages in twelve minutes", sent)
		}
		owner := h.Plain()
		p := owner.Get("/next")
		p = owner.Get(p.URL[:strings.Index(p.URL+"&", "&")] + "&method=pin")
		if a := owner.Post(p, "code", "471193"); a.Code != http.StatusSeeOther {
			t.Errorf("the owner's PIN = %d, want it to open", a.Code)
		}
		h.Clock.Advance(time.Hour)
		later := h.Plain()
		p = later.Get("/next")
		p = later.Get(p.URL[:strings.Index(p.URL+"&", "&")] + "&method=sms")
		later.Post(p, "send", "yes")
		if len(box.Take()) != 1 {
			t.Error("no code an hour later")
		}
	})
	t.Run("attack 266: a set-up page, its code and its number belong to one session of a level that suffices", func(t *testing.T) {
		t.Parallel()
		h, _, box := smsing(t)
		b := h.Plain()
		b.Post(b.Get(smsPage), "number", "+31612345678")
		code := text(h, box, notify.SMSPhoneCode, "+31612345678")
		other := h.Plain()
		h.Clock.Advance(time.Minute)
		other.Post(other.Get(smsPage), "number", "+31687654321")
		text(h, box, notify.SMSPhoneCode, "+31687654321")
		if a := other.Post(other.Get(smsPage), "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code of another session for another number = %d", a.Code)
		}
		if a := b.Post(b.Get(smsPage), "code", code); a.Code != http.StatusSeeOther {
			t.Fatalf("the code = %d", a.Code)
		}
		// From now on a set-up requires a step-up with the method of the person.
		if a := other.Get(smsPage); !strings.HasPrefix(a.URL, "/step-up") && a.URL != "/account/security" {
			t.Errorf("the set-up with a password alone = %d %s", a.Code, a.URL)
		}
		if a := h.Browser().Get(smsPage); !strings.HasPrefix(a.URL, "/sign-in") {
			t.Errorf("the set-up without a sign-in = %d %s", a.Code, a.URL)
		}
		if a := other.Do(http.MethodPost, smsPage, "number=%2B31687654321"); a.Code < 300 || len(box.Take()) != 0 {
			t.Errorf("a POST without the form's token = %d", a.Code)
		}
	})
	t.Run("attack 266: a code goes to the number of the moment, and is worth nothing once the number is another", func(t *testing.T) {
		t.Parallel()
		h, _, box := smsing(t)
		phones(h, "!+31612345678")
		b := h.Plain()
		page := b.Get("/next")
		b.Post(page, "send", "yes")
		code := text(h, box, notify.SMSStepUpCode, "+31612345678")
		phones(h, "!+31687654321")
		if a := b.Post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code that went to the number of before = %d", a.Code)
		}
	})
}
