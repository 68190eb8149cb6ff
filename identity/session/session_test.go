package session_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestSessionLifetimes(t *testing.T) {
	t.Parallel()
	t.Run("attack 274: sessions end when idle, and in any case", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		for range 11 { // used every hour for 11 hours
			h.Clock.Advance(59 * time.Minute)
			if a := b.Do(http.MethodGet, "/account", ""); a.Code != http.StatusOK {
				t.Fatalf("GET /account at %v: status %d, want 200", h.Clock.Now(), a.Code)
			}
		}
		h.Clock.Advance(59 * time.Minute)
		if !b.IsSignedIn() {
			t.Error("session of 11:48 hours that is used is dead, want alive")
		}
		h.Clock.Advance(12 * time.Minute)
		if b.IsSignedIn() {
			t.Error("session is alive after 12 hours, want dead")
		}
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		h.Clock.Advance(time.Hour - time.Second)
		if !b.IsSignedIn() {
			t.Error("session is dead after 59:59 minutes without use, want alive")
		}
		h.Clock.Advance(time.Second)
		if b.IsSignedIn() {
			t.Error("session is alive after an hour without use, want dead")
		}
		h.CheckInvariants()
	})
	t.Run("attack 274: cookies stay small, ours and away from scripts", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		a := h.Browser().Try(identitytest.Demo, identitytest.DemoPassword)
		cookies := a.Result().Cookies()
		if len(cookies) != 2 {
			t.Errorf("%d cookies set, want session and device", len(cookies))
		}
		for _, c := range cookies {
			if !strings.HasPrefix(c.Name, "__Host-gh-") || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" ||
				c.Path != "/" || len(c.Raw) > 300 {
				t.Errorf("cookie %s, want __Host-, Secure, HttpOnly, SameSite=Lax, no Domain, small", c.Raw)
			}
			if strings.HasSuffix(c.Name, "session") && c.MaxAge != 0 {
				t.Errorf("session cookie lives %d s, want until the browser closes", c.MaxAge)
			}
		}
	})
}

func TestRemember(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	a := b.Post(b.Get("/next"), "username", identitytest.Demo, "password", identitytest.DemoPassword, "remember", "yes")
	for _, c := range a.Result().Cookies() {
		if strings.HasSuffix(c.Name, "session") && c.MaxAge != 30*24*3600 {
			t.Errorf("session cookie lives %d s, want 30 days", c.MaxAge)
		}
	}
	h.Clock.Advance(30*24*time.Hour - time.Second)
	if !b.IsSignedIn() {
		t.Error("remembered session is dead before 30 days")
	}
	h.Clock.Advance(time.Second)
	if b.IsSignedIn() {
		t.Error("remembered session is alive after 30 days")
	}
	off := identitytest.New(t, func(c *identity.Config) { c.Session.Remember = -1 })
	b = off.Browser()
	if form := b.Get("/next"); strings.Contains(form.Body.String(), "remember") {
		t.Error("the page offers what is switched off")
	}
	b.Post(b.Get("/next"), "username", identitytest.Demo, "password", identitytest.DemoPassword, "remember", "yes")
	off.Clock.Advance(time.Hour)
	if b.IsSignedIn() {
		t.Error("session is remembered although that is switched off")
	}
}

func TestIdleMark(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	s, err := h.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	start := h.Clock.Now()
	h.Clock.Advance(59 * time.Second)
	h.Store.ReadOnly.Store(true) // a write would fail
	if err := h.Session.Touch(t.Context(), s.SessionID); err != nil {
		t.Errorf("Touch within a minute = %v, want no write", err)
	}
	h.Clock.Advance(time.Second)
	if err := h.Session.Touch(t.Context(), s.SessionID); !errors.Is(err, storage.ErrFull) {
		t.Errorf("Touch after a minute = %v, want the failure of its write", err)
	}
	if a := b.Get("/next"); a.Code != http.StatusOK {
		t.Errorf("GET /next while the mark cannot be written: status %d, want 200", a.Code)
	}
	h.Store.ReadOnly.Store(false)
	if err := h.Session.Touch(t.Context(), s.SessionID); err != nil {
		t.Fatal(err)
	}
	s, err = h.SessionOf(b)
	if err != nil || !s.Seen.Equal(start.Add(time.Minute)) || !s.Ends.Equal(s.Seen.Add(time.Hour)) {
		t.Errorf("session %+v, %v, want seen a minute later", s, err)
	}
	if err := h.Session.Touch(t.Context(), "no such session"); err != nil {
		t.Errorf("Touch(nothing) = %v, want nil", err)
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *identitytest.Harness) error{
		"block": func(h *identitytest.Harness) error {
			return h.Person.SetState(h.T.Context(), identitytest.Demo, person.Blocked, identitytest.Admin)
		},
		"inactive": func(h *identitytest.Harness) error {
			return h.Person.SetState(h.T.Context(), identitytest.Demo, person.Inactive, identitytest.Admin)
		},
		"password": func(h *identitytest.Harness) error {
			return h.Person.SetPassword(h.T.Context(), identitytest.Demo, secret.New("another one"), identitytest.Admin)
		},
		"end": func(h *identitytest.Harness) error {
			return h.Person.EndSessions(h.T.Context(), identitytest.Demo, identitytest.Admin)
		},
		"all": func(h *identitytest.Harness) error { return h.Store.Update(h.T.Context(), session.EndAllSessions) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := identitytest.New(t)
			b, c := h.Browser(), h.Browser()
			b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			c.SignIn(identitytest.Demo, identitytest.DemoPassword)
			if err := end(h); err != nil {
				t.Fatal(err)
			}
			if b.IsSignedIn() || c.IsSignedIn() {
				t.Errorf("sessions are alive after %s", name)
			}
		})
	}
}

