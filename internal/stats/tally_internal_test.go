package stats

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

var (
	signedIn = audit.Type{Type: "login.LoginSucceededEvent", Name: "Login Succeeded", Counts: audit.CountSignIn}
	tokenGot = audit.Type{Type: "token.AccessTokenRefreshedEvent", Name: "Access Token Refreshed", Counts: audit.CountActive}
	failed   = audit.Type{Type: "login.LoginFailedEvent", Name: "Login Failed", Counts: audit.CountFailed}
	other    = audit.Type{Type: "group.GroupCreatedEvent", Name: "Group Created"}
	noon     = time.Date(2096, 3, 4, 12, 0, 30, 0, time.UTC) // nothing of it expires by the clock of the engine
)

// harness is a store whose closures run twice, with a clock.
type harness struct {
	testing.TB
	store   storage.Store
	rec     *audit.Recorder
	counter *Counter

	mu   sync.Mutex // guards time
	time time.Time
}

func (h *harness) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.time
}

func (h *harness) set(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.time = at
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	return harnessOf(t, storagetest.Closures(t, store))
}

func harnessOf(t testing.TB, store storage.Store) *harness {
	h := &harness{TB: t, store: store, time: noon}
	h.rec = &audit.Recorder{Random: rand.Reader, Now: h.now, Note: func(tx storage.Tx, e audit.Event) error { return Event(tx, e, "") }}
	h.counter = New(store, h.now, zap.NewNop())
	return h
}

func (h *harness) happen(kind audit.Type, person, provider, client string) {
	h.Helper()
	e, err := h.rec.New(kind, audit.Self)
	if err == nil {
		e.PersonID, e.Provider, e.ClientID = person, provider, client
		err = h.store.Update(context.Background(), func(tx storage.Tx) error { return h.rec.Append(tx, e) })
	}
	if err != nil {
		h.Error(err)
	}
}

func (h *harness) merge() {
	h.Helper()
	if err := h.counter.Count(h.Context()); err != nil {
		h.Fatal(err)
	}
}

// read returns the totals of a query about a day around now.
func (h *harness) read(q Query) string {
	h.Helper()
	if q.Unit == "" {
		q.Unit = Day
	}
	if q.Since.IsZero() {
		q.Since, q.Until = noon.Truncate(time.Hour), noon.Add(time.Hour)
	}
	var found Answer
	err := h.store.View(h.Context(), func(tx storage.Tx) (err error) {
		found, err = Read(tx, q)
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	var out []string
	for _, s := range found.Series {
		sum := int64(0)
		for _, n := range s.Counts {
			sum += n
		}
		if sum != s.Total || len(s.Counts) != len(found.Starts) {
			h.Errorf("the %d counts of %q are %d together, and the total %d", len(s.Counts), s.Name, sum, s.Total)
		}
		out = append(out, fmt.Sprintf("%s:%d", s.Name, s.Total))
	}
	return strings.Join(out, " ")
}

func (h *harness) want(q Query, want string) {
	h.Helper()
	if got := h.read(q); got != want {
		h.Errorf("%s by %q per %s = %q, want %q", q.Measure, q.By, q.Unit, got, want)
	}
}

// TestSignInsOfADay: each sign-in is counted once, in all units and splits, although transactions run twice and two
// servers count at the same time.
func TestSignInsOfADay(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			h.happen(signedIn, fmt.Sprint("person", i%4), []string{"identity", "azure"}[i%2], "shop")
			h.happen(failed, "", "azure", "")
			h.happen(other, "person0", "", "")
		})
	}
	all.Wait()
	second := New(h.store, h.now, zap.NewNop())
	for range 2 {
		all.Go(func() { h.merge() })
		all.Go(func() {
			if err := second.Count(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, unit := range []Unit{Minute, Hour, Day} {
		h.want(Query{Measure: audit.CountSignIn, Unit: unit}, ":20")
		h.want(Query{Measure: audit.CountSignIn, Unit: unit, By: Provider}, "azure:10 identity:10")
		h.want(Query{Measure: audit.CountSignIn, Unit: unit, By: Application}, "shop:20")
		h.want(Query{Measure: audit.CountFailed, Unit: unit, By: Application}, ":20")
	}
	h.want(Query{Measure: ActivePersons}, ":4")
	h.want(Query{Measure: ActivePersons, By: Provider}, "azure:2 identity:2")
	h.want(Query{Measure: audit.CountNew}, ":0")
	h.want(Query{Measure: audit.CountNew, By: Provider}, "")
}

// TestPersonsOfADay: who signs in often, and gets tokens at several applications, is one person on that day, and one on
// the next day.
func TestPersonsOfADay(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.happen(signedIn, "ann", "identity", "shop")
	h.happen(tokenGot, "ann", "", "wiki")
	h.happen(tokenGot, "", "", "job") // a client for itself
	h.merge()
	h.happen(signedIn, "ann", "identity", "shop")
	h.happen(tokenGot, "bob", "", "wiki")
	h.merge()
	h.want(Query{Measure: ActivePersons}, ":2")
	h.want(Query{Measure: ActivePersons, By: Application}, "wiki:2 shop:1")
	h.set(noon.Add(24 * time.Hour))
	h.happen(signedIn, "ann", "identity", "shop")
	h.merge()
	h.want(Query{Measure: ActivePersons, Since: noon, Until: noon.Add(36 * time.Hour)}, ":3")
	h.want(Query{Measure: ActivePersons, Since: noon.Add(24 * time.Hour), Until: noon.Add(25 * time.Hour)}, ":1")

	// What is counted days later, after a long stop, cannot count a person twice.
	h.happen(signedIn, "eve", "identity", "shop")
	h.set(noon.Add(5 * 24 * time.Hour))
	h.counter = New(h.store, h.now, zap.NewNop())
	h.merge()
	h.want(Query{Measure: ActivePersons, Since: noon.Add(24 * time.Hour), Until: noon.Add(25 * time.Hour)}, ":1")
	h.want(Query{Measure: audit.CountSignIn, Since: noon.Add(24 * time.Hour), Until: noon.Add(25 * time.Hour)}, ":2")
}

// TestStatisticsOfARestoredBackup: a backup holds what is counted and what is not counted yet, so nothing is lost in
// it, and nothing counts twice.
func TestStatisticsOfARestoredBackup(t *testing.T) {
	t.Parallel()
	memory, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() }) //nolint:errcheck // a memory store
	h := harnessOf(t, memory)
	h.happen(signedIn, "ann", "identity", "shop")
	h.merge()
	h.happen(signedIn, "ann", "identity", "shop")
	h.happen(signedIn, "bob", "identity", "shop")
	var saved bytes.Buffer
	if err := memory.Backup(t.Context(), &saved); err != nil {
		t.Fatal(err)
	}
	h.merge()
	h.happen(signedIn, "cid", "identity", "shop")
	fresh, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fresh.Close() }) //nolint:errcheck // a memory store
	if _, err := (&transfer.Copy{From: transfer.FromBackup(bytes.NewReader(saved.Bytes())), To: fresh}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	restored := harnessOf(t, fresh)
	restored.merge()
	restored.merge()
	restored.want(Query{Measure: audit.CountSignIn}, ":3")
	restored.want(Query{Measure: ActivePersons}, ":2")
}

