package session_test

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestSessionsOfOnePerson: the session that was used longest ago ends when the person signs in once too often.
func TestSessionsOfOnePerson(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, func(c *identity.Config) { c.Session.PerPerson = 3 })
	var browsers []*identitytest.Browser
	for range 3 {
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		browsers = append(browsers, b)
		h.Clock.Advance(2 * time.Minute)
	}
	browsers[0].Get("/next") // it was opened first, and is not the one that was used longest ago
	h.Clock.Advance(2 * time.Minute)
	before := h.Events()["session.SignedOutEvent"]
	fourth := h.Browser()
	fourth.SignIn(identitytest.Demo, identitytest.DemoPassword)
	for i, want := range []bool{true, false, true} {
		if got := browsers[i].IsSignedIn(); got != want {
			t.Errorf("browser %d is signed in: %t, want %t", i+1, got, want)
		}
	}
	if !fourth.IsSignedIn() || h.Stored("identity_session") != 3 || h.Stored("identity_sessions") != 1 ||
		h.Stored("identity_session_key") != 3 {
		t.Errorf("%d sessions are stored, want 3", h.Stored("identity_session"))
	}
	if n := h.Events()["session.SignedOutEvent"] - before; n != 1 {
		t.Errorf("%d events of the ended session, want 1: %v", n, h.Events())
	}
	// Signing in again in one browser ends none.
	h.DemandLogin()
	if again := fourth.Post(fourth.Get("/next?again=1"), "username", identitytest.Demo, "password",
		identitytest.DemoPassword); again.Code != http.StatusSeeOther {
		t.Fatalf("again: %d", again.Code)
	}
	if !browsers[0].IsSignedIn() || !browsers[2].IsSignedIn() {
		t.Error("signing in again in one browser has ended the session of another one")
	}
}

// scansOf counts the scans of one table.
type scansOf struct {
	storage.Store
	table string
	n     atomic.Int64
}

type scanningTx struct {
	storage.Tx
	of *scansOf
}

func (t scanningTx) Scan(r storage.Range) iter.Seq2[storage.Record, error] {
	if strings.HasPrefix(string(r.Prefix), t.of.table+"/") {
		t.of.n.Add(1)
	}
	return t.Tx.Scan(r)
}

func (s *scansOf) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Store.Update(ctx, func(tx storage.Tx) error { return fn(scanningTx{tx, s}) })
}

// TestSigningInAgainAndAgainScansNoSessions: a person who signs in for ever in new browsers does not slow the writes of
// others, since the marks that ended sessions leave in storage are not passed.
func TestSigningInAgainAndAgainScansNoSessions(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, func(c *identity.Config) { c.Session.PerPerson = 3 })
	h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
	counted := &scansOf{Store: h.Store.Store, table: "identity_session_of"}
	h.Store.Store = counted
	for range 10 {
		h.Clock.Advance(time.Minute)
		h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
	}
	if n := counted.n.Load(); n != 0 {
		t.Errorf("%d scans of the sessions of a person within updates, want none", n)
	}
	if h.Stored("identity_session") != 3 || h.Stored("identity_session_of") != 0 {
		t.Errorf("%d sessions are stored and %d listed as before, want 3 and 0", h.Stored("identity_session"), h.Stored("identity_session_of"))
	}
}

// TestSigningInReadsNoOtherSessions: a person with many sessions does not slow the writes of others: a sign-in reads
// the one that makes room, and not all of them.
func TestSigningInReadsNoOtherSessions(t *testing.T) {
	t.Parallel()
	const most = 8
	h := identitytest.New(t, func(c *identity.Config) { c.Session.PerPerson = most })
	for range most {
		h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
		h.Clock.Advance(time.Minute)
	}
	counted := &readsOf{Store: h.Store.Store, table: "identity_session"}
	h.Store.Store = counted
	for range most {
		h.Clock.Advance(time.Minute)
		before := counted.n.Load()
		h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
		if n := counted.n.Load() - before; n > 2 { // 2: closures can run twice in tests
			t.Errorf("%d sessions are read within updates, want the one that makes room", n)
		}
	}
	if h.Stored("identity_session") != most {
		t.Errorf("%d sessions are stored, want %d", h.Stored("identity_session"), most)
	}
}

// readsOf counts the reads of one table within updates.
type readsOf struct {
	storage.Store
	table string
	n     atomic.Int64
}

type readingTx struct {
	storage.Tx
	of *readsOf
}

func (t readingTx) Get(key []byte) ([]byte, error) {
	if strings.HasPrefix(string(key), t.of.table+"/") {
		t.of.n.Add(1)
	}
	return t.Tx.Get(key)
}

func (s *readsOf) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Store.Update(ctx, func(tx storage.Tx) error { return fn(readingTx{tx, s}) })
}

// TestEndedSessionsMakeRoomFirst: sessions that have ended by themselves make room before one that is still good.
func TestEndedSessionsMakeRoomFirst(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, func(c *identity.Config) { c.Session.PerPerson = 2 })
	kept := h.Browser()
	form := kept.Get("/next")
	if a := kept.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword, "remember",
		"yes"); a.Code != http.StatusSeeOther {
		t.Fatalf("sign-in: %d", a.Code)
	}
	h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
	h.Clock.Advance(2 * time.Hour)
	h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
	if !kept.IsSignedIn() || h.Stored("identity_session") != 2 {
		t.Errorf("the remembered session is good: %t, %d are stored, want true and 2", kept.IsSignedIn(), h.Stored("identity_session"))
	}
}

// TestCollectedSessionMakesRoom: a session whose record was collected before it made room is told to the watcher like
// any other. What others keep of a session would stay otherwise, and pile up with each sign-in.
func TestCollectedSessionMakesRoom(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, func(c *identity.Config) { c.Session.PerPerson = 2 })
	w := identitytest.NewWatcher()
	h.Person.Watch(w)
	var first string
	for i := range 3 {
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		if s, err := h.SessionOf(b); err != nil {
			t.Fatal(err)
		} else if i == 0 {
			first = "session " + s.SessionID + " of " + s.Subject
		}
		h.Clock.Advance(20 * 24 * time.Hour)
		if _, err := h.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if told := w.Told.Take(t, h.Store); !slices.Equal(told, []string{first}) {
		t.Errorf("told %q, want %q", told, first)
	}
}

// TestDevicesOfOnePerson: a person is recognised in so many browsers.
func TestDevicesOfOnePerson(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, func(c *identity.Config) { c.Session.PerPerson = 3 })
	for range 8 {
		h.Clock.Advance(time.Minute)
		h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
	}
	if n := h.Stored("identity_device"); n != 3 {
		t.Errorf("%d devices are stored, want 3", n)
	}
	h.CheckInvariants()
}
