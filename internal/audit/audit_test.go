package audit_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

var (
	created = audit.Type{Type: "person.PersonCreatedEvent", Name: "Person Created"}
	issued  = audit.Type{Type: "token.AccessTokenIssuedEvent", Name: "Access Token Issued", Brief: true}
)

// harness is a store with a recorder, a keeper and a clock of its own.
type harness struct {
	testing.TB
	store storage.Store
	rec   *audit.Recorder
	keep  *audit.Keeper
	time  time.Time
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	return over(t, store)
}

func over(t testing.TB, store storage.Store) *harness {
	h := &harness{TB: t, store: store, time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	h.rec = &audit.Recorder{Random: rand.Reader, Now: h.now}
	h.keep = audit.NewKeeper(store, h.now, zap.NewNop())
	return h
}

func (h *harness) now() time.Time { return h.time }

// add appends an event in a transaction of its own and lets a second pass.
func (h *harness) add(kind audit.Type, person, actor string, more ...func(*audit.Event)) audit.Event {
	h.Helper()
	e, err := h.rec.New(kind, audit.Origin{ClientIP: "192.0.2.1", UserAgent: "UA\r\nforged: line"})
	h.must(err)
	e.PersonID, e.Actor = person, actor
	for _, fn := range more {
		fn(&e)
	}
	h.must(h.store.Update(context.Background(), func(tx storage.Tx) error { return h.rec.Append(tx, e) }))
	h.time = h.time.Add(time.Second)
	return e
}

func in(partition string) func(*audit.Event) {
	return func(e *audit.Event) { e.Partition = partition }
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// find returns the reasons of a page and the total.
func (h *harness) find(q audit.Query) (ids []string, total int) {
	h.Helper()
	h.must(h.store.View(context.Background(), func(tx storage.Tx) error {
		page, n, err := audit.Find(tx, q)
		for _, e := range page {
			ids = append(ids, e.ID)
		}
		total = n
		return err
	}))
	return ids, total
}

func (h *harness) count() (n int) {
	h.Helper()
	h.must(h.store.View(context.Background(), func(tx storage.Tx) error {
		for _, err := range eventtest.All(tx) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	}))
	return n
}

func TestAppend(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var ids []string
	for _, person := range []string{"p1", "p1", "p2", ""} {
		ids = append(ids, h.add(created, person, "admin").ID)
	}
	ids = append(ids, h.add(issued, "", "shop").ID, h.add(issued, "p1", "p1").ID)
	for _, tt := range []struct {
		name  string
		query audit.Query
		want  []string
	}{
		{"person", audit.Query{Person: "p1"}, []string{ids[5], ids[1], ids[0]}},
		{"another person", audit.Query{Person: "p2"}, []string{ids[2]}},
		{"actor, also of events without a person", audit.Query{Actor: "admin"}, []string{ids[3], ids[2], ids[1], ids[0]}},
		{"actor of brief events alone", audit.Query{Actor: "shop"}, nil},
		{"both", audit.Query{Person: "p1", Actor: "admin"}, []string{ids[1], ids[0]}},
		{"person who acted", audit.Query{Person: "p1", Actor: "p1"}, []string{ids[5]}},
		{"both, one wrong", audit.Query{Person: "p2", Actor: "p1"}, nil},
		{"unknown", audit.Query{Person: "p"}, nil},
		{"start of another's name", audit.Query{Actor: "admi"}, nil},
		{"nobody", audit.Query{Person: "' OR 1=1"}, nil},
	} {
		tt.query.Limit = 10
		got, total := h.find(tt.query)
		if !slices.Equal(got, tt.want) || total != len(tt.want) {
			t.Errorf("Find(%s) = %v, total %d, want %v", tt.name, got, total, tt.want)
		}
	}
	if n := h.count(); n != 6 {
		t.Errorf("All yields %d, want 6", n)
	}
	h.must(h.store.View(t.Context(), func(tx storage.Tx) error {
		var got []string
		for e, err := range audit.OfPerson(tx, "p1") {
			if err != nil {
				return err
			}
			got = append(got, e.ID)
			if e.UserAgent != "UA  forged: line" {
				t.Errorf("user agent = %q, want it on one line", e.UserAgent)
			}
		}
		if want := []string{ids[5], ids[1], ids[0]}; !slices.Equal(got, want) {
			t.Errorf("OfPerson = %v, want %v", got, want)
		}
		return nil
	}))
}

func TestFindPages(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var all []string
	for range 25 {
		all = append(all, h.add(created, "p", "a").ID)
	}
	slices.Reverse(all)
	for _, tt := range []struct{ limit, offset int }{{10, 0}, {10, 10}, {10, 20}, {10, 24}, {10, 25}, {10, 1 << 40}, {1, 7}, {1000, 0}} {
		got, total := h.find(audit.Query{Person: "p", Limit: tt.limit, Offset: tt.offset})
		from := min(tt.offset, len(all))
		if want := all[from:min(from+tt.limit, len(all))]; !slices.Equal(got, want) || total != 25 {
			t.Errorf("Find(limit %d, offset %d) = %d events, total %d, want %d of 25", tt.limit, tt.offset, len(got), total, len(want))
		}
	}
}

func TestNothingIsKeptOfAFailedOperation(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	e, err := h.rec.New(created, audit.Origin{})
	h.must(err)
	e.PersonID = "p"
	if err := h.store.Update(t.Context(), func(tx storage.Tx) error {
		h.must(h.rec.Append(tx, e))
		return storage.ErrExists
	}); err == nil {
		t.Fatal("Update returned nil")
	}
	if _, total := h.find(audit.Query{Person: "p", Limit: 1}); total != 0 || h.count() != 0 {
		t.Errorf("%d events after a failed operation, total %d", h.count(), total)
	}
}

func TestActorFillsTheEvent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, by := range []audit.Actor{
		{},
		{ID: "admin", Name: "admin API", Session: "s", Origin: audit.Origin{ClientIP: "192.0.2.7", UserAgent: "x"}},
	} {
		e, err := h.rec.New(created, by.Origin)
		h.must(err)
		e = by.Fill(e, "p", "why")
		want := by.Origin
		if want == (audit.Origin{}) {
			want = audit.Self
		}
		if e.ClientIP != want.ClientIP || e.UserAgent != want.UserAgent {
			t.Errorf("origin of an event by %+v = %s, %s, want %+v", by, e.ClientIP, e.UserAgent, want)
		}
		if e.Actor != by.ID || e.AgentUser != by.Name || e.SessionID != by.Session || e.PersonID != "p" || e.Reason != "why" {
			t.Errorf("event by %+v about p = %+v", by, e)
		}
		if e, err = h.rec.By(created, by); err != nil || e.Actor != by.ID || e.AgentUser != by.Name || e.SessionID != by.Session {
			t.Errorf("event by %+v = %+v, %v", by, e, err)
		}
	}
}

func TestAlsoIsCalledOncePerEventThatMayBeTold(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var told []string
	h.rec.Also = func(tx storage.Tx, at audit.Ref, e audit.Event) error {
		if got, err := audit.Get(tx, at); err != nil || got.ID != e.ID {
			t.Errorf("Get(%v) = %v, %v, want the event", at, got, err)
		}
		told = append(told, e.Type+" "+e.PersonID)
		return nil
	}
	h.add(created, "p", "a")
	h.add(issued, "", "shop")
	h.add(issued, "p", "p", in("west"))
	if want := []string{created.Type + " p", issued.Type + " p"}; !slices.Equal(told, want) {
		t.Errorf("Also was called with %v, want %v", told, want)
	}
	boom := fmt.Errorf("no room")
	h.rec.Also = func(storage.Tx, audit.Ref, audit.Event) error { return boom }
	e, err := h.rec.New(created, audit.Self)
	h.must(err)
	if err := h.store.Update(t.Context(), func(tx storage.Tx) error { return h.rec.Append(tx, e) }); err == nil {
		t.Error("Append succeeded although Also failed")
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\r\nb\x1b[31m\xff\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		out := audit.Clean(s)
		if !utf8.ValidString(out) || strings.ContainsAny(out, "\r\n\x00\x1b\x7f\u2028\u2029") || utf8.RuneCountInString(out) > 512 {
			t.Errorf("Clean(%q) = %q", s, out)
		}
	})
}

// TestLongTexts: a name in letters of several bytes, as long as someone can make it, is cut between two letters; the
// event can still be read.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	long := strings.Repeat("a", 255) + strings.Repeat("\u20ac", 1000)
	h.add(created, long, long, func(e *audit.Event) { e.AgentUser, e.ClientID, e.SessionID = long+"\x00", long, "x\xff\xfe" })
	h.must(h.store.View(t.Context(), func(tx storage.Tx) error {
		page, _, err := audit.Find(tx, audit.Query{Person: long, Limit: 5})
		if err != nil || len(page) != 1 {
			t.Fatalf("Find = %v, %v, want the event", page, err)
		}
		e := page[0]
		for name, s := range map[string]string{
			"person": e.PersonID, "actor": e.Actor, "client": e.ClientID,
			"session": e.SessionID, "name": e.AgentUser,
		} {
			if !utf8.ValidString(s) || len(s) > 256 && name != "name" || utf8.RuneCountInString(s) > 512 || strings.ContainsRune(s, 0) {
				t.Errorf("%s has %d bytes, valid UTF-8: %t", name, len(s), utf8.ValidString(s))
			}
		}
		if e.ClientID != long[:255] || e.SessionID != "x\ufffd" {
			t.Errorf("client %q, session %q", e.ClientID, e.SessionID)
		}
		return nil
	}))
}

