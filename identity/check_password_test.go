package identity_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// TestPasswordGrantAsksForTheSecondFactor: the right password of a person who has a PIN signs no one in without a page,
// and is not counted as a wrong one.
func TestPasswordGrantAsksForTheSecondFactor(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 1)
	u.Features.PINEnabled = true
	from := audit.Origin{ClientIP: "203.0.113.7"}
	if _, err := h.CheckPassword(t.Context(), "legacy", identitytest.Demo, identitytest.DemoPassword, from); err != nil {
		t.Errorf("CheckPassword without a second factor: %v", err)
	}
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	b.SetPIN("827164")
	before := h.Events()
	for range 10 {
		if _, err := h.CheckPassword(t.Context(), "legacy", identitytest.Demo, identitytest.DemoPassword,
			from); !errors.Is(err, authn.ErrSecondFactor) {
			t.Fatalf("CheckPassword with a PIN: %v, want ErrSecondFactor", err)
		}
	}
	if n := h.Events(); n["login.LoginSucceededEvent"] != before["login.LoginSucceededEvent"] || n["login.LoginFailedEvent"] != 10 {
		t.Errorf("events = %v, want ten refused sign-ins", n)
	}
	if _, err := h.CheckPassword(t.Context(), "legacy", identitytest.Demo, "wrong", from); !errors.Is(err, authn.ErrBadCredentials) {
		t.Errorf("CheckPassword with a wrong password: %v, want ErrBadCredentials: it must not tell of the PIN", err)
	}
	if _, err := h.CheckPasswordOnly(t.Context(), "legacy", identitytest.Demo, identitytest.DemoPassword, from); err != nil {
		t.Errorf("CheckPasswordOnly: %v", err)
	}
	u.Features.PINEnabled = false
	if _, err := h.CheckPassword(t.Context(), "legacy", identitytest.Demo, identitytest.DemoPassword, from); err != nil {
		t.Errorf("CheckPassword while PINs are switched off: %v", err)
	}
}

func TestCheckPassword(t *testing.T) {
	t.Parallel()
	from := audit.Origin{ClientIP: "192.0.2.1"}
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		si, err := h.CheckPassword(t.Context(), "legacy", " "+identitytest.Demo+" ", identitytest.DemoPassword, from)
		if err != nil {
			t.Fatal(err)
		}
		p, err := h.Person.Person(t.Context(), identitytest.Demo)
		if err != nil || si.Subject != p.ID || si.SessionID != "" || si.Level != 1 || si.Provider != "identity" ||
			!si.AuthTime.Equal(h.Clock.Now()) {
			t.Errorf("CheckPassword = %+v, %v", si, err)
		}
		if n := h.Events()["login.LoginSucceededEvent"]; n != 1 {
			t.Errorf("%d events Login Succeeded, want 1", n)
		}
		h.CheckInvariants()
	})
	t.Run("attack 218: every refusal is the same, at the same cost", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, identitytest.Admin); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string][2]string{
			"wrong":   {identitytest.Demo, "wrong password"},
			"unknown": {"nobody", identitytest.DemoPassword}, "blocked": {identitytest.Demo, identitytest.DemoPassword},
		} {
			before := h.Hasher.Computed()
			_, err := h.CheckPassword(t.Context(), "legacy", c[0], c[1], from)
			if !errors.Is(err, authn.ErrBadCredentials) || h.Hasher.Computed() != before+1 {
				t.Errorf("%s: %v after %d hashes, want ErrBadCredentials after one", name, err, h.Hasher.Computed()-before)
			}
		}
	})
	t.Run("attack 222: the page and the password grant share one counter", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		b := h.Browser()
		b.Wrong(identitytest.Demo, 2)
		from := audit.Origin{ClientIP: "203.0.113.7"} // the address of the browser
		for range 3 {
			if _, err := h.CheckPassword(t.Context(), "legacy", identitytest.Demo, "wrong password", from); !errors.Is(err,
				authn.ErrBadCredentials) {
				t.Errorf("CheckPassword = %v, want ErrBadCredentials", err)
			}
		}
		before := h.Hasher.Computed()
		throttled := new(authn.ThrottledError)
		if _, err := h.CheckPassword(t.Context(), "legacy", identitytest.Demo, identitytest.DemoPassword, from); !errors.As(err, &throttled) ||
			throttled.Wait != 30*time.Second {
			t.Errorf("sixth try = %v, want a wait of 30 s", err)
		}
		if a := b.Try(identitytest.Demo, identitytest.DemoPassword); a.Code != http.StatusTooManyRequests {
			t.Errorf("sixth try on the page = %d, want 429", a.Code)
		}
		if h.Hasher.Computed() != before {
			t.Error("a password was looked at")
		}
		h.Clock.Advance(30 * time.Second)
		if _, err := h.CheckPassword(t.Context(), "legacy", identitytest.Demo, identitytest.DemoPassword, from); err != nil {
			t.Errorf("after the wait: %v", err)
		}
		if a := b.Wrong(identitytest.Demo, 1); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("failure after a good one = %d, want 422", a.Code)
		}
		if n := h.Events(); n["login.LoginFailedEvent"] != 6 || n["login.LoginThrottledEvent"] != 1 {
			t.Errorf("events %v, want 6 Login Failed and 1 Login Throttled", n)
		}
	})
}
