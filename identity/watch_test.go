package identity_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// watcher records what it is told.
type watcher struct {
	told   storagetest.Notes[string]
	frames []string
	err    error
}

func newWatcher() *watcher { return &watcher{told: storagetest.NewNotes[string]("watcher")} }

func (w *watcher) SessionEnded(tx storage.Tx, person, session string) error {
	return errors.Join(w.err, w.told.Add(tx, "session "+session+" of "+person))
}

func (w *watcher) SessionsEnded(tx storage.Tx, person, except string) error {
	return errors.Join(w.err, w.told.Add(tx, "all of "+person+" but "+except))
}

func (w *watcher) TokensEnded(tx storage.Tx, person, session string) error {
	return errors.Join(w.err, w.told.Add(tx, "tokens of "+session+" of "+person))
}

func (w *watcher) LogoutFrames(context.Context, string, string) ([]string, error) {
	return w.frames, w.err
}

// TestWatcher: the watcher is told of everything that ends sessions, and of nothing else.
func TestWatcher(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(t *testing.T, h *harness, b *browser, session string)
		want string // with PERSON and SESSION in place of the ids
	}{
		"sign-out": {func(_ *testing.T, _ *harness, b *browser, _ string) { b.post(b.get("/sign-out")) }, "session SESSION of PERSON"},
		"block": {func(t *testing.T, h *harness, _ *browser, _ string) {
			if err := h.Person.SetState(t.Context(), demo, person.Blocked, admin); err != nil {
				t.Error(err)
			}
		}, "all of PERSON but "},
		"password": {func(t *testing.T, h *harness, _ *browser, _ string) {
			if err := h.Person.SetPassword(t.Context(), demo, secret.New("another one"), admin); err != nil {
				t.Error(err)
			}
		}, "all of PERSON but "},
		"own password": {func(t *testing.T, h *harness, _ *browser, session string) {
			if err := h.Person.SetPassword(t.Context(), demo, secret.New("another one"), event.Actor{Session: session}); err != nil {
				t.Error(err)
			}
		}, "all of PERSON but SESSION"},
		"own block": {func(t *testing.T, h *harness, _ *browser, session string) {
			if err := h.Person.SetState(t.Context(), demo, person.Blocked, event.Actor{Session: session}); err != nil {
				t.Error(err)
			}
		}, "all of PERSON but "},
		"end": {func(t *testing.T, h *harness, _ *browser, _ string) {
			if err := h.Person.EndSessions(t.Context(), demo, admin); err != nil {
				t.Error(err)
			}
		}, "all of PERSON but "},
		"another person in this browser": {func(t *testing.T, h *harness, b *browser, _ string) {
			if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "anna", Password: secret.New("12345678")}, admin); err != nil {
				t.Error(err)
			}
			h.demandLogin()
			b.post(b.get("/next?again=anna"), "username", "anna", "password", "12345678")
		}, "session SESSION of PERSON"},
		"the same person again": {func(_ *testing.T, h *harness, b *browser, _ string) {
			h.demandLogin()
			b.post(b.get("/next?again=demo"), "username", demo, "password", demoPassword)
		}, ""},
		"a wrong password": {func(_ *testing.T, h *harness, _ *browser, _ string) { h.browser().try(demo, "wrong password") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			w := newWatcher()
			h.Person.Watch(w)
			b := h.browser()
			b.signIn(demo, demoPassword)
			s, err := h.session(b)
			if err != nil {
				t.Fatal(err)
			}
			c.end(t, h, b, s.SessionID)
			var want []string
			if c.want != "" {
				want = []string{strings.NewReplacer("PERSON", s.Subject, "SESSION", s.SessionID).Replace(c.want)}
			}
			if told := w.told.Take(t, h.store); !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
		})
	}
}

// TestWatcherFails: a session does not end if the watcher cannot record it.
func TestWatcherFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.browser()
	b.signIn(demo, demoPassword)
	ask := b.get("/sign-out")
	w := newWatcher()
	w.err = storage.ErrUnavailable
	h.Person.Watch(w)
	if a := b.post(ask); a.Code != http.StatusServiceUnavailable {
		t.Errorf("POST /sign-out = %d, want 503", a.Code)
	}
	if err := h.Person.SetState(t.Context(), demo, person.Blocked, admin); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("SetState = %v, want the watcher's error", err)
	}
	if !b.isSignedIn() {
		t.Error("the session has ended, and nobody was told")
	}
}

// TestSignOutFrames: our own sign-out page also contains the logout frames of the clients.
func TestSignOutFrames(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	w := newWatcher()
	w.frames = []string{"https://shop.example.com/out?sid=1"}
	h.Person.Watch(w)
	b := h.browser()
	b.signIn(demo, demoPassword)
	a := b.post(b.get("/sign-out"))
	if a.Code != http.StatusOK || !strings.Contains(a.Body.String(), `<iframe src="https://shop.example.com/out?sid=1"`) || b.session() != "" {
		t.Errorf("POST /sign-out = %d, want the page with the frame and no session:\n%s", a.Code, a.Body)
	}
}
