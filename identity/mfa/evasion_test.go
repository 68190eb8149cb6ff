package mfa_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// emails gives a person a verified address as the only one.
func emails(h *identitytest.Harness, personID, address string) {
	h.T.Helper()
	_, err := h.Person.UpdatePerson(h.T.Context(), personID, person.Edit{By: audit.Actor{ID: "admin"}, Verified: true},
		func(_ storage.Tx, d *person.Details) error {
			d.Profile.EmailAddresses = []person.EmailAddress{{Value: address, Verified: true, Primary: true}}
			return nil
		})
	if err != nil {
		h.T.Fatal(err)
	}
}

// TestStepUpEvasion covers ways around the level that the methods of a person require.
func TestStepUpEvasion(t *testing.T) {
	t.Parallel()
	t.Run("attack 222: a weak method that is right does not set back the tries of a strong one", func(t *testing.T) {
		t.Parallel()
		h, u := identitytest.NewStepping(t, 3)
		u.Features.PINEnabled = true
		owner := h.Browser()
		owner.Plain()
		secret, _, _ := owner.AddApp(identitytest.AuthenticatorPage)
		owner.SetPIN("827164")
		at := func(b *identitytest.Browser, page, method string) *identitytest.Answer {
			form := b.Get(page)
			flow, _, _ := strings.Cut(form.URL, "&")
			return b.Get(flow + "&method=" + method)
		}
		looked := 0
		for range 5 { // each round uses browsers without failed attempts
			thief, other := h.Browser(), h.Browser()
			thief.Plain()
			form := at(thief, "/next", "authenticator")
			for range 4 {
				if a := thief.Post(form, "code", "000000"); a.Code == http.StatusUnprocessableEntity {
					looked++
				}
			}
			other.Plain()
			other.Post(at(other, "/step-up?redirect=/account", "pin"), "code", "827164")
		}
		if looked > 5 {
			t.Errorf("with the PIN in between %d codes of the app are looked at, want no more than 5", looked)
		}
		h.Clock.Advance(time.Hour)
		b := h.Browser()
		b.Plain()
		form := at(b, "/next", "authenticator")
		for range 2 { // wrong codes do not stop the right one below
			b.Post(form, "code", "000000")
			h.Clock.Advance(30 * time.Second)
		}
		if a := b.Post(form, "code", h.Code(secret)); a.Code != http.StatusSeeOther {
			t.Errorf("the app after the wait = %d:\n%s", a.Code, a.Body)
		}
	})
	for name, verified := range map[string]bool{"confirmed": true, "not confirmed": false} {
		t.Run("attack 266: a password alone takes no number off that codes go to, where new ones are "+name, func(t *testing.T) {
			t.Parallel()
			h, u, _ := smsing(t)
			u.Attributes.Verification.MobileNumberEnabled = verified
			u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = true
			phones(h, "!+31612345678")
			b := h.Browser()
			b.Plain()
			a := b.Fill(b.Get("/account/profile?edit=details"), "/account/profile/contact", "kind", "phone", "do", "remove", "value", "+31612345678")
			if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
				t.Errorf("removing the number = %d to %q", a.Code, a.Header().Get("Location"))
			}
			if list := h.Details(identitytest.Demo).Profile.PhoneNumbers; len(list) != 1 {
				t.Errorf("numbers = %+v", list)
			}
			if page := b.Get(identitytest.AuthenticatorPage); identitytest.ShownSecret.MatchString(page.Body.String()) {
				t.Error("an app is set up with the password alone")
			}
		})
	}
	t.Run("attack 266: a password alone puts no other address in the place of the one that codes go to", func(t *testing.T) {
		t.Parallel()
		h, u, _ := identitytest.NewWithEmailCodes(t)
		u.Attributes.Verification.EmailEnabled = false
		b := h.Browser()
		b.Plain()
		a := b.Fill(b.Get("/account/profile?edit=details"), "/account/profile/contact", "kind", "email", "do", "add", "value", "evil@example.org")
		if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
			t.Errorf("another address = %d to %q", a.Code, a.Header().Get("Location"))
		}
	})
	t.Run("attack 266: setting up a method is no new sign-in", func(t *testing.T) {
		t.Parallel()
		h, u := identitytest.NewStepping(t, 1, identitytest.PasskeysOn)
		u.Features.PINEnabled = true
		b := h.Browser() // left open by its owner
		b.Plain()
		was, err := h.SessionOf(b)
		if err != nil {
			t.Fatal(err)
		}
		h.Clock.Advance(10 * time.Minute)
		before := h.Demand
		since := h.Clock.Now()
		h.Demand = func(r *http.Request) authn.Demand {
			d := before(r)
			d.NotBefore = since // prompt=login
			return d
		}
		form := b.Get("/next")
		h.Clock.Advance(time.Minute)
		b.SetPIN("827164")
		b.AddApp(identitytest.AuthenticatorPage)
		b.AddPasskey(identitytest.NewAuthenticator(t))
		if is, err := h.SessionOf(b); err != nil || is.Level != 3 || !is.AuthTime.Equal(was.AuthTime) {
			t.Errorf("the session has level %d and is of %v (%v), want 3 and %v", is.Level, is.AuthTime, err, was.AuthTime)
		}
		for _, target := range []string{form.URL, "/next"} {
			if a := b.Get(target); strings.HasPrefix(a.Body.String(), "signed in as ") {
				t.Errorf("%s lets in without a password", target)
			}
		}
	})
	t.Run("codes go to the number that was set up last", func(t *testing.T) {
		t.Parallel()
		h, u, box := smsing(t)
		u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
		phones(h, "!+31612345678")
		b := h.Browser()
		b.Plain()
		page := b.Get("/next")
		b.Post(page, "send", "yes")
		b.Post(page, "code", text(h, box, notify.SMSStepUpCode, "+31612345678"))
		if a := b.Post(b.Get("/account/security/remove?method=sms")); a.Code != http.StatusSeeOther {
			t.Fatalf("taking the method off = %d", a.Code)
		}
		if got := b.Level(); got != 1 {
			t.Errorf("without the method the session has level %d, want 1", got)
		}
		b.Post(b.Get(smsPage), "number", "+31687654321") // the first phone is lost
		if a := b.Post(b.Get(smsPage), "code", text(h, box, notify.SMSPhoneCode, "+31687654321")); a.Code != http.StatusSeeOther {
			t.Fatalf("the other number = %d:\n%s", a.Code, a.Body)
		}
		other := h.Browser()
		other.Plain()
		other.Post(other.Get("/next"), "send", "yes")
		text(h, box, notify.SMSStepUpCode, "+31687654321")
	})
	t.Run("attack 266: what a number has raised ends when the number goes", func(t *testing.T) {
		t.Parallel()
		h, _, box := smsing(t)
		phones(h, "!+31612345678")
		b := h.Browser()
		b.Plain()
		page := b.Get("/next")
		b.Post(page, "send", "yes")
		b.Post(page, "code", text(h, box, notify.SMSStepUpCode, "+31612345678"))
		if got := b.Level(); got != 2 {
			t.Fatalf("the session has level %d, want 2", got)
		}
		phones(h, "!+31612345678", "!+31687654321") // a second number changes nothing
		if got := b.Level(); got != 2 {
			t.Errorf("with another number the session has level %d, want 2", got)
		}
		phones(h, "!+31687654321")
		if got := b.Level(); got != 1 {
			t.Errorf("without the number the session has level %d, want 1", got)
		}
	})
	t.Run("attack 266: what a PIN has raised ends with another PIN", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithPIN(t)
		thief, owner := h.Browser(), h.Browser()
		thief.Plain()
		if a := thief.Post(thief.Get("/next"), "code", "471193"); a.Code != http.StatusSeeOther || thief.Level() != 2 {
			t.Fatalf("the PIN = %d", a.Code)
		}
		owner.Plain()
		form := owner.Get(pinLink(owner, box, pinForgot))
		if a := owner.Post(form, "pin", "827164", "again", "827164"); a.Code != http.StatusSeeOther {
			t.Fatalf("another PIN = %d:\n%s", a.Code, a.Body)
		}
		if mine, theirs := owner.Level(), thief.Level(); mine != 2 || theirs != 1 {
			t.Errorf("the sessions have levels %d and %d, want 2 and 1", mine, theirs)
		}
	})
	t.Run("attack 266: what an address has raised ends when the address goes", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithEmailCodes(t)
		b := h.Browser()
		b.Plain()
		page, code := b.Ask(box)
		b.Post(page, "code", code)
		if got := b.Level(); got != 2 {
			t.Fatalf("the session has level %d, want 2", got)
		}
		p := h.Details(identitytest.Demo)
		emails(h, p.ID, "other@example.org")
		if got := b.Level(); got != 1 {
			t.Errorf("without the address the session has level %d, want 1", got)
		}
	})
	t.Run("attack 221: of many prompts at once the phone gets one", func(t *testing.T) {
		t.Parallel()
		h, _, box := pushing(t)
		desk := h.Browser()
		desk.Plain()
		enrol(desk)
		b := h.Browser()
		b.Plain()
		form := b.Get("/next")
		var all sync.WaitGroup
		for range 64 {
			tab := b.Clone()
			all.Go(func() { tab.Post(form) })
		}
		all.Wait()
		if list := box.Take(); len(list) != 1 {
			t.Errorf("%d prompts for one step-up", len(list))
		}
	})
}

