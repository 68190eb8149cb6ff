package identity_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestSessionLifetimes(t *testing.T) {
	t.Parallel()
	t.Run("attack 274: sessions end when idle, and in any case", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b := h.browser()
		b.signIn(demo, demoPassword)
		for range 11 { // used every hour for 11 hours
			h.clock.Advance(59 * time.Minute)
			if a := b.do(http.MethodGet, "/account", ""); a.Code != http.StatusOK {
				t.Fatalf("GET /account at %v: status %d, want 200", h.clock.Now(), a.Code)
			}
		}
		h.clock.Advance(59 * time.Minute)
		if !b.isSignedIn() {
			t.Error("session of 11:48 hours that is used is dead, want alive")
		}
		h.clock.Advance(12 * time.Minute)
		if b.isSignedIn() {
			t.Error("session is alive after 12 hours, want dead")
		}
		b.signIn(demo, demoPassword)
		h.clock.Advance(time.Hour - time.Second)
		if !b.isSignedIn() {
			t.Error("session is dead after 59:59 minutes without use, want alive")
		}
		h.clock.Advance(time.Second)
		if b.isSignedIn() {
			t.Error("session is alive after an hour without use, want dead")
		}
		h.checkInvariants()
	})
	t.Run("attack 274: cookies stay small, ours and away from scripts", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		a := h.browser().try(demo, demoPassword)
		cookies := a.Result().Cookies()
		if len(cookies) != 2 {
			t.Errorf("%d cookies set, want session and device", len(cookies))
		}
		for _, c := range cookies {
			if !strings.HasPrefix(c.Name, "__Host-gh-") || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" || c.Path != "/" || len(c.Raw) > 300 {
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
	h := newHarness(t)
	b := h.browser()
	a := b.post(b.get("/next"), "username", demo, "password", demoPassword, "remember", "yes")
	for _, c := range a.Result().Cookies() {
		if strings.HasSuffix(c.Name, "session") && c.MaxAge != 30*24*3600 {
			t.Errorf("session cookie lives %d s, want 30 days", c.MaxAge)
		}
	}
	h.clock.Advance(30*24*time.Hour - time.Second)
	if !b.isSignedIn() {
		t.Error("remembered session is dead before 30 days")
	}
	h.clock.Advance(time.Second)
	if b.isSignedIn() {
		t.Error("remembered session is alive after 30 days")
	}
	off := newHarness(t, func(c *identity.Config) { c.Session.Remember = -1 })
	b = off.browser()
	if form := b.get("/next"); strings.Contains(form.Body.String(), "remember") {
		t.Error("the page offers what is switched off")
	}
	b.post(b.get("/next"), "username", demo, "password", demoPassword, "remember", "yes")
	off.clock.Advance(time.Hour)
	if b.isSignedIn() {
		t.Error("session is remembered although that is switched off")
	}
}

func TestIdleMark(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.browser()
	b.signIn(demo, demoPassword)
	s, err := h.session(b)
	if err != nil {
		t.Fatal(err)
	}
	start := h.clock.Now()
	h.clock.Advance(59 * time.Second)
	h.store.readOnly.Store(true) // a write would fail
	if err := h.Session.Touch(t.Context(), s.SessionID); err != nil {
		t.Errorf("Touch within a minute = %v, want no write", err)
	}
	h.clock.Advance(time.Second)
	if err := h.Session.Touch(t.Context(), s.SessionID); !errors.Is(err, storage.ErrFull) {
		t.Errorf("Touch after a minute = %v, want the failure of its write", err)
	}
	if a := b.get("/next"); a.Code != http.StatusOK {
		t.Errorf("GET /next while the mark cannot be written: status %d, want 200", a.Code)
	}
	h.store.readOnly.Store(false)
	if err := h.Session.Touch(t.Context(), s.SessionID); err != nil {
		t.Fatal(err)
	}
	s, err = h.session(b)
	if err != nil || !s.Seen.Equal(start.Add(time.Minute)) || !s.Ends.Equal(s.Seen.Add(time.Hour)) {
		t.Errorf("session %+v, %v, want seen a minute later", s, err)
	}
	if err := h.Session.Touch(t.Context(), "no such session"); err != nil {
		t.Errorf("Touch(nothing) = %v, want nil", err)
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *harness) error{
		"block":    func(h *harness) error { return h.Person.SetState(h.t.Context(), demo, person.Blocked, admin) },
		"inactive": func(h *harness) error { return h.Person.SetState(h.t.Context(), demo, person.Inactive, admin) },
		"password": func(h *harness) error {
			return h.Person.SetPassword(h.t.Context(), demo, secret.New("another one"), admin)
		},
		"end": func(h *harness) error { return h.Person.EndSessions(h.t.Context(), demo, admin) },
		"all": func(h *harness) error { return h.store.Update(h.t.Context(), session.EndAllSessions) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			b, c := h.browser(), h.browser()
			b.signIn(demo, demoPassword)
			c.signIn(demo, demoPassword)
			if err := end(h); err != nil {
				t.Fatal(err)
			}
			if b.isSignedIn() || c.isSignedIn() {
				t.Errorf("sessions are alive after %s", name)
			}
		})
	}
}

func TestOwnPasswordChangeKeepsOwnSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b, c := h.browser(), h.browser()
	b.signIn(demo, demoPassword)
	c.signIn(demo, demoPassword)
	s, err := h.session(b)
	if err != nil {
		t.Fatal(err)
	}
	by := event.Actor{ID: s.Subject, Name: demo, Session: s.SessionID}
	if err := h.Person.SetPassword(t.Context(), s.Subject, secret.New("another one"), by); err != nil {
		t.Fatal(err)
	}
	if !b.isSignedIn() || c.isSignedIn() {
		t.Errorf("own session alive %t, other %t, want true, false", b.isSignedIn(), c.isSignedIn())
	}
}

func TestSessionCookieChangesAtSignIn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "anna", Password: secret.New("12345678")}, admin); err != nil {
		t.Fatal(err)
	}
	b := h.browser()
	b.signIn(demo, demoPassword)
	first, err := h.session(b)
	if err != nil {
		t.Fatal(err)
	}
	stolen := h.browser()
	stolen.cookies = map[string]string{}
	for k, v := range b.cookies {
		stolen.cookies[k] = v
	}
	signInAgain := func(username, password string) {
		t.Helper()
		// The demand asks for a new sign-in, so the form is shown although the person is signed in.
		h.demandLogin()
		a := b.post(b.get("/next?again="+username), "username", username, "password", password)
		if a.Code != http.StatusSeeOther {
			t.Fatalf("sign-in: status %d", a.Code)
		}
	}
	signInAgain(demo, demoPassword)
	second, err := h.session(b)
	if err != nil || second.SessionID != first.SessionID {
		t.Errorf("same person again: session %+v, %v, want the same session: what hangs on it lives on", second, err)
	}
	if stolen.isSignedIn() {
		t.Error("the cookie of before the sign-in is alive, want dead")
	}
	signInAgain("anna", "12345678")
	third, err := h.session(b)
	if err != nil || third.SessionID == first.SessionID || third.Subject == first.Subject {
		t.Errorf("another person: session %+v, %v, want another session", third, err)
	}
	if _, err := h.sessionByID(first.SessionID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("session of the person before = %v, want ErrNotFound", err)
	}
	if n := h.events()["session.SignedOutEvent"]; n != 1 {
		t.Errorf("%d events Signed Out, want 1", n)
	}
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.browser()
	b.signIn(demo, demoPassword)
	s, err := h.session(b)
	if err != nil {
		t.Fatal(err)
	}
	copied := h.browser()
	for k, v := range b.cookies {
		copied.cookies[k] = v
	}
	ask := b.get("/sign-out")
	if !b.isSignedIn() || !strings.Contains(ask.Body.String(), demo) {
		t.Errorf("GET /sign-out: status %d, signed in %t, want a question and no change:\n%s", ask.Code, b.isSignedIn(), ask.Body)
	}
	a := b.post(ask)
	if a.Code != http.StatusSeeOther || b.session() != "" {
		t.Errorf("POST /sign-out: status %d, cookie left %t, want 303 and none", a.Code, b.session() != "")
	}
	if done := b.get(a.Header().Get("Location")); !strings.Contains(done.Body.String(), "You’re signed out") {
		t.Errorf("after sign-out:\n%s", done.Body)
	}
	if _, err := h.sessionByID(s.SessionID); !errors.Is(err, storage.ErrNotFound) || copied.isSignedIn() {
		t.Errorf("session after sign-out = %v, want ErrNotFound, and no copy of its cookie good", err)
	}
	if n := h.events()["session.SignedOutEvent"]; n != 1 {
		t.Errorf("%d events Signed Out, want 1", n)
	}
	if again := copied.post(ask); again.Code != http.StatusSeeOther {
		t.Errorf("POST /sign-out again: status %d, want 303: it is done", again.Code)
	}
	t.Run("attack 279: nothing is shown after sign-out", func(t *testing.T) {
		t.Parallel()
		a := b.do(http.MethodGet, "/account", "")
		if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/sign-in?flow=") || a.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("GET /account after sign-out: status %d, headers %v", a.Code, a.Header())
		}
	})
}

