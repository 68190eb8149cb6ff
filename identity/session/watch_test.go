package session_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestWatcher: the watcher is told of everything that ends sessions, and of nothing else.
func TestWatcher(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(t *testing.T, h *identitytest.Harness, b *identitytest.Browser, session string)
		want string // with PERSON and SESSION in place of the ids
	}{
		"sign-out": {func(_ *testing.T, _ *identitytest.Harness, b *identitytest.Browser, _ string) {
			b.Post(b.Get("/sign-out"))
		}, "session SESSION of PERSON"},
		"block": {func(t *testing.T, h *identitytest.Harness, _ *identitytest.Browser, _ string) {
			if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, identitytest.Admin); err != nil {
				t.Error(err)
			}
		}, "all of PERSON but "},
		"password": {func(t *testing.T, h *identitytest.Harness, _ *identitytest.Browser, _ string) {
			if err := h.Person.SetPassword(t.Context(), identitytest.Demo, secret.New("another one"), identitytest.Admin); err != nil {
				t.Error(err)
			}
		}, "all of PERSON but "},
		"own password": {func(t *testing.T, h *identitytest.Harness, _ *identitytest.Browser, session string) {
			if err := h.Person.SetPassword(t.Context(), identitytest.Demo, secret.New("another one"), audit.Actor{Session: session}); err != nil {
				t.Error(err)
			}
		}, "all of PERSON but SESSION"},
		"own block": {func(t *testing.T, h *identitytest.Harness, _ *identitytest.Browser, session string) {
			if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, audit.Actor{Session: session}); err != nil {
				t.Error(err)
			}
		}, "all of PERSON but "},
		"end": {func(t *testing.T, h *identitytest.Harness, _ *identitytest.Browser, _ string) {
			if err := h.Person.EndSessions(t.Context(), identitytest.Demo, identitytest.Admin); err != nil {
				t.Error(err)
			}
		}, "all of PERSON but "},
		"another person in this browser": {func(t *testing.T, h *identitytest.Harness, b *identitytest.Browser, _ string) {
			if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "anna", Password: secret.New("sail-1-x")},
				identitytest.Admin); err != nil {
				t.Error(err)
			}
			h.DemandLogin()
			b.Post(b.Get("/next?again=anna"), "username", "anna", "password", "sail-1-x")
		}, "session SESSION of PERSON"},
		"the same person again": {func(_ *testing.T, h *identitytest.Harness, b *identitytest.Browser, _ string) {
			h.DemandLogin()
			b.Post(b.Get("/next?again=demo"), "username", identitytest.Demo, "password", identitytest.DemoPassword)
		}, ""},
		"a wrong password": {func(_ *testing.T, h *identitytest.Harness, _ *identitytest.Browser, _ string) {
			h.Browser().Try(identitytest.Demo, "wrong password")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := identitytest.New(t)
			w := identitytest.NewWatcher()
			h.Person.Watch(w)
			b := h.Browser()
			b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			s, err := h.SessionOf(b)
			if err != nil {
				t.Fatal(err)
			}
			c.end(t, h, b, s.SessionID)
			var want []string
			if c.want != "" {
				want = []string{strings.NewReplacer("PERSON", s.Subject, "SESSION", s.SessionID).Replace(c.want)}
			}
			if told := w.Told.Take(t, h.Store); !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
		})
	}
}

// TestWatcherFails: a session does not end if the watcher cannot record it.
func TestWatcherFails(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	ask := b.Get("/sign-out")
	w := identitytest.NewWatcher()
	w.Err = storage.ErrUnavailable
	h.Person.Watch(w)
	if a := b.Post(ask); a.Code != http.StatusServiceUnavailable {
		t.Errorf("POST /sign-out = %d, want 503", a.Code)
	}
	if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, identitytest.Admin); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("SetState = %v, want the watcher's error", err)
	}
	if !b.IsSignedIn() {
		t.Error("the session has ended, and nobody was told")
	}
}

// TestSignOutFrames: our own sign-out page also contains the logout frames of the clients.
func TestSignOutFrames(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	w := identitytest.NewWatcher()
	w.Frames = []string{"https://shop.example.com/out?sid=1"}
	h.Person.Watch(w)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	a := b.Post(b.Get("/sign-out"))
	if a.Code != http.StatusOK || !strings.Contains(a.Body.String(), `<iframe src="https://shop.example.com/out?sid=1"`) || b.Session() != "" {
		t.Errorf("POST /sign-out = %d, want the page with the frame and no session:\n%s", a.Code, a.Body)
	}
}