// forgetPasskeyOf removes the passkey from the record of a browser's session, as in sessions from before it was
// recorded.
func forgetPasskeyOf(h *identitytest.Harness, b *identitytest.Browser) {
	h.T.Helper()
	s, err := h.SessionOf(b)
	if err != nil {
		h.T.Fatal(err)
	}
	table := storage.NewTable[map[int]any]("identity_session")
	err = h.Store.Update(h.T.Context(), func(tx storage.Tx) error {
		rec, err := table.Get(tx, s.SessionID)
		if err != nil {
			return err
		}
		if rec[23] == nil {
			h.T.Error("the session does not say which passkey it is by")
		}
		delete(rec, 23)
		return table.Put(tx, s.SessionID, rec, h.Clock.Now().Add(24*time.Hour))
	})
	if err != nil {
		h.T.Fatal(err)
	}
}

// TestPasskeyGone: removing a passkey lowers the sessions that it raised, but not those raised by another passkey.
func TestPasskeyGone(t *testing.T) {
	t.Parallel()
	h, lost := identitytest.WithPasskey(t)
	second := identitytest.NewAuthenticator(t)
	owner := h.Browser()
	if a := owner.TryPasskey(lost); a.Code != http.StatusSeeOther {
		t.Fatalf("the passkey = %d", a.Code)
	}
	owner.AddPasskey(second)
	thief, stepped, phone := h.Browser(), h.Browser(), h.Browser()
	if a := phone.TryPasskey(second); a.Code != http.StatusSeeOther {
		t.Fatalf("the second passkey = %d", a.Code)
	}
	if a := thief.TryPasskey(lost); a.Code != http.StatusSeeOther {
		t.Fatalf("the passkey of the thief = %d", a.Code)
	}
	stepped.SignIn(identitytest.Demo, identitytest.DemoPassword)
	f := stepped.ReadPasskeyForm(stepped.Get(identitytest.AddPasskeyPage))
	if a := stepped.AnswerPasskey(f, lost.Use(f.Options)); a.Code != http.StatusSeeOther {
		t.Fatalf("the step-up = %d:\n%s", a.Code, a.Body)
	}
	before := h.Browser() // a session from before the passkey was recorded
	if a := before.TryPasskey(second); a.Code != http.StatusSeeOther {
		t.Fatalf("the passkey = %d", a.Code)
	}
	for i, b := range []*identitytest.Browser{owner, thief, stepped, phone, before} {
		if got := b.Level(); got != 3 {
			t.Fatalf("session %d has level %d, want 3", i+1, got)
		}
	}
	forgetPasskeyOf(h, before)
	page := owner.Get("/account/security")
	link := identitytest.PasskeyRemoval.FindString(page.Body.String())
	if a := owner.Post(owner.Get(link)); a.Code != http.StatusSeeOther {
		t.Fatalf("removing = %d:\n%s", a.Code, a.Body)
	}
	if a := h.Browser().TryPasskey(lost); a.Code != http.StatusUnprocessableEntity {
		t.Fatalf("the passkey that was removed = %d", a.Code)
	}
	// The owner keeps level 3: adding the second passkey raised that session too.
	for i, tt := range []struct {
		b    *identitytest.Browser
		want int
	}{{owner, 3}, {thief, 1}, {stepped, 1}, {phone, 3}, {before, 1}} {
		if got := tt.b.Level(); got != tt.want {
			t.Errorf("after the removal session %d has level %d, want %d", i+1, got, tt.want)
		}
	}
	owner = h.Browser()
	if a := owner.TryPasskey(second); a.Code != http.StatusSeeOther || owner.Level() != 3 {
		t.Errorf("the other passkey = %d", a.Code)
	}
	if err := h.RemoveMethod("passkey"); err != nil {
		t.Fatal(err)
	}
	if got := owner.Level(); got != 1 {
		t.Errorf("without passkeys the session has level %d, want 1", got)
	}
	h.CheckInvariants()
}

