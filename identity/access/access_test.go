package access_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

const wiki, files = "https://wiki.example.com", "https://files.example.com"

// world is a store with requests, a clock, and the events that were told to others.
type world struct {
	*access.Service
	now  time.Time
	told []audit.Event
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	w := &world{now: time.Now()}
	now := func() time.Time { return w.now }
	also := func(_ storage.Tx, _ audit.Ref, e audit.Event) error { w.told = append(w.told, e); return nil }
	w.Service = access.New(access.Deps{Store: store, Events: &audit.Recorder{Random: rand.Reader, Now: now, Also: also}, Now: now})
	return w
}

var ada, ops = audit.Actor{ID: "ada-id", Name: "ada@example.com"}, audit.Actor{Name: "ops"}

func (w *world) ask(t *testing.T, site string) {
	t.Helper()
	if err := w.Ask(t.Context(), site, "to write the minutes", ada); err != nil {
		t.Fatalf("Ask = %v", err)
	}
}

// passes reports whether ada passes at a site. begin: by a new request.
func (w *world) passes(t *testing.T, site string, begin bool) bool {
	t.Helper()
	ok, on, err := w.Holds(t.Context(), ada.ID, site)
	if err == nil && ok != on.Until.After(w.now) {
		t.Errorf("Holds = %t until %v", ok, on.Until)
	}
	if err == nil && begin {
		ok, err = w.Use(t.Context(), ada.ID, site)
	}
	if err != nil {
		t.Fatalf("the grant cannot be read: %v", err)
	}
	return ok
}

// TestAskOnce: a person has one request for a site, and cannot flood those who read them.
func TestAskOnce(t *testing.T) {
	t.Parallel()
	t.Run("attack 334: operators are flooded", askOnce)
}

func askOnce(t *testing.T) {
	w := newWorld(t)
	for _, reason := range []string{"", "no", "  a ", "two\nlines", strings.Repeat("x", 301), "\xff\xff\xff\xff"} {
		if err := w.Ask(t.Context(), wiki, reason, ada); !errors.Is(err, access.ErrReason) {
			t.Errorf("Ask(%q) = %v, want ErrReason", reason, err)
		}
	}
	w.ask(t, wiki)
	if err := w.Ask(t.Context(), wiki, "once more", ada); !errors.Is(err, access.ErrOpen) {
		t.Errorf("Ask again = %v, want ErrOpen", err)
	}
	if _, err := w.Refuse(t.Context(), ada.ID, wiki, "not yet", ops); err != nil {
		t.Fatal(err)
	}
	if err := w.Ask(t.Context(), wiki, "please", ada); !errors.Is(err, access.ErrTooSoon) {
		t.Errorf("Ask after a refusal = %v, want ErrTooSoon", err)
	}
	w.now = w.now.Add(time.Hour + time.Second)
	w.ask(t, wiki)
	for i := range 19 {
		w.ask(t, fmt.Sprintf("https://site%d.example.com", i))
	}
	if err := w.Ask(t.Context(), files, "one more", ada); !errors.Is(err, access.ErrTooSoon) {
		t.Errorf("Ask for a 21st site = %v, want ErrTooSoon", err)
	}
	first := w.told[0]
	if first.Type != "access.AccessRequestedEvent" || first.PersonID != ada.ID || first.Actor != ada.ID ||
		first.Reason != wiki+": to write the minutes" {
		t.Errorf("operators are told %+v", first)
	}
	w.now = w.now.Add(31 * 24 * time.Hour)
	if list, err := w.List(t.Context(), access.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("after 31 days %d requests are left, %v", len(list), err)
	}
}

// TestGrantEnds: a grant holds for its site and person alone, and ends with its time, its uses, or at once.
func TestGrantEnds(t *testing.T) {
	t.Parallel()
	t.Run("attack 333: a grant is used after its end", grantEnds)
}

