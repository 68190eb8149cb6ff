package session_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/dbsc/dbsctest"
)

func bound(c *identity.Config) { c.Session.DeviceBound = true }

// post sends a request of the browser itself, as it does for devices.
func post(b *identitytest.Browser, path string, headers ...string) *identitytest.Answer {
	r := dbsctest.Request(identitytest.Issuer, path, headers...)
	before := b.Header
	b.Header = r.Header
	defer func() { b.Header = before }()
	return b.Do(http.MethodPost, path, "")
}

// bind registers a device for the session of a browser, after the answer of its sign-in.
func bind(t *testing.T, b *identitytest.Browser, signIn *identitytest.Answer) *dbsctest.Device {
	t.Helper()
	d := dbsctest.New(t)
	a := post(b, dbsc.RegisterPath, d.Registration(signIn.Header())...)
	if a.Code != http.StatusOK || b.Cookie(dbsc.Cookie) == "" {
		t.Fatalf("registration = %d %s", a.Code, a.Body)
	}
	d.Learn(a.Body.String())
	return d
}

// TestBoundSession: the cookies of a bound session of the issuer in another browser, until and after the second one
// ends.
func TestBoundSession(t *testing.T) {
	t.Parallel()
	t.Run("attack 8312: copied cookies of a session of the issuer", func(t *testing.T) {
		h := identitytest.New(t, bound)
		b := h.Browser()
		d := bind(t, b, b.Try(identitytest.Demo, identitytest.DemoPassword))
		if !b.IsSignedIn() {
			t.Fatal("the browser that has bound its session is not signed in")
		}
		thief := b.Clone()
		for name := range thief.Cookies {
			if thief.Cookies[name] == b.Cookie(dbsc.Cookie) {
				delete(thief.Cookies, name)
			}
		}
		if thief.IsSignedIn() {
			t.Error("the session's cookie alone signs in")
		}
		thief = b.Clone()
		h.Clock.Advance(11 * time.Minute)
		if thief.IsSignedIn() {
			t.Error("copied cookies sign in after ten minutes")
		}
		if thief.Get("/account"); thief.Cookie(dbsc.Cookie) != "" {
			t.Error("a second cookie that has ended stays in the browser, which would not ask for another one")
		}
		a := post(b, dbsc.RefreshPath, d.Asks()...)
		if a = post(b, dbsc.RefreshPath, d.Refresh(a.Header())...); a.Code != http.StatusOK || !b.IsSignedIn() {
			t.Errorf("refresh = %d %s", a.Code, a.Body)
		}
	})
}

// TestBoundSessionIsRaised: a session stays bound when its cookie changes, and a new sign-in begins unbound: a browser
// that has lost its key is not locked out.
func TestBoundSessionIsRaised(t *testing.T) {
	t.Parallel()
	h, _ := identitytest.NewStepping(t, 2, bound)
	b := h.Browser()
	d := bind(t, b, b.Try(identitytest.Demo, identitytest.DemoPassword))
	before := b.Session()
	b.AddApp(identitytest.AuthenticatorPage)
	if b.Session() == before || !b.IsSignedIn() {
		t.Fatal("the session was not raised under a new cookie")
	}
	second := b.Cookie(dbsc.Cookie)
	h.Clock.Advance(11 * time.Minute)
	if b.IsSignedIn() {
		t.Error("the raised session is not bound any more")
	}
	if a := post(b, dbsc.RefreshPath, d.Asks()...); dbsctest.Challenge(a.Header()) == "" {
		t.Errorf("refresh after the session was raised = %d %s", a.Code, a.Body)
	}
	a := b.Try(identitytest.Demo, identitytest.DemoPassword)
	if dbsctest.Offered(a.Header()) == "" || b.Cookie(dbsc.Cookie) == second {
		t.Error("another sign-in offers no registration, or keeps the second cookie of the former session")
	}
	if !b.IsSignedIn() {
		t.Error("a person who has signed in again is not signed in")
	}
}

// TestSessionsAreNotBound: nothing is offered by default.
func TestSessionsAreNotBound(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	a := b.Try(identitytest.Demo, identitytest.DemoPassword)
	if a.Header().Get("Secure-Session-Registration") != "" {
		t.Error("device_bound is off, and a sign-in offers to bind the session")
	}
	h = identitytest.New(t, bound)
	challenge := h.Browser().Try(identitytest.Demo, identitytest.DemoPassword)
	if a := post(b, dbsc.RegisterPath, dbsctest.New(t).Registration(challenge.Header())...); a.Code != http.StatusForbidden {
		t.Errorf("registration where it is off = %d", a.Code)
	}
}

// TestSignOutOfBoundSession: it takes both cookies away.
func TestSignOutOfBoundSession(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, bound)
	b := h.Browser()
	d := bind(t, b, b.Try(identitytest.Demo, identitytest.DemoPassword))
	b.Post(b.Get("/sign-out"))
	if b.Session() != "" || b.Cookie(dbsc.Cookie) != "" {
		t.Errorf("cookies after the sign-out: %v", b.Cookies)
	}
	a := post(b, dbsc.RefreshPath, d.Asks()...)
	if in := d.Learn(a.Body.String()); in.Continue == nil || *in.Continue {
		t.Errorf("refresh after the sign-out = %d %s", a.Code, a.Body)
	}
}