// TestSuspectPasskeyStepUp: a suspect passkey is not asked for, and does not prevent other methods.
func TestSuspectPasskeyStepUp(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2, identitytest.PasskeysOn)
	u.StepUp.Strategy = "STRONGEST_AVAILABLE"
	u.Features.PINEnabled = true
	k := identitytest.NewAuthenticator(t)
	set := h.Browser()
	set.Plain()
	set.SetPIN("827164")
	set.AddPasskey(k)
	twin := k.Bent(func(*identitytest.Authenticator) {})
	b := h.Browser()
	b.Plain()
	f := b.ReadPasskeyForm(b.Get("/next"))
	if a := b.AnswerPasskey(f, k.Use(f.Options)); a.Code != http.StatusSeeOther {
		t.Fatalf("the passkey = %d:\n%s", a.Code, a.Body)
	}
	b = h.Browser()
	b.Plain()
	f = b.ReadPasskeyForm(b.Get("/next"))
	if a := b.AnswerPasskey(f, twin.Use(f.Options)); a.Code >= 500 || b.Level() != 1 {
		t.Fatalf("its twin = %d", a.Code)
	}
	page := b.Get("/next")
	if !strings.Contains(page.URL, "/step-up?flow=") || !strings.Contains(page.Body.String(), "your PIN") {
		t.Errorf("beside a suspect passkey the PIN is not offered: %d %s\n%s", page.Code, page.URL, page.Body)
	}
	if a := b.Post(page, "code", "827164"); a.Code != http.StatusSeeOther || b.Level() != 2 {
		t.Errorf("the PIN = %d", a.Code)
	}
	if a := b.Get(identitytest.AddPasskeyPage); strings.Contains(a.Body.String(), `data-passkey="create"`) {
		t.Error("a suspect passkey makes it easier to add another one")
	}
}

