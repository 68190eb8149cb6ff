package calllog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

type harness struct {
	testing.TB
	store storage.Store
	now   time.Time
	rec   *audit.Recorder
	keep  *audit.Keeper
	log   *Log
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // in memory
	h := &harness{TB: t, store: storagetest.Twice(store), now: time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)}
	h.rec = &audit.Recorder{Random: rand.Reader, Now: h.clock}
	h.keep = audit.NewKeeper(h.store, h.clock, zap.NewNop())
	h.log = h.node(0)
	return h
}

func (h *harness) clock() time.Time { return h.now }

func (h *harness) node(lane int) *Log {
	l := New(h.store, h.clock, zap.NewNop())
	l.Recorder, l.Lane = func() *audit.Recorder { return h.rec }, func() int { return lane }
	return l
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// call records calls a millisecond apart.
func (h *harness) call(l *Log, n int, change ...func(*Call)) {
	h.Helper()
	for i := range n {
		h.now = h.now.Add(time.Millisecond)
		c := Call{
			At: h.now, Site: "https://api.example.com", Method: "GET", Path: "/orders/" + strconv.Itoa(i), Verdict: "allow",
			Status: 200, Sent: 512, ClientID: "shop", PersonID: "p" + strconv.Itoa(i%7), Username: "ada@example.com", IP: "192.0.2.1",
		}
		for _, f := range change {
			f(&c)
		}
		l.Add(&c)
		if i%4096 == 4095 {
			h.must(l.Flush(h.Context()))
		}
	}
	h.must(l.Flush(h.Context()))
}

func (h *harness) seal(logs ...*Log) {
	h.Helper()
	for _, l := range logs {
		h.must(l.Seal(h.Context()))
	}
	h.must(h.keep.Seal(h.Context()))
}

func (h *harness) problems(anchors ...audit.Anchor) (all []string, log audit.Verified) {
	h.Helper()
	list, err := Verify(h.Context(), h.store, anchors...)
	h.must(err)
	for _, v := range list {
		for _, p := range v.Problems {
			all = append(all, v.Chain+": "+p)
		}
		if v.Chain == "/calls" {
			log = v
		}
	}
	return all, log
}

func (h *harness) update(fn func(tx storage.Tx) error) {
	h.Helper()
	h.must(h.store.Update(context.Background(), fn))
}

// block changes a block in storage.
func (h *harness) block(first uint64, change func(*blockRecord)) {
	h.Helper()
	h.update(func(tx storage.Tx) error {
		b, err := blocks.Get(tx, blockKey(0, first))
		if err != nil {
			return err
		}
		change(&b)
		return blocks.Put(tx, blockKey(0, first), b, never)
	})
}

func (h *harness) find(s Search) (refs []string) {
	h.Helper()
	if s.Limit == 0 {
		s.Limit = 100
	}
	for {
		var found []Found
		var next audit.Cursor
		h.must(h.store.View(h.Context(), func(tx storage.Tx) (err error) {
			found, next, err = s.Find(tx)
			return err
		}))
		for _, f := range found {
			refs = append(refs, f.Ref)
		}
		if s.Behind = next; len(next) == 0 {
			return refs
		}
	}
}

// TestVerifyFindsOneLine: among many calls, one that was changed and one that was removed are both found.
// GATEHOUSE_CALLS sets how many there are.
func TestVerifyFindsOneLine(t *testing.T) {
	t.Parallel()
	h, n := newHarness(t), 10_000
	if text := os.Getenv("GATEHOUSE_CALLS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		h.must(err)
	}
	h.call(h.log, n)
	h.seal(h.log)
	want := uint64(n) //nolint:gosec // positive
	if all, log := h.problems(); len(all) > 0 || log.Events != want || log.Sealed != want || log.Unsealed != 0 || log.SealedAt.IsZero() {
		t.Fatalf("Verify = %+v, %q, want %d sound calls", log, all, n)
	}
	h.block(1025, func(b *blockRecord) {
		b.Lines[7] = slices.Concat(b.Lines[7][:20], []byte{b.Lines[7][20] + 1}, b.Lines[7][21:])
	})
	h.block(4097, func(b *blockRecord) { b.Lines = slices.Delete(b.Lines, 100, 101) })
	all, _ := h.problems()
	if len(all) != 2 || !strings.Contains(all[0], "a call of block 1025 (calls 1025 to 1536") ||
		!strings.Contains(all[1], "block 4097 (calls 4097 to 4608, up to 2026-05-01T12:00:04Z) has lost 1 of 512 calls") {
		t.Errorf("Verify = %q, want the changed call and the removed one", all)
	}
}

// TestVerifyFindsRewriting: someone who can write everything in storage but the chain of events is found.
func TestVerifyFindsRewriting(t *testing.T) {
	t.Parallel()
	rewrite := func(h *harness, from uint64, change func(*blockRecord)) {
		h.update(func(tx storage.Tx) error {
			head, err := heads.Get(tx, laneKey(0))
			if err != nil {
				return err
			}
			for first := from; first <= head.Last; {
				b, err := blocks.Get(tx, blockKey(0, first))
				if err != nil {
					return err
				}
				size := b.Count
				if first == from {
					change(&b)
				} else {
					b.Previous = head.Hash
				}
				b.Hash = b.sum(0)
				head.Hash = b.Hash
				if err := blocks.Put(tx, blockKey(0, first), b, never); err != nil {
					return err
				}
				first += size
			}
			return heads.Put(tx, laneKey(0), head, never)
		})
	}
	truncate := func(tx storage.Tx, head headRecord) error {
		for e, err := range blocks.Scan(tx, storage.Range{Prefix: []byte(laneKey(0)), After: []byte(blockKey(0, head.Block))}) {
			if err == nil {
				err = blocks.Delete(tx, e.Key)
			}
			if err != nil {
				return err
			}
		}
		return heads.Put(tx, laneKey(0), head, never)
	}
	for _, c := range []struct {
		name   string
		attack func(h *harness)
		want   string
	}{
		{"a changed call, and all hashes again", func(h *harness) {
			rewrite(h, 513, func(b *blockRecord) { b.Lines[0] = b.Lines[1] })
		}, "is not the one that the event of"},
		{"the last blocks, and the head set back", func(h *harness) {
			h.update(func(tx storage.Tx) error {
				b, err := blocks.Get(tx, blockKey(0, 513))
				if err != nil {
					return err
				}
				return truncate(tx, headRecord{Block: 513, Last: 1024, Sealed: 1024, Hash: b.Hash})
			})
		}, "the log ends with call 1024, and the event of"},
		{"all of it", func(h *harness) {
			h.update(func(tx storage.Tx) error {
				if err := truncate(tx, headRecord{}); err != nil {
					return err
				}
				return heads.Delete(tx, laneKey(0))
			})
		}, "confirms calls up to 2000"},
		{"a block", func(h *harness) {
			h.update(func(tx storage.Tx) error { return blocks.Delete(tx, blockKey(0, 513)) })
		}, "calls 513 to 1024 are missing"},
		{"a block behind the head", func(h *harness) {
			h.update(func(tx storage.Tx) error {
				return blocks.Create(tx, blockKey(0, 2001), blockRecord{First: 2001}, never)
			})
		}, "the log ends with call"},
		{"the confirming event", func(h *harness) {
			h.update(func(tx storage.Tx) error {
				for e, err := range tx.Scan(storage.Range{Prefix: []byte("event_log/")}) {
					if err == nil {
						err = tx.Delete(e.Key)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		}, "has lost 1 of 1 events"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.call(h.log, 2000)
			h.seal(h.log)
			if all, _ := h.problems(); len(all) > 0 {
				t.Fatalf("Verify = %q before the attack", all)
			}
			c.attack(h)
			if all, _ := h.problems(); !slices.ContainsFunc(all, func(p string) bool { return strings.Contains(p, c.want) }) {
				t.Errorf("Verify = %q, want %q", all, c.want)
			}
		})
	}
}

// TestAnchors: a head that was written down elsewhere is compared.
func TestAnchors(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.call(h.log, 600)
	_, log := h.problems()
	a, err := audit.ParseAnchor("/calls@" + log.Head)
	h.must(err)
	h.call(h.log, 600)
	if all, _ := h.problems(a); len(all) > 0 {
		t.Errorf("Verify with a true anchor = %q", all)
	}
	a.Hash = strings.Repeat("0", 64)
	if all, _ := h.problems(a, audit.Anchor{Chain: "/calls/node9", Block: 1}); len(all) != 2 {
		t.Errorf("Verify with a false anchor and one of another log = %q, want both", all)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	other := h.node(1)
	begin := h.now
	h.call(h.log, 1000)
	middle := h.now
	h.call(other, 3, func(c *Call) { c.Path, c.PersonID, c.ClientID, c.IP = "/secret/plan", "eve", "robot", "192.0.2.9" })
	h.call(h.log, 2, func(c *Call) { c.Path = "/secret/plan" })
	for _, c := range []struct {
		name string
		s    Search
		want []string
	}{
		{"a path", Search{Path: "/secret/plan"}, []string{"1-1002", "1-1001", "2-3", "2-2", "2-1"}},
		{"the beginning of a path", Search{Path: "/secret/*", Limit: 2}, []string{"1-1002", "1-1001", "2-3", "2-2", "2-1"}},
		{"no beginning without a star", Search{Path: "/secret/"}, nil},
		{"a person", Search{Person: "eve"}, []string{"2-3", "2-2", "2-1"}},
		{"a client", Search{Client: "robot", Limit: 1}, []string{"2-3", "2-2", "2-1"}},
		{"an address and a path", Search{Address: "192.0.2.1", Path: "/secret/*"}, []string{"1-1002", "1-1001"}},
		{"from a time on", Search{Since: middle.Add(2 * time.Millisecond)}, []string{"1-1002", "1-1001", "2-3", "2-2"}},
		{"before a time", Search{Until: begin.Add(3 * time.Millisecond)}, []string{"1-2", "1-1"}},
		{"another site", Search{Site: "https://wiki.example.com"}, nil},
	} {
		if got := h.find(c.s); !slices.Equal(got, c.want) {
			t.Errorf("%s: Find = %q, want %q", c.name, got, c.want)
		}
	}
	if n := len(h.find(Search{Limit: 7})); n != 1005 {
		t.Errorf("Find in parts found %d calls, want 1005", n)
	}
}

// TestLongCallsHideNoOther: a call is written when it ends, which can be hours after it began, so it can follow calls
// that are later than it. A search from a time on finds those all the same, and Collect keeps a call by its end.
func TestLongCallsHideNoOther(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	begin := h.now
	h.now = begin.Add(3 * time.Hour)
	h.call(h.log, 2) // 1-1 and 1-2
	since := h.now
	h.call(h.log, 2) // 1-3 and 1-4
	h.call(h.log, 1, func(c *Call) { c.At, c.Took, c.Path = begin, h.now.Sub(begin), "/download" })
	for _, c := range []struct {
		name string
		s    Search
		want []string
	}{
		{"after the beginning of the long call", Search{Since: since.Add(time.Microsecond)}, []string{"1-4", "1-3"}},
		{"and in parts", Search{Since: since.Add(time.Microsecond), Limit: 1}, []string{"1-4", "1-3"}},
		{"from its beginning on", Search{Since: begin}, []string{"1-5", "1-4", "1-3", "1-2", "1-1"}},
		{"after its end", Search{Since: h.now}, nil},
		{"before the others", Search{Until: begin.Add(time.Hour)}, []string{"1-5"}},
	} {
		if got := h.find(c.s); !slices.Equal(got, c.want) {
			t.Errorf("%s: Find = %q, want %q", c.name, got, c.want)
		}
	}
	h.seal(h.log)
	h.log.Keep(time.Hour)
	h.now = h.now.Add(59 * time.Minute)
	h.must(h.log.Collect(t.Context()))
	if all, log := h.problems(); len(all) > 0 || log.Events != 5 {
		t.Errorf("Verify = %+v, %q, want all 5 calls", log, all)
	}
	h.now = h.now.Add(2 * time.Minute)
	h.must(h.log.Collect(t.Context()))
	if all, log := h.problems(); len(all) > 0 || log.Events != 0 {
		t.Errorf("Verify = %+v, %q, want none an hour after their ends", log, all)
	}
}

// TestLogsOfNodesThatAreGone: the log of a node that does not come back is confirmed and collected by the others.
func TestLogsOfNodesThatAreGone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.call(h.node(3), 5)
	h.log.Keep(time.Hour)
	h.seal(h.log)
	if all, _ := h.problems(); len(all) > 0 || len(h.find(Search{})) != 5 {
		t.Fatalf("Verify = %q, want all 5 calls", all)
	}
	h.now = h.now.Add(2 * time.Hour)
	h.must(h.log.Collect(t.Context()))
	if all, _ := h.problems(); len(all) > 0 || len(h.find(Search{})) != 0 {
		t.Errorf("%d calls are left after their retention, problems %q", len(h.find(Search{})), all)
	}
}

// TestChainedCalls are events of their own, of the time when the calls have ended: a search that reads back to a time
// ends at the first event of an earlier one.
func TestChainedCalls(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	long := h.now
	h.now = h.now.Add(3 * time.Hour)
	h.call(h.log, 2, func(c *Call) { c.Chained, c.Rule = true, "office\r\nforged" })
	h.call(h.log, 1, func(c *Call) { c.Chained, c.At, c.Took = true, long, h.now.Sub(long) })
	h.seal(h.log)
	var found []audit.Numbered
	h.must(h.store.View(t.Context(), func(tx storage.Tx) (err error) {
		found, _, err = audit.Search{Partition: audit.DefaultPartition, Types: []string{"call."}, Limit: 10}.Find(tx)
		return err
	}))
	if len(found) != 3 || !strings.HasSuffix(found[0].Reason, ", took 3h0m0s") || found[0].Occurred.Before(found[1].Occurred) {
		t.Fatalf("events = %+v, want the long call last", found)
	}
	if found = found[1:]; found[0].Reason != "GET https://api.example.com/orders/1: allow by office  forged, status 200, 0 bytes received, 512 sent" ||
		found[0].PersonID != "p1" || found[0].ClientID != "shop" || found[0].Occurred.After(h.now) {
		t.Errorf("events = %+v, want both calls", found)
	}
	if got := h.find(Search{}); got != nil {
		t.Errorf("the log has %q too", got)
	}
}

// failing is a store that cannot write for a time.
type failing struct {
	storage.Store
	down bool
}

func (f *failing) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if f.down {
		return errors.New("disk full")
	}
	return f.Store.Update(ctx, fn)
}

// TestDiskFull: calls wait in memory, those that are too many are counted, and an event tells of them.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	store := &failing{Store: h.store, down: true}
	h.log.store = store
	add := func(n int) {
		for range n {
			h.log.Add(&Call{At: h.now, Path: "/"})
		}
	}
	add(1000)
	if err := h.log.Flush(t.Context()); err == nil {
		t.Fatal("Flush = nil on a full disk")
	}
	add(maxWaiting)
	if written, lost, waiting := h.log.Stats(); written != 0 || lost != 1000 || waiting != maxWaiting {
		t.Errorf("Stats = %d, %d, %d, want 1000 lost and %d waiting", written, lost, waiting, maxWaiting)
	}
	store.down = false
	h.must(h.log.Flush(t.Context()))
	h.must(h.log.Flush(t.Context()))
	if written, _, waiting := h.log.Stats(); written != maxWaiting || waiting != 0 {
		t.Errorf("Stats = %d written, %d waiting, want all that waited", written, waiting)
	}
	h.seal(h.log)
	if all, log := h.problems(); len(all) > 0 || log.Events != maxWaiting {
		t.Errorf("Verify = %+v, %q", log, all)
	}
	var found []audit.Numbered
	h.must(h.store.View(t.Context(), func(tx storage.Tx) (err error) {
		found, _, err = audit.Search{Partition: audit.DefaultPartition, Types: []string{eventLost.Type}, Limit: 10}.Find(tx)
		return err
	}))
	if len(found) != 1 || !strings.HasPrefix(found[0].Reason, "1000 calls were not recorded") {
		t.Errorf("events = %+v, want one about 1000 lost calls", found)
	}
}

// TestCollect: whole blocks go at the end of their retention, and the rest can still be verified.
func TestCollect(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.call(h.log, 1000)
	h.log.Keep(time.Hour)
	h.now = h.now.Add(2 * time.Hour)
	h.must(h.log.Collect(t.Context()))
	if _, log := h.problems(); log.Events != 1000 {
		t.Errorf("%d calls are left, want all: no event confirms them", log.Events)
	}
	h.seal(h.log)
	h.call(h.log, 10)
	h.must(h.log.Collect(t.Context()))
	all, log := h.problems()
	if len(all) > 0 || log.Events != 10 || log.From != 1001 || log.CutAt.IsZero() || log.Unsealed != 10 {
		t.Errorf("Verify = %+v, %q, want the 10 new calls", log, all)
	}
	if got := h.find(Search{}); len(got) != 10 {
		t.Errorf("Find = %q, want 10 calls", got)
	}
	h.block(1001, func(b *blockRecord) { b.Lines[3] = b.Lines[4] })
	if all, _ := h.problems(); len(all) != 1 {
		t.Errorf("Verify = %q, want the changed call", all)
	}
}

// TestAddConcurrently: what is added while others write is written once, also by two processes that share a lane.
func TestAddConcurrently(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	logs := []*Log{h.log, h.node(0)}
	var all sync.WaitGroup
	for n := range 8 {
		l := logs[n%2]
		all.Go(func() {
			for i := range 500 {
				l.Add(&Call{At: time.Unix(int64(i), 0), Path: fmt.Sprintf("/%d/%d", n, i)})
				if i%100 == 0 {
					if err := l.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	for _, l := range logs {
		h.must(l.Flush(t.Context()))
	}
	h.seal(h.log)
	if problems, log := h.problems(); len(problems) > 0 || log.Events != 4000 {
		t.Errorf("Verify = %+v, %q, want 4000 calls", log, problems)
	}
	if got := h.find(Search{}); len(got) != 4000 {
		t.Errorf("%d calls are found, want 4000", len(got))
	}
}

func BenchmarkAdd(b *testing.B) {
	h := newHarness(b)
	c := Call{At: h.now, Site: "https://api.example.com", Method: "GET", Path: "/orders/1", Verdict: "allow", Status: 200, ClientID: "shop"}
	b.ReportAllocs()
	for n := range b.N {
		h.log.Add(&c)
		if n%8192 == 0 {
			h.must(h.log.Flush(b.Context()))
		}
	}
}
