package mfa_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
)

func TestPIN(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	u.Features.PINEnabled, u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = true, false
	b := h.Plain()
	page := b.Get(identitytest.PINPage)
	for pin, want := range map[string]string{
		"12345": "6 to 12 digits", "1234567890123": "6 to 12 digits", "12345a": "6 to 12 digits",
		"１２３４５６": "6 to 12 digits", "": "6 to 12 digits",
		"111111": "easy to guess", "123456": "easy to guess", "987654": "easy to guess",
	} {
		if a := b.Post(page, "pin", pin, "again", pin); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), want) {
			t.Errorf("PIN %q = %d, want 422 and %q:\n%s", pin, a.Code, want, a.Body)
		}
	}
	if a := b.Post(page, "pin", "827164", "again", "827165"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), "PINs don’t match") {
		t.Errorf("two PINs = %d", a.Code)
	}
	b.SetPIN("827164")
	h.WantLevel(b, 2)
	for key, value := range h.Dump() {
		if strings.Contains(value, "827164") || strings.HasPrefix(key, stepUpKey) && strings.Contains(value, "argon2") {
			t.Errorf("%q holds the PIN, or its hash in clear", key)
		}
	}
	other := h.Plain()
	form := other.Get("/next")
	if !strings.Contains(form.Body.String(), `<input type="password" id="code" name="code" class="code" autocomplete="off"`) {
		t.Errorf("the PIN can be read:\n%s", form.Body)
	}
	if a := other.Post(form, "code", "827165"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong PIN = %d", a.Code)
	}
	if a := other.Post(form, "code", "827164"); a.Code != http.StatusSeeOther {
		t.Errorf("the PIN = %d:\n%s", a.Code, a.Body)
	}
	h.WantLevel(other, 2)
	third := h.Plain()
	u.StepUp.AuthenticationMethods.PINAuthenticationLevel = 1
	if a := third.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with a PIN of level 1 = %d", a.Code)
	}
	u.StepUp.AuthenticationMethods.PINAuthenticationLevel = 2
	u.Features.PINEnabled = false
	if a := third.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with PINs switched off = %d", a.Code)
	}
	u.Features.PINEnabled = true
	if a := other.Post(other.Get("/account/security/remove?method=pin")); a.Code != http.StatusSeeOther ||
		h.Events()["person.StepUpMethodRemovedEvent"] != 1 {
		t.Errorf("removing the PIN = %d", a.Code)
	}
	h.CheckInvariants()
}

// TestPINWords: the error messages are about a PIN, and the one after the last attempt says that it is locked.
func TestPINWords(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	u.Features.PINEnabled = true
	h.Plain().SetPIN("827164")
	b := h.Plain()
	form := b.Get("/next")
	for i := range 5 {
		a := b.Post(form, "code", "111222")
		says, not := "That PIN is incorrect. Try again.", "it’s now locked"
		if i == 4 {
			says, not = not, says
		}
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), says) || strings.Contains(a.Body.String(), not) {
			t.Errorf("wrong PIN %d: %d, want %q\n%s", i+1, a.Code, says, a.Body)
		}
	}
}

func TestPINAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 221: of a hundred PINs at once five are looked at, and then it is locked", func(t *testing.T) {
		t.Parallel()
		h, u := identitytest.NewStepping(t, 2)
		u.Features.PINEnabled = true
		set := h.Plain()
		set.SetPIN("827164")
		b := h.Plain()
		form := b.Get("/next")
		before := h.Hasher.Computed()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				b.Clone().Post(form, "code", "111222")
			})
		}
		wg.Wait()
		if n := h.Hasher.Computed() - before; n != 5 {
			t.Errorf("%d PINs were looked at, want 5", n)
		}
		h.Clock.Advance(time.Hour)
		b = h.Plain()
		if a := b.Get("/next"); a.Code != http.StatusForbidden {
			t.Errorf("level 2 with a locked PIN = %d:\n%s", a.Code, a.Body)
		}
		if a := b.Get("/account/security"); !strings.Contains(a.Body.String(), "Locked after five") {
			t.Errorf("the security page does not tell:\n%s", a.Body)
		}
		if n := h.Events()["person.PINLockedEvent"]; n != 1 {
			t.Errorf("%d events of the lock, want 1", n)
		}
		if err := h.RemoveMethod("authenticator"); !errors.Is(err, mfa.ErrNoMethod) {
			t.Errorf("removing what is not there = %v", err)
		}
		if err := h.RemoveMethod("pin"); err != nil {
			t.Error(err)
		}
		b.SetPIN("827164")
		if a := b.Get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("level 2 with a new PIN = %d:\n%s", a.Code, a.Body)
		}
	})
	t.Run("attack 266: who has locked the PIN can neither replace it nor add another method", func(t *testing.T) {
		t.Parallel()
		h, u := identitytest.NewStepping(t, 2)
		u.Features.PINEnabled = true
		set := h.Plain()
		set.SetPIN("827164")
		b := h.Plain()
		form := b.Get("/next")
		for range 5 {
			b.Post(form, "code", "111222")
		}
		for _, target := range []string{identitytest.PINPage, identitytest.AuthenticatorPage, "/account/security/remove?method=pin"} {
			if a := b.Get(target); a.Code != http.StatusForbidden {
				t.Errorf("GET %s = %d (%s)", target, a.Code, a.URL)
			}
		}
	})
}

// TestStepUpStrategy: the strategies offer either all methods of the person or only the strongest one.
func TestStepUpStrategy(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	set := h.Plain()
	set.AddApp(identitytest.AuthenticatorPage)
	u.Features.PINEnabled = true
	set.SetPIN("827164")
	b := h.Plain()
	page := b.Get("/next")
	if list := b.Get(page.URL + "&choose=1").Body.String(); !strings.Contains(list, "PIN") || !strings.Contains(list, "Authenticator app") {
		t.Errorf("USER_PREFERENCE offers:\n%s", list)
	}
	if !strings.Contains(page.Body.String(), "your PIN") {
		t.Errorf("what was used last is not offered first:\n%s", page.Body)
	}
	u.StepUp.Strategy = "STRONGEST_AVAILABLE"
	if list := b.Get(page.URL + "&choose=1").Body.String(); strings.Contains(list, "PIN") || !strings.Contains(list, "Authenticator app") {
		t.Errorf("STRONGEST_AVAILABLE offers:\n%s", list)
	}
}