// TestStepUpFormOfAnotherPage: a method with its own page cannot be answered at the page for codes.
func TestStepUpFormOfAnotherPage(t *testing.T) {
	t.Parallel()
	h, k := identitytest.WithPasskey(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	page := b.Get(identitytest.AddPasskeyPage)
	f := b.ReadPasskeyForm(page)
	_, flow, _ := strings.Cut(page.URL, "?")
	before := h.Events()["login.StepUpFailedEvent"]
	a := b.Do(http.MethodPost, "/step-up?"+flow+"&method=passkey", "csrf="+f.CSRF+"&code={}")
	if a.Code != http.StatusSeeOther || h.Events()["login.StepUpFailedEvent"] != before || b.Level() != 1 {
		t.Errorf("a passkey at the page for codes = %d:\n%s", a.Code, a.Body)
	}
	if a := b.AnswerPasskey(f, k.Use(f.Options)); a.Code != http.StatusSeeOther || b.Level() != 3 {
		t.Errorf("afterwards at its own = %d", a.Code)
	}
}

// TestInitialStepUpBesideGiven: people can set up their first method even where codes can be delivered to everybody.
func TestInitialStepUpBesideGiven(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	u.Features.ExternallyDeliveredCodeStepUp = settings.ExternallyDeliveredCodeStepUp{Enabled: true, ExpirationTime: 600}
	b := h.Browser()
	b.Plain()
	page := b.Get("/next").Body.String()
	if !strings.Contains(page, "/account/security/authenticator?flow=") || !strings.Contains(page, "method=delivered") {
		t.Fatalf("who has no method yet is offered:\n%s", page)
	}
	if a := b.Get(b.Get("/next").URL + "&method=delivered"); !strings.Contains(a.Body.String(), "&amp;choose=1") {
		t.Errorf("no way back from the given code:\n%s", a.Body)
	}
	b.AddApp(identitytest.AuthenticatorPage)
	b = h.Browser()
	b.Plain()
	if page := b.Get(b.Get("/next").URL + "&choose=1").Body.String(); strings.Contains(page, "/account/security/") {
		t.Errorf("who has one is offered to set up another:\n%s", page)
	}
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = false
	if err := h.RemoveMethod("authenticator"); err != nil {
		t.Fatal(err)
	}
	if page := b.Get("/next").Body.String(); strings.Contains(page, "/account/security/") || !strings.Contains(page, "you were given for") {
		t.Errorf("where nobody sets up a first one on the way:\n%s", page)
	}
}