func TestAccountPage(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.browser()
	form := b.get("/account")
	a := b.post(form, "username", demo, "password", demoPassword)
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/account" {
		t.Fatalf("sign-in for the account page: status %d to %q", a.Code, a.Header().Get("Location"))
	}
	page := b.get("/account")
	for _, want := range []string{demo, "staff, editors"} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("account page does not show %q:\n%s", want, page.Body)
		}
	}
	if a := b.do(http.MethodPost, "/sign-out", url.Values{"csrf": {field.FindStringSubmatch(page.Body.String())[1]}}.Encode()); a.Code != http.StatusSeeOther || b.isSignedIn() {
		t.Errorf("sign-out from the account page: status %d, signed in %t", a.Code, b.isSignedIn())
	}
}

func TestBrokenCookies(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.browser()
	b.signIn(demo, demoPassword)
	var name string
	for n := range b.cookies {
		if strings.HasSuffix(n, "-session") {
			name = n
		}
	}
	good := b.cookies[name]
	flipped := []byte(good)
	flipped[10] ^= 1
	forged, err := secret.NewToken(strings.NewReader(strings.Repeat("x", 32)), secret.Session)
	if err != nil {
		t.Fatal(err)
	}
	for what, v := range map[string]string{"empty": "", "short": "ghss_", "flipped": string(flipped), "forged": forged, "long": good + strings.Repeat("a", 300), "other kind": strings.Replace(good, "ghss_", "ghat_", 1)} {
		b.cookies[name] = v
		if b.isSignedIn() {
			t.Errorf("cookie %s signs in", what)
		}
	}
	b.cookies[name] = good
	if !b.isSignedIn() {
		t.Error("the right cookie does not sign in")
	}
}

func TestSessionsOfAPerson(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	list := func() (ids []string) {
		t.Helper()
		p, err := h.Person.Person(t.Context(), demo)
		if err != nil {
			t.Fatal(err)
		}
		err = h.store.View(t.Context(), func(tx storage.Tx) error {
			live, err := h.Session.List(tx, p.ID, h.clock.Now())
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
		return h.store.Update(t.Context(), func(tx storage.Tx) error { return h.Session.CloseSession(tx, person, id) })
	}
	one, two := h.browser(), h.browser()
	one.signIn(demo, demoPassword)
	h.clock.Advance(time.Second)
	two.signIn(demo, demoPassword)
	ids := list()
	if len(ids) != 2 {
		t.Fatalf("%d sessions, want 2", len(ids))
	}
	p, err := h.Person.Person(t.Context(), demo)
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
	if one.isSignedIn() || !two.isSignedIn() {
		t.Errorf("signed in: %t and %t, want the second alone", one.isSignedIn(), two.isSignedIn())
	}
	if got := list(); len(got) != 1 || got[0] != ids[1] {
		t.Errorf("sessions = %v, want %s", got, ids[1])
	}
	h.clock.Advance(2 * time.Hour)
	if got := list(); len(got) != 0 {
		t.Errorf("sessions after the idle time = %v", got)
	}
	two.signIn(demo, demoPassword)
	if err := h.Person.EndSessions(t.Context(), demo, admin); err != nil {
		t.Fatal(err)
	}
	if got := list(); len(got) != 0 {
		t.Errorf("sessions after all were ended = %v", got)
	}
	h.checkInvariants()
}