func grantEnds(t *testing.T) {
	w := newWorld(t)
	if _, err := w.Grant(t.Context(), ada.ID, wiki, access.Terms{For: time.Hour}, "", ops); !errors.Is(err, access.ErrNone) {
		t.Errorf("a grant that nobody asked for = %v, want ErrNone", err)
	}
	w.ask(t, wiki)
	if w.passes(t, wiki, true) {
		t.Error("a request alone lets its person pass")
	}
	for _, terms := range []access.Terms{{}, {For: -time.Hour}, {For: 366 * 24 * time.Hour}, {Uses: -1}, {Uses: 1001}} {
		if _, err := w.Grant(t.Context(), ada.ID, wiki, terms, "", ops); !errors.Is(err, access.ErrTerms) {
			t.Errorf("Grant(%+v) = %v, want ErrTerms", terms, err)
		}
	}
	grant := func(terms access.Terms) {
		t.Helper()
		r, err := w.Grant(t.Context(), ada.ID, wiki, terms, "for the audit", ops)
		if err != nil || r.State != access.Granted || r.By != "ops" || r.Note != "for the audit" {
			t.Fatalf("Grant = %+v, %v", r, err)
		}
	}
	grant(access.Terms{For: time.Hour})
	if !w.passes(t, wiki, true) || w.passes(t, files, true) {
		t.Error("a grant for the wiki holds elsewhere or not there")
	}
	if ok, err := w.Use(t.Context(), "another", wiki); ok || err != nil {
		t.Errorf("another person passes by the grant: %v", err)
	}
	w.now = w.now.Add(time.Hour + time.Second)
	if w.passes(t, wiki, true) || w.passes(t, wiki, false) {
		t.Error("a grant holds after its end")
	}
	grant(access.Terms{Uses: 2})
	for i, c := range []struct {
		later time.Duration
		want  bool
	}{{0, true}, {14 * time.Minute, true}, {2 * time.Minute, true}, {14 * time.Minute, true}, {2 * time.Minute, false}} {
		if w.now = w.now.Add(c.later); w.passes(t, wiki, true) != c.want {
			t.Errorf("request %d of a grant with 2 uses passes: %v", i, !c.want)
		}
	}
	if w.passes(t, wiki, false) {
		t.Error("what the last use has opened is open after that use")
	}
	grant(access.Terms{Uses: 1})
	if !w.passes(t, wiki, true) || !w.passes(t, wiki, false) {
		t.Error("the only use of a grant lets nobody pass")
	}
	if _, on, err := w.Holds(t.Context(), ada.ID, wiki); err != nil || on.Until.Sub(w.now).Round(time.Second) != 15*time.Minute {
		t.Errorf("a grant whose last use has begun ends %v, %v, want in 15 minutes", on.Until, err)
	}
	grant(access.Terms{For: time.Hour})
	if _, err := w.Revoke(t.Context(), ada.ID, wiki, "", ops); err != nil || w.passes(t, wiki, false) {
		t.Errorf("a revoked grant holds: %v", err)
	}
	if _, err := w.Revoke(t.Context(), ada.ID, wiki, "", ops); !errors.Is(err, access.ErrState) {
		t.Errorf("Revoke again = %v, want ErrState", err)
	}
	if last := w.told[len(w.told)-1]; last.Type != "access.AccessRevokedEvent" || last.AgentUser != "ops" || last.PersonID != ada.ID {
		t.Errorf("the last event is %+v", last)
	}
}

// TestUsesAtTheSameTime: many requests at once are one use.
func TestUsesAtTheSameTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ask(t, wiki)
	if _, err := w.Grant(t.Context(), ada.ID, wiki, access.Terms{Uses: 3}, "", ops); err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if ok, err := w.Use(t.Context(), ada.ID, wiki); ok && err == nil {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if r, err := w.Find(t.Context(), ada.ID, wiki); err != nil || r.Used != 1 || passed.Load() != 20 {
		t.Errorf("20 requests are %d uses, and %d passed, want 1 and 20: %v", r.Used, passed.Load(), err)
	}
}