func TestOwnPasswordChangeKeepsOwnSession(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b, c := h.Browser(), h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	c.SignIn(identitytest.Demo, identitytest.DemoPassword)
	s, err := h.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	by := audit.Actor{ID: s.Subject, Name: identitytest.Demo, Session: s.SessionID}
	if err := h.Person.SetPassword(t.Context(), s.Subject, secret.New("another one"), by); err != nil {
		t.Fatal(err)
	}
	if !b.IsSignedIn() || c.IsSignedIn() {
		t.Errorf("own session alive %t, other %t, want true, false", b.IsSignedIn(), c.IsSignedIn())
	}
}

func TestSessionCookieChangesAtSignIn(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "anna", Password: secret.New("sail-1-x")},
		identitytest.Admin); err != nil {
		t.Fatal(err)
	}
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	first, err := h.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	stolen := h.Browser()
	stolen.Cookies = map[string]string{}
	for k, v := range b.Cookies {
		stolen.Cookies[k] = v
	}
	signInAgain := func(username, password string) {
		t.Helper()
		// The demand asks for a new sign-in, so the form is shown although the person is signed in.
		h.DemandLogin()
		a := b.Post(b.Get("/next?again="+username), "username", username, "password", password)
		if a.Code != http.StatusSeeOther {
			t.Fatalf("sign-in: status %d", a.Code)
		}
	}
	signInAgain(identitytest.Demo, identitytest.DemoPassword)
	second, err := h.SessionOf(b)
	if err != nil || second.SessionID != first.SessionID {
		t.Errorf("same person again: session %+v, %v, want the same session: what hangs on it lives on", second, err)
	}
	if stolen.IsSignedIn() {
		t.Error("the cookie of before the sign-in is alive, want dead")
	}
	signInAgain("anna", "sail-1-x")
	third, err := h.SessionOf(b)
	if err != nil || third.SessionID == first.SessionID || third.Subject == first.Subject {
		t.Errorf("another person: session %+v, %v, want another session", third, err)
	}
	if _, err := h.SessionByID(first.SessionID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("session of the person before = %v, want ErrNotFound", err)
	}
	if n := h.Events()["session.SignedOutEvent"]; n != 1 {
		t.Errorf("%d events Signed Out, want 1", n)
	}
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	s, err := h.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	copied := h.Browser()
	for k, v := range b.Cookies {
		copied.Cookies[k] = v
	}
	ask := b.Get("/sign-out")
	if !b.IsSignedIn() || !strings.Contains(ask.Body.String(), identitytest.Demo) {
		t.Errorf("GET /sign-out: status %d, signed in %t, want a question and no change:\n%s", ask.Code, b.IsSignedIn(), ask.Body)
	}
	a := b.Post(ask)
	if a.Code != http.StatusSeeOther || b.Session() != "" {
		t.Errorf("POST /sign-out: status %d, cookie left %t, want 303 and none", a.Code, b.Session() != "")
	}
	if done := b.Get(a.Header().Get("Location")); !strings.Contains(done.Body.String(), "You’re signed out") {
		t.Errorf("after sign-out:\n%s", done.Body)
	}
	if _, err := h.SessionByID(s.SessionID); !errors.Is(err, storage.ErrNotFound) || copied.IsSignedIn() {
		t.Errorf("session after sign-out = %v, want ErrNotFound, and no copy of its cookie good", err)
	}
	if n := h.Events()["session.SignedOutEvent"]; n != 1 {
		t.Errorf("%d events Signed Out, want 1", n)
	}
	if again := copied.Post(ask); again.Code != http.StatusSeeOther {
		t.Errorf("POST /sign-out again: status %d, want 303: it is done", again.Code)
	}
	t.Run("attack 279: nothing is shown after sign-out", func(t *testing.T) {
		t.Parallel()
		a := b.Do(http.MethodGet, "/account", "")
		if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/sign-in?flow=") ||
			a.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("GET /account after sign-out: status %d, headers %v", a.Code, a.Header())
		}
	})
}