// TestFindOfATimeBisects: the place of a time is found among many events without reading them.
func TestFindOfATimeBisects(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	start := h.time
	for i := range 300 {
		h.add(created, "p", "", func(e *audit.Event) {
			if i%7 == 0 {
				e.Occurred = e.Occurred.Add(-20 * time.Second) // stored late
			}
		})
		h.time = h.time.Add(29 * time.Second)
	}
	for _, q := range []audit.Query{
		{Since: start.Add(time.Hour), Until: start.Add(2 * time.Hour)},
		{Until: start.Add(10 * time.Minute)},
		{Since: start.Add(149 * time.Minute)},
		{Until: start.Add(-time.Second)},
	} {
		want := 0
		for i := range 300 {
			at := start.Add(time.Duration(i) * 30 * time.Second)
			if i%7 == 0 {
				at = at.Add(-20 * time.Second)
			}
			if (q.Since.IsZero() || !at.Before(q.Since)) && at.Before(orLate(q.Until)) {
				want++
			}
		}
		q.Person, q.Limit = "p", 10
		page, total := h.find(q)
		if total != want || len(page) != min(10, want) {
			t.Errorf("from %v until %v: %d events and %d on the page, want %d", q.Since, q.Until, total, len(page), want)
		}
	}
}

func orLate(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return t
}