// TestManyApplications: someone who registers thousands of applications fills no table: those that are too many are
// counted together.
func TestManyApplications(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	err := h.store.Update(t.Context(), func(tx storage.Tx) error {
		for i := range maxValues + 200 {
			d := dueRecord{Measure: audit.CountSignIn, At: noon, By: map[Dimension]string{Application: fmt.Sprintf("client%04d", i)}}
			if err := dues.Put(tx, dueKey(noon, fmt.Sprintf("%04d", i)), d, never); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.merge()
	h.want(Query{Measure: audit.CountSignIn}, fmt.Sprint(":", maxValues+200))
	got := h.read(Query{Measure: audit.CountSignIn, By: Application})
	if n := len(strings.Fields(got)); n != mostSeen+1 || !strings.HasSuffix(got, fmt.Sprint(" (other):", maxValues+200-mostSeen)) {
		t.Errorf("%d series, the last %s", n, got[max(0, len(got)-30):])
	}
	kept := 0
	err = h.store.View(t.Context(), func(tx storage.Tx) error {
		kept = 0
		for _, err := range counts.Scan(tx, storage.Range{Prefix: []byte(series{Day, "", audit.CountSignIn, Application}.prefix())}) {
			if err != nil {
				return err
			}
			kept++
		}
		return nil
	})
	if err != nil || kept != maxValues+2 { // Other, and the number of values
		t.Errorf("%d counters of a day are kept, %v, want %d", kept, err, maxValues+2)
	}
}

// TestLateCommit: a sign-in whose transaction took longer than that of later ones is counted too.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	late, err := h.rec.New(signedIn, audit.Self)
	if err != nil {
		t.Fatal(err)
	}
	h.merge()
	h.set(noon.Add(lookBack + 5*time.Second))
	h.happen(signedIn, "bob", "identity", "")
	h.merge()
	if err := h.store.Update(t.Context(), func(tx storage.Tx) error { return h.rec.Append(tx, late) }); err != nil {
		t.Fatal(err)
	}
	h.set(noon.Add(wholeEvery))
	h.merge()
	h.want(Query{Measure: audit.CountSignIn}, ":2")
}

// TestDamagedStatistics: a record that cannot be read does not stop all counters.
func TestDamagedStatistics(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	err := h.store.Update(t.Context(), func(tx storage.Tx) error {
		return tx.Put(dues.Key(dueKey(noon, "bad")), []byte{0xff}, never)
	})
	if err != nil {
		t.Fatal(err)
	}
	h.happen(signedIn, "bob", "identity", "")
	h.merge()
	h.want(Query{Measure: audit.CountSignIn}, ":1")
}

// TestStatisticsOfPartitions: what happens in a partition is counted on its own and together.
func TestStatisticsOfPartitions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.rec.Note = func(tx storage.Tx, e audit.Event) error { return Event(tx, e, e.Partition) }
	for _, partition := range []string{"north", "south", "south"} {
		h.rec.PartitionOf = func(storage.Tx, string) (string, error) { return partition, nil }
		h.happen(signedIn, "ann of "+partition, "identity", "")
	}
	h.merge()
	h.want(Query{Measure: audit.CountSignIn}, ":3")
	h.want(Query{Measure: audit.CountSignIn, Partition: "south"}, ":2")
	h.want(Query{Measure: ActivePersons, Partition: "south"}, ":1")
	h.want(Query{Measure: audit.CountSignIn, Partition: "east"}, ":0")
}

// TestDenialsOfSites: what sites decide is written again after a failure of storage, and counted once.
func TestDenialsOfSites(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	broken := &brokenStore{Store: h.store}
	b := NewBuffer(broken, h.now, rand.Reader, zap.NewNop())
	b.Site("wiki.example.com").Denied()
	b.Site("wiki.example.com").Denied()
	b.Site("shop.example.com").Denied()
	b.Site("wiki.example.com").Admitted()
	b.Site("shop.example.com").Raised()
	b.Site("shop.example.com").Tried(true, false)
	b.Site("shop.example.com").Tried(false, true)
	b.Site("shop.example.com").Tried(true, true)
	b.Rule(RuleName("policy office", "allow", "staff", "Caddyfile:3")).Decided()
	b.Rule(RuleName("policy office", "deny", "", "Caddyfile:2")).Decided()
	b.Judged(80 * time.Microsecond)
	b.Judged(100 * time.Microsecond)
	b.Judged(3 * time.Millisecond)
	b.Judged(time.Minute)
	broken.fails = true
	b.Flush(t.Context())
	broken.fails = false
	b.Site("wiki.example.com").Denied()
	b.Site("wiki.example.com").Admitted()
	b.Flush(t.Context())
	b.Flush(t.Context())
	h.merge()
	h.want(Query{Measure: Denials}, ":4")
	h.want(Query{Measure: Denials, By: Site, Unit: Minute}, "wiki.example.com:3 shop.example.com:1")
	h.want(Query{Measure: Admissions, By: Site, Unit: Minute}, "wiki.example.com:2")
	h.want(Query{Measure: StepUps, By: Site, Unit: Minute}, "shop.example.com:1")
	h.want(Query{Measure: Tried, By: Site, Unit: Minute}, "shop.example.com:3")
	h.want(Query{Measure: TriedRefusals, By: Site, Unit: Minute}, "shop.example.com:1")
	h.want(Query{Measure: TriedEntries, By: Site, Unit: Minute}, "shop.example.com:1")
	h.want(Query{Measure: RuleDecisions, By: Rule, Unit: Minute}, "policy office: allow staff:1 policy office: deny Caddyfile:2:1")
	h.want(Query{Measure: Decisions, By: Latency}, "0.1:2 +Inf:1 5:1")
	if err := h.store.View(t.Context(), func(tx storage.Tx) error {
		got, err := Totals(tx, Query{Measure: Denials, By: Site, Unit: Hour, Since: noon.Add(-time.Hour), Until: noon.Add(time.Hour)},
			[]string{"wiki.example.com", "nobody.example.com"})
		if err == nil && (len(got) != 1 || got["wiki.example.com"] != 3) {
			t.Errorf("Totals = %v, want 3 of the wiki", got)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	(*Buffer)(nil).Site("").Denied()
	(*Buffer)(nil).Judged(0)
	(*Buffer)(nil).Rule("").Decided()
}

type brokenStore struct {
	storage.Store

	fails bool
}

func (b *brokenStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if b.fails {
		return storage.ErrUnavailable
	}
	return b.Store.Update(ctx, fn)
}

// TestQuestionsWithoutAnswer: a query that has no answer is refused in words.
func TestQuestionsWithoutAnswer(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for want, q := range map[string]Query{
		"there is no such measure":              {Measure: "logins", Unit: Day, Since: noon, Until: noon.Add(time.Hour)},
		"can be split by provider application":  {Measure: audit.CountSignIn, By: Site, Unit: Day, Since: noon, Until: noon.Add(time.Hour)},
		"unit must be minute, hour or day":      {Measure: audit.CountSignIn, Unit: "year", Since: noon, Until: noon.Add(time.Hour)},
		"active persons are counted per day":    {Measure: ActivePersons, Unit: Hour, Since: noon, Until: noon.Add(time.Hour)},
		"since must be before until":            {Measure: audit.CountSignIn, Unit: Day, Since: noon, Until: noon},
		"too long for unit minute: at most 3 h": {Measure: audit.CountSignIn, Unit: Minute, Since: noon, Until: noon.Add(4 * time.Hour)},
		"too long for unit day: at most 750 d":  {Measure: audit.CountSignIn, Unit: Day, Since: noon, Until: noon.Add(751 * 24 * time.Hour)},
		"since must be after 1970":              {Measure: audit.CountSignIn, Unit: Day, Since: time.Unix(-1, 0), Until: noon},
	} {
		err := h.store.View(t.Context(), func(tx storage.Tx) error {
			_, err := Read(tx, q)
			return err
		})
		if bad := new(QueryError); !errors.As(err, &bad) || !strings.Contains(bad.Problem, want) {
			t.Errorf("Read(%+v) = %v, want %q", q, err, want)
		}
	}
}

// TestLastOf: the newest sign-in and the newest failure of a provider are known, whatever order they are counted in.
func TestLastOf(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	last := func(measure string, by Dimension, value string) (out Last, found bool) {
		t.Helper()
		err := h.store.View(t.Context(), func(tx storage.Tx) (err error) {
			out, found, err = LastOf(tx, measure, by, value)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out, found
	}
	if _, found := last(audit.CountSignIn, Provider, "azure"); found {
		t.Error("somebody has signed in before anybody has")
	}
	h.set(noon.Add(time.Minute))
	h.happen(signedIn, "ann", "azure", "shop")
	h.merge()
	h.set(noon)
	h.happen(signedIn, "bob", "azure", "shop") // on a server whose clock is behind
	h.happen(failed, "", "azure", "shop")
	h.merge()
	if got, _ := last(audit.CountSignIn, Provider, "azure"); !got.At.Equal(noon.Add(time.Minute)) {
		t.Errorf("the last sign-in was at %v, want the newest one", got.At)
	}
	if got, found := last(audit.CountFailed, Provider, "azure"); !found || !got.At.Equal(noon) {
		t.Errorf("the last failure was at %v", got.At)
	}
	if got, found := last(audit.CountSignIn, Application, "shop"); !found || !got.At.Equal(noon.Add(time.Minute)) {
		t.Errorf("the application was last used at %v", got.At)
	}
	b := NewBuffer(h.store, h.now, rand.Reader, zap.NewNop())
	b.Called("billing", "203.0.113.7")
	b.Called("billing", "203.0.113.8")
	b.Flush(t.Context())
	h.merge()
	if got, found := last(Calls, APIClient, "billing"); !found || got.Address != "203.0.113.8" || !got.At.Equal(noon) {
		t.Errorf("the API client has called last: %+v", got)
	}
	if _, found := last(audit.CountFailed, Application, "shop"); found {
		t.Error("an application has failed")
	}
}

// scanning is a store that notes where scans of what is due begin.
type scanning struct {
	storage.Store

	from []string
}

func (s *scanning) View(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Store.View(ctx, func(tx storage.Tx) error { return fn(scanningTx{tx, s}) })
}

type scanningTx struct {
	storage.Tx

	s *scanning
}

func (t scanningTx) Scan(r storage.Range) iter.Seq2[storage.Record, error] {
	t.s.from = append(t.s.from, string(r.After))
	return t.Tx.Scan(r)
}

// What was counted leaves marks in the store for a while. A busy second is counted in several batches, and none of them
// looks through those of the batches before it: sign-ins would get slower the more of them there are.
func TestBatchesOfABusySecond(t *testing.T) {
	t.Parallel()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	h, s := harnessOf(t, store), &scanning{Store: store}
	h.counter.store = s
	err = store.Update(t.Context(), func(tx storage.Tx) error {
		for i := range 2*batch + 1 {
			if err := dues.Put(tx, dueKey(noon, fmt.Sprintf("%05d", i)), dueRecord{Measure: audit.CountFailed, At: noon}, never); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = h.counter.Count(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"", string(dues.Key(dueKey(noon, fmt.Sprintf("%05d", batch-1)))),
		string(dues.Key(dueKey(noon, fmt.Sprintf("%05d", 2*batch-1)))),
	}
	if diff := cmp.Diff(want, s.from); diff != "" {
		t.Errorf("beginnings of the scans (-want +got):\n%s", diff)
	}
}