func TestAccountPage(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	form := b.Get("/account")
	a := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword)
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/account" {
		t.Fatalf("sign-in for the account page: status %d to %q", a.Code, a.Header().Get("Location"))
	}
	page := b.Get("/account")
	for _, want := range []string{identitytest.Demo, "staff, editors"} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("account page does not show %q:\n%s", want, page.Body)
		}
	}
	if a := b.Do(http.MethodPost, "/sign-out",
		url.Values{"csrf": {identitytest.CSRFField.FindStringSubmatch(page.Body.String())[1]}}.Encode()); a.Code != http.StatusSeeOther ||
		b.IsSignedIn() {
		t.Errorf("sign-out from the account page: status %d, signed in %t", a.Code, b.IsSignedIn())
	}
}

func TestBrokenCookies(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	var name string
	for n := range b.Cookies {
		if strings.HasSuffix(n, "-session") {
			name = n
		}
	}
	good := b.Cookies[name]
	flipped := []byte(good)
	flipped[10] ^= 1
	forged, err := secret.NewToken(strings.NewReader(strings.Repeat("x", 32)), secret.Session)
	if err != nil {
		t.Fatal(err)
	}
	for what, v := range map[string]string{
		"empty": "", "short": "ghss_", "flipped": string(flipped), "forged": forged,
		"long": good + strings.Repeat("a", 300), "other kind": strings.Replace(good, "ghss_", "ghat_", 1),
	} {
		b.Cookies[name] = v
		if b.IsSignedIn() {
			t.Errorf("cookie %s signs in", what)
		}
	}
	b.Cookies[name] = good
	if !b.IsSignedIn() {
		t.Error("the right cookie does not sign in")
	}
}

func TestSessionsOfAPerson(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	list := func() (ids []string) {
		t.Helper()
		p, err := h.Person.Person(t.Context(), identitytest.Demo)
		if err != nil {
			t.Fatal(err)
		}
		err = h.Store.View(t.Context(), func(tx storage.Tx) error {
			live, err := h.Session.List(tx, p.ID, h.Clock.Now())
			ids = nil
			for _, si := range live {
				ids = append(ids, si.SessionID)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	closeOne := func(person, id string) error {
		return h.Store.Update(t.Context(), func(tx storage.Tx) error { return h.Session.CloseSession(tx, person, id) })
	}
	one, two := h.Browser(), h.Browser()
	one.SignIn(identitytest.Demo, identitytest.DemoPassword)
	h.Clock.Advance(time.Second)
	two.SignIn(identitytest.Demo, identitytest.DemoPassword)
	ids := list()
	if len(ids) != 2 {
		t.Fatalf("%d sessions, want 2", len(ids))
	}
	p, err := h.Person.Person(t.Context(), identitytest.Demo)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][2]string{{"somebody else", ids[0]}, {p.ID, "nothing"}} {
		if err := closeOne(wrong[0], wrong[1]); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("CloseSession(%q) = %v, want ErrNotFound", wrong, err)
		}
	}
	if err := closeOne(p.ID, ids[0]); err != nil {
		t.Fatal(err)
	}
	if one.IsSignedIn() || !two.IsSignedIn() {
		t.Errorf("signed in: %t and %t, want the second alone", one.IsSignedIn(), two.IsSignedIn())
	}
	if got := list(); len(got) != 1 || got[0] != ids[1] {
		t.Errorf("sessions = %v, want %s", got, ids[1])
	}
	h.Clock.Advance(2 * time.Hour)
	if got := list(); len(got) != 0 {
		t.Errorf("sessions after the idle time = %v", got)
	}
	two.SignIn(identitytest.Demo, identitytest.DemoPassword)
	if err := h.Person.EndSessions(t.Context(), identitytest.Demo, identitytest.Admin); err != nil {
		t.Fatal(err)
	}
	if got := list(); len(got) != 0 {
		t.Errorf("sessions after all were ended = %v", got)
	}
	h.CheckInvariants()
}
