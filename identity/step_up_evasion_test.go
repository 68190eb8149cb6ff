package identity_test

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

var passkeyRemoval = regexp.MustCompile(`/account/security/passkeys/remove\?id=[0-9A-Za-z_-]+`)

// emails gives a person a verified address as the only one.
func (h *harness) emails(personID, address string) {
	h.t.Helper()
	_, err := h.Person.UpdatePerson(h.t.Context(), personID, person.Edit{By: event.Actor{ID: "admin"}, Verified: true}, func(_ storage.Tx, d *person.Details) error {
		d.Profile.EmailAddresses = []person.EmailAddress{{Value: address, Verified: true, Primary: true}}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// level returns the level of a browser's session.
func (b *browser) level() int {
	b.h.t.Helper()
	s, err := b.h.session(b)
	if err != nil {
		b.h.t.Fatal(err)
	}
	return s.Level
}

// TestStepUpEvasion covers ways around the level that the methods of a person require.
func TestStepUpEvasion(t *testing.T) {
	t.Parallel()
	t.Run("attack 222: a weak method that is right does not set back the tries of a strong one", func(t *testing.T) {
		t.Parallel()
		h, u := stepping(t, 3)
		u.Features.PINEnabled = true
		owner := h.browser()
		owner.plain()
		secret, _, _ := owner.app(authenticatorPage)
		owner.pin("827164")
		at := func(b *browser, page, method string) *answer {
			form := b.get(page)
			flow, _, _ := strings.Cut(form.url, "&")
			return b.get(flow + "&method=" + method)
		}
		looked := 0
		for range 5 { // each round uses browsers without failed attempts
			thief, other := h.browser(), h.browser()
			thief.plain()
			form := at(thief, "/next", "authenticator")
			for range 4 {
				if a := thief.post(form, "code", "000000"); a.Code == http.StatusUnprocessableEntity {
					looked++
				}
			}
			other.plain()
			other.post(at(other, "/step-up?redirect=/account", "pin"), "code", "827164")
		}
		if looked > 5 {
			t.Errorf("with the PIN in between %d codes of the app are looked at, want no more than 5", looked)
		}
		h.clock.Advance(time.Hour)
		b := h.browser()
		b.plain()
		form := at(b, "/next", "authenticator")
		for range 2 { // wrong codes do not stop the right one below
			b.post(form, "code", "000000")
			h.clock.Advance(30 * time.Second)
		}
		if a := b.post(form, "code", h.code(secret)); a.Code != http.StatusSeeOther {
			t.Errorf("the app after the wait = %d:\n%s", a.Code, a.Body)
		}
	})
	for name, verified := range map[string]bool{"confirmed": true, "not confirmed": false} {
		t.Run("attack 266: a password alone takes no number off that codes go to, where new ones are "+name, func(t *testing.T) {
			t.Parallel()
			h, u, _ := smsing(t)
			u.Attributes.Verification.MobileNumberEnabled = verified
			u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = true
			h.phones("!+31612345678")
			b := h.browser()
			b.plain()
			a := b.fill(b.get("/account/profile?edit=details"), "/account/profile/contact", "kind", "phone", "do", "remove", "value", "+31612345678")
			if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
				t.Errorf("removing the number = %d to %q", a.Code, a.Header().Get("Location"))
			}
			if list := h.details(demo).Profile.PhoneNumbers; len(list) != 1 {
				t.Errorf("numbers = %+v", list)
			}
			if page := b.get(authenticatorPage); shownSecret.MatchString(page.Body.String()) {
				t.Error("an app is set up with the password alone")
			}
		})
	}
	t.Run("attack 266: a password alone puts no other address in the place of the one that codes go to", func(t *testing.T) {
		t.Parallel()
		h, u, _ := mailing(t)
		u.Attributes.Verification.EmailEnabled = false
		b := h.browser()
		b.plain()
		a := b.fill(b.get("/account/profile?edit=details"), "/account/profile/contact", "kind", "email", "do", "add", "value", "evil@example.org")
		if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
			t.Errorf("another address = %d to %q", a.Code, a.Header().Get("Location"))
		}
	})
	t.Run("attack 266: setting up a method is no new sign-in", func(t *testing.T) {
		t.Parallel()
		h, u := stepping(t, 1, passkeysOn)
		u.Features.PINEnabled = true
		b := h.browser() // left open by its owner
		b.plain()
		was, err := h.session(b)
		if err != nil {
			t.Fatal(err)
		}
		h.clock.Advance(10 * time.Minute)
		before := h.demand
		since := h.clock.Now()
		h.demand = func(r *http.Request) login.Demand {
			d := before(r)
			d.NotBefore = since // prompt=login
			return d
		}
		form := b.get("/next")
		h.clock.Advance(time.Minute)
		b.pin("827164")
		b.app(authenticatorPage)
		b.addPasskey(newToken(t))
		if is, err := h.session(b); err != nil || is.Level != 3 || !is.AuthTime.Equal(was.AuthTime) {
			t.Errorf("the session has level %d and is of %v (%v), want 3 and %v", is.Level, is.AuthTime, err, was.AuthTime)
		}
		for _, target := range []string{form.url, "/next"} {
			if a := b.get(target); strings.HasPrefix(a.Body.String(), "signed in as ") {
				t.Errorf("%s lets in without a password", target)
			}
		}
	})
	t.Run("codes go to the number that was set up last", func(t *testing.T) {
		t.Parallel()
		h, u, box := smsing(t)
		u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
		h.phones("!+31612345678")
		b := h.browser()
		b.plain()
		page := b.get("/next")
		b.post(page, "send", "yes")
		b.post(page, "code", h.text(box, notify.SMSStepUpCode, "+31612345678"))
		if a := b.post(b.get("/account/security/remove?method=sms")); a.Code != http.StatusSeeOther {
			t.Fatalf("taking the method off = %d", a.Code)
		}
		if got := b.level(); got != 1 {
			t.Errorf("without the method the session has level %d, want 1", got)
		}
		b.post(b.get(smsPage), "number", "+31687654321") // the first phone is lost
		if a := b.post(b.get(smsPage), "code", h.text(box, notify.SMSPhoneCode, "+31687654321")); a.Code != http.StatusSeeOther {
			t.Fatalf("the other number = %d:\n%s", a.Code, a.Body)
		}
		other := h.browser()
		other.plain()
		other.post(other.get("/next"), "send", "yes")
		h.text(box, notify.SMSStepUpCode, "+31687654321")
	})
	t.Run("attack 266: what a number has raised ends when the number goes", func(t *testing.T) {
		t.Parallel()
		h, _, box := smsing(t)
		h.phones("!+31612345678")
		b := h.browser()
		b.plain()
		page := b.get("/next")
		b.post(page, "send", "yes")
		b.post(page, "code", h.text(box, notify.SMSStepUpCode, "+31612345678"))
		if got := b.level(); got != 2 {
			t.Fatalf("the session has level %d, want 2", got)
		}
		h.phones("!+31612345678", "!+31687654321") // a second number changes nothing
		if got := b.level(); got != 2 {
			t.Errorf("with another number the session has level %d, want 2", got)
		}
		h.phones("!+31687654321")
		if got := b.level(); got != 1 {
			t.Errorf("without the number the session has level %d, want 1", got)
		}
	})
	t.Run("attack 266: what a PIN has raised ends with another PIN", func(t *testing.T) {
		t.Parallel()
		h, _, box := pinned(t)
		thief, owner := h.browser(), h.browser()
		thief.plain()
		if a := thief.post(thief.get("/next"), "code", "471193"); a.Code != http.StatusSeeOther || thief.level() != 2 {
			t.Fatalf("the PIN = %d", a.Code)
		}
		owner.plain()
		form := owner.get(owner.pinLink(box, pinForgot))
		if a := owner.post(form, "pin", "827164", "again", "827164"); a.Code != http.StatusSeeOther {
			t.Fatalf("another PIN = %d:\n%s", a.Code, a.Body)
		}
		if mine, theirs := owner.level(), thief.level(); mine != 2 || theirs != 1 {
			t.Errorf("the sessions have levels %d and %d, want 2 and 1", mine, theirs)
		}
	})
	t.Run("attack 266: what an address has raised ends when the address goes", func(t *testing.T) {
		t.Parallel()
		h, _, box := mailing(t)
		b := h.browser()
		b.plain()
		page, code := b.ask(box)
		b.post(page, "code", code)
		if got := b.level(); got != 2 {
			t.Fatalf("the session has level %d, want 2", got)
		}
		p := h.details(demo)
		h.emails(p.ID, "other@example.org")
		if got := b.level(); got != 1 {
			t.Errorf("without the address the session has level %d, want 1", got)
		}
	})
	t.Run("attack 221: of many prompts at once the phone gets one", func(t *testing.T) {
		t.Parallel()
		h, _, box := pushing(t)
		desk := h.browser()
		desk.plain()
		desk.enrol()
		b := h.browser()
		b.plain()
		form := b.get("/next")
		var all sync.WaitGroup
		for range 64 {
			tab := b.clone()
			all.Go(func() { tab.post(form) })
		}
		all.Wait()
		if list := box.Take(); len(list) != 1 {
			t.Errorf("%d prompts for one step-up", len(list))
		}
	})
}

// forgetPasskeyOf removes the passkey from the record of a browser's session, as in sessions from before it was
// recorded.
func (h *harness) forgetPasskeyOf(b *browser) {
	h.t.Helper()
	s, err := h.session(b)
	if err != nil {
		h.t.Fatal(err)
	}
	table := storage.NewTable[map[int]any]("identity_session")
	err = h.store.Update(h.t.Context(), func(tx storage.Tx) error {
		rec, err := table.Get(tx, s.SessionID)
		if err != nil {
			return err
		}
		if rec[23] == nil {
			h.t.Error("the session does not say which passkey it is by")
		}
		delete(rec, 23)
		return table.Put(tx, s.SessionID, rec, h.clock.Now().Add(24*time.Hour))
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestPasskeyGone: removing a passkey lowers the sessions that it raised, but not those raised by another passkey.
func TestPasskeyGone(t *testing.T) {
	t.Parallel()
	h, lost := withPasskey(t)
	second := newToken(t)
	owner := h.browser()
	if a := owner.tryPasskey(lost); a.Code != http.StatusSeeOther {
		t.Fatalf("the passkey = %d", a.Code)
	}
	owner.addPasskey(second)
	thief, stepped, phone := h.browser(), h.browser(), h.browser()
	if a := phone.tryPasskey(second); a.Code != http.StatusSeeOther {
		t.Fatalf("the second passkey = %d", a.Code)
	}
	if a := thief.tryPasskey(lost); a.Code != http.StatusSeeOther {
		t.Fatalf("the passkey of the thief = %d", a.Code)
	}
	stepped.signIn(demo, demoPassword)
	f := stepped.passkeyForm(stepped.get(addPasskeyPage))
	if a := stepped.answer(f, lost.use(f.options)); a.Code != http.StatusSeeOther {
		t.Fatalf("the step-up = %d:\n%s", a.Code, a.Body)
	}
	before := h.browser() // a session from before the passkey was recorded
	if a := before.tryPasskey(second); a.Code != http.StatusSeeOther {
		t.Fatalf("the passkey = %d", a.Code)
	}
	for i, b := range []*browser{owner, thief, stepped, phone, before} {
		if got := b.level(); got != 3 {
			t.Fatalf("session %d has level %d, want 3", i+1, got)
		}
	}
	h.forgetPasskeyOf(before)
	page := owner.get("/account/security")
	link := passkeyRemoval.FindString(page.Body.String())
	if a := owner.post(owner.get(link)); a.Code != http.StatusSeeOther {
		t.Fatalf("removing = %d:\n%s", a.Code, a.Body)
	}
	if a := h.browser().tryPasskey(lost); a.Code != http.StatusUnprocessableEntity {
		t.Fatalf("the passkey that was removed = %d", a.Code)
	}
	// The owner keeps level 3: adding the second passkey raised that session too.
	for i, tt := range []struct {
		b    *browser
		want int
	}{{owner, 3}, {thief, 1}, {stepped, 1}, {phone, 3}, {before, 1}} {
		if got := tt.b.level(); got != tt.want {
			t.Errorf("after the removal session %d has level %d, want %d", i+1, got, tt.want)
		}
	}
	owner = h.browser()
	if a := owner.tryPasskey(second); a.Code != http.StatusSeeOther || owner.level() != 3 {
		t.Errorf("the other passkey = %d", a.Code)
	}
	if err := h.StepUp.RemoveStepUp(t.Context(), demo, "passkey", event.Actor{ID: "admin"}); err != nil {
		t.Fatal(err)
	}
	if got := owner.level(); got != 1 {
		t.Errorf("without passkeys the session has level %d, want 1", got)
	}
	h.checkInvariants()
}

// TestSuspectPasskeyStepUp: a suspect passkey is not asked for, and does not prevent other methods.
func TestSuspectPasskeyStepUp(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 2, passkeysOn)
	u.StepUp.Strategy = "STRONGEST_AVAILABLE"
	u.Features.PINEnabled = true
	k := newToken(t)
	set := h.browser()
	set.plain()
	set.pin("827164")
	set.addPasskey(k)
	twin := k.bent(func(*token) {})
	b := h.browser()
	b.plain()
	f := b.passkeyForm(b.get("/next"))
	if a := b.answer(f, k.use(f.options)); a.Code != http.StatusSeeOther {
		t.Fatalf("the passkey = %d:\n%s", a.Code, a.Body)
	}
	b = h.browser()
	b.plain()
	f = b.passkeyForm(b.get("/next"))
	if a := b.answer(f, twin.use(f.options)); a.Code >= 500 || b.level() != 1 {
		t.Fatalf("its twin = %d", a.Code)
	}
	page := b.get("/next")
	if !strings.Contains(page.url, "/step-up?flow=") || !strings.Contains(page.Body.String(), "your PIN") {
		t.Errorf("beside a suspect passkey the PIN is not offered: %d %s\n%s", page.Code, page.url, page.Body)
	}
	if a := b.post(page, "code", "827164"); a.Code != http.StatusSeeOther || b.level() != 2 {
		t.Errorf("the PIN = %d", a.Code)
	}
	if a := b.get(addPasskeyPage); strings.Contains(a.Body.String(), `data-passkey="create"`) {
		t.Error("a suspect passkey makes it easier to add another one")
	}
}

// TestStepUpFormOfAnotherPage: a method with its own page cannot be answered at the page for codes.
func TestStepUpFormOfAnotherPage(t *testing.T) {
	t.Parallel()
	h, k := withPasskey(t)
	b := h.browser()
	b.signIn(demo, demoPassword)
	page := b.get(addPasskeyPage)
	f := b.passkeyForm(page)
	_, flow, _ := strings.Cut(page.url, "?")
	before := h.events()["login.StepUpFailedEvent"]
	a := b.do(http.MethodPost, "/step-up?"+flow+"&method=passkey", "csrf="+f.csrf+"&code={}")
	if a.Code != http.StatusSeeOther || h.events()["login.StepUpFailedEvent"] != before || b.level() != 1 {
		t.Errorf("a passkey at the page for codes = %d:\n%s", a.Code, a.Body)
	}
	if a := b.answer(f, k.use(f.options)); a.Code != http.StatusSeeOther || b.level() != 3 {
		t.Errorf("afterwards at its own = %d", a.Code)
	}
}

// TestInitialStepUpBesideGiven: people can set up their first method even where codes can be delivered to everybody.
func TestInitialStepUpBesideGiven(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 2)
	u.Features.ExternallyDeliveredCodeStepUp = config.ExternallyDeliveredCodeStepUp{Enabled: true, ExpirationTime: 600}
	b := h.browser()
	b.plain()
	page := b.get("/next").Body.String()
	if !strings.Contains(page, "/account/security/authenticator?flow=") || !strings.Contains(page, "method=delivered") {
		t.Fatalf("who has no method yet is offered:\n%s", page)
	}
	if a := b.get(b.get("/next").url + "&method=delivered"); !strings.Contains(a.Body.String(), "&amp;choose=1") {
		t.Errorf("no way back from the given code:\n%s", a.Body)
	}
	b.app(authenticatorPage)
	b = h.browser()
	b.plain()
	if page := b.get(b.get("/next").url + "&choose=1").Body.String(); strings.Contains(page, "/account/security/") {
		t.Errorf("who has one is offered to set up another:\n%s", page)
	}
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = false
	if err := h.StepUp.RemoveStepUp(t.Context(), demo, "authenticator", event.Actor{ID: "admin"}); err != nil {
		t.Fatal(err)
	}
	if page := b.get("/next").Body.String(); strings.Contains(page, "/account/security/") || !strings.Contains(page, "you were given for") {
		t.Errorf("where nobody sets up a first one on the way:\n%s", page)
	}
}
