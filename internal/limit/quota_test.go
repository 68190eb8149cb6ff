package limit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

func rate(t testing.TB, text string) Rate {
	t.Helper()
	r, err := ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func memory(t *testing.T) storage.Store {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // in memory
	return storagetest.Twice(store)
}

// later is a time that the store does not collect at.
func later() *clock { return &clock{time.Date(2096, 5, 30, 12, 0, 0, 0, time.UTC)} }

func quotas(t *testing.T, store storage.Store, c *clock) *Quotas {
	t.Helper()
	q := newQuotas(store, 1000, c.Now, zap.NewNop())
	if err := q.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return q
}

func take(q *Quotas, k Key, r Rate, c *clock, n int) (passed int) {
	for range n {
		if q.take(k, r, "the quota", c.now).OK {
			passed++
		}
	}
	return passed
}

func flush(t *testing.T, q *Quotas) {
	t.Helper()
	if err := q.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func all(*Use) bool { return true }

var shop = Key{Rule: 1, Name: "shop"}

// TestQuotaOutlivesTheProcess: what was counted until the last write counts after a kill, in its period alone.
func TestQuotaOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	store, c, r := memory(t), later(), rate(t, "10/month")
	q := quotas(t, store, c)
	if n := take(q, shop, r, c, 6); n != 6 {
		t.Fatalf("%d of 6 passed", n)
	}
	flush(t, q)
	take(q, shop, r, c, 1) // is lost by the kill

	q = quotas(t, store, c)
	if n := take(q, shop, r, c, 10); n != 4 {
		t.Errorf("%d passed after the kill, want the 4 that were left", n)
	}
	if got := q.take(shop, r, "the quota", c.now); got.OK || got.Remaining != 0 || got.Retry != 36*time.Hour {
		t.Errorf("Take = %+v, want 36 hours to wait", got)
	}
	c.now = c.now.AddDate(0, 0, 2)
	if n := take(q, shop, r, c, 20); n != 10 {
		t.Errorf("%d passed in the next month, want 10", n)
	}
	flush(t, q)
	q = quotas(t, store, c)
	if n := take(q, shop, r, c, 1); n != 0 {
		t.Error("the next month begins again after a restart")
	}
}

// TestQuotaRaised: a larger quota leaves what was used.
func TestQuotaRaised(t *testing.T) {
	t.Parallel()
	c := later()
	q := quotas(t, memory(t), c)
	take(q, shop, rate(t, "10/d"), c, 10)
	if n := take(q, shop, rate(t, "15/d"), c, 10); n != 5 {
		t.Errorf("%d passed, want 5 more", n)
	}
}

// TestQuotaOfTwoNodes: what both count is bounded by the quota and what passes between two writes.
func TestQuotaOfTwoNodes(t *testing.T) {
	t.Parallel()
	store, c, r := memory(t), later(), rate(t, "100/d")
	a, b := quotas(t, store, c), quotas(t, store, c)
	total := 0
	for range 20 {
		total += take(a, shop, r, c, 4) + take(b, shop, r, c, 4)
		flush(t, a)
		flush(t, b)
		flush(t, a) // nothing is new, so nothing is counted twice
	}
	if total < 100 || total > 104 {
		t.Errorf("%d passed at two nodes, want 100, and at most the 4 between two writes more", total)
	}
}

// TestQuotaOfManyNodes: nodes that each see all of a quota's callers at once exceed it by at most a twentieth, and the
// last request of it can be had at one of them.
func TestQuotaOfManyNodes(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{2, 3} {
		for _, text := range []string{"4/d", "100/d", "2000/d"} {
			store, c, r := memory(t), later(), rate(t, text)
			var all []*Quotas
			for range nodes {
				q := quotas(t, store, c)
				q.Nodes = func() int { return nodes }
				all = append(all, q)
			}
			total := int64(0)
			for range 40 {
				for _, q := range all {
					total += int64(take(q, shop, r, c, int(r.Count)))
				}
				for _, q := range all {
					flush(t, q)
				}
			}
			if most := r.Count + r.Count/quotaSlices + int64(nodes) - 1; total < r.Count || total > most {
				t.Errorf("%d passed at %d nodes, want %d to %d", total, nodes, r.Count, most)
			}
			one := quotas(t, store, c)
			one.Nodes = func() int { return nodes }
			n, other := 0, Key{Rule: 1, Name: "other"}
			for range 40 {
				n += take(one, other, r, c, int(r.Count))
				flush(t, one)
			}
			if int64(n) != r.Count {
				t.Errorf("%d passed at one of %d nodes, want %d", n, nodes, r.Count)
			}
		}
	}
}

// TestQuotaMarks: the owner is told once, by one of the nodes, when 80 and 100 percent are used.
func TestQuotaMarks(t *testing.T) {
	t.Parallel()
	store, c, r := memory(t), later(), rate(t, "10/d")
	var told []string
	node := func() *Quotas {
		q := quotas(t, store, c)
		q.Announce = func() Tell {
			return func(_ storage.Tx, u Use, percent int64) error {
				if text := fmt.Sprintf("%s of %s %d of %d: %d", u.Name, u.About, u.Used, u.Limit, percent); !slices.Contains(told, text) {
					told = append(told, text) // it runs twice
				}
				return nil
			}
		}
		return q
	}
	a, b := node(), node()
	for range 6 {
		take(a, shop, r, c, 1)
		flush(t, a)
		take(b, shop, r, c, 1)
		flush(t, b)
	}
	if want := []string{"shop of the quota 8 of 10: 80", "shop of the quota 10 of 10: 100"}; !slices.Equal(told, want) {
		t.Errorf("told = %q, want %q", told, want)
	}
}

func TestQuotaLifted(t *testing.T) {
	t.Parallel()
	store, c, r := memory(t), later(), rate(t, "3/h")
	a, b := quotas(t, store, c), quotas(t, store, c)
	take(a, shop, r, c, 3)
	flush(t, a)
	take(b, shop, r, c, 1)
	flush(t, b)
	if n := take(b, shop, r, c, 1); n != 0 {
		t.Fatal("the other node does not know what was used")
	}
	if near := b.near(0.8, 10, c.now, all); len(near) != 1 || near[0].Used < 3 || near[0].Limit != 3 {
		t.Errorf("Near = %+v, want the quota that is used up", near)
	}
	if ok, err := a.lift(t.Context(), shop, func(storage.Tx, Key) error { return nil }); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if n := take(a, shop, r, c, 5); n != 3 {
		t.Errorf("%d passed after it was lifted, want 3", n)
	}
	a.giveBack(shop)
	if n := take(a, shop, r, c, 2); n != 1 {
		t.Errorf("%d passed after one was returned, want 1", n)
	}
	c.now = c.now.Add(time.Hour)
	if got := a.look(shop, r, c.now); !got.OK || got.Remaining != 2 {
		t.Errorf("Look in the next hour = %+v, want a new quota", got)
	}
}

// TestQuotaAcrossPeriods: what was not written when a period ended is written to that period.
func TestQuotaAcrossPeriods(t *testing.T) {
	t.Parallel()
	store, c, r := memory(t), later(), rate(t, "5/h")
	q := quotas(t, store, c)
	take(q, shop, r, c, 5)
	c.now = c.now.Add(time.Hour)
	take(q, shop, r, c, 2)
	flush(t, q)
	c.now = c.now.Add(-time.Hour) // as another node sees it
	if n := take(quotas(t, store, c), shop, r, c, 1); n != 0 {
		t.Error("the period that ended has lost what was used")
	}
}

// failing is a store that cannot write for a time.
type failing struct {
	storage.Store
	down atomic.Bool
}

func (f *failing) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if f.down.Load() {
		return errors.New("no")
	}
	return f.Store.Update(ctx, fn)
}

// TestQuotaWithoutStorage: requests are counted while storage fails, and written afterwards.
func TestQuotaWithoutStorage(t *testing.T) {
	t.Parallel()
	store, c, r := &failing{Store: memory(t)}, later(), rate(t, "10/d")
	q := quotas(t, store, c)
	store.down.Store(true)
	take(q, shop, r, c, 4)
	if err := q.Flush(t.Context()); err == nil {
		t.Fatal("Flush = nil, want an error")
	}
	if n := take(q, shop, r, c, 10); n != 6 {
		t.Errorf("%d passed while storage failed, want 6", n)
	}
	store.down.Store(false)
	flush(t, q)
	if n := take(quotas(t, store, c), shop, r, c, 1); n != 0 {
		t.Error("what was counted while storage failed was lost")
	}
}

// TestQuotaConcurrently counts and writes at once.
func TestQuotaConcurrently(t *testing.T) {
	t.Parallel()
	store, c, r := memory(t), later(), rate(t, "1000/d")
	q := quotas(t, store, c)
	var passed atomic.Int64
	var done sync.WaitGroup
	for range 10 {
		done.Go(func() {
			for range 200 {
				if q.take(shop, r, "the quota", c.now).OK {
					passed.Add(1)
				}
			}
		})
	}
	done.Go(func() {
		for range 20 {
			q.Flush(t.Context()) //nolint:errcheck // the last one counts
		}
	})
	done.Wait()
	flush(t, q)
	if n := passed.Load(); n != 1000 {
		t.Errorf("%d passed, want 1000", n)
	}
	if n := take(quotas(t, store, c), shop, r, c, 1); n != 0 {
		t.Error("not everything was written")
	}
}

// TestQuotaRoom: a table is bounded, and the quota that is used up stays.
func TestQuotaRoom(t *testing.T) {
	t.Parallel()
	c, r := later(), rate(t, "2/d")
	q := newQuotas(memory(t), 160, c.Now, zap.NewNop())
	take(q, shop, r, c, 3)
	for n := range 2000 {
		take(q, Key{Rule: 1, Name: fmt.Sprint(n)}, r, c, 1)
		if n%5 == 0 {
			flush(t, q)
		}
	}
	if n := take(q, shop, r, c, 1); n != 0 {
		t.Error("a quota that is used up was forgotten")
	}
	if n := len(q.near(0, 10_000, c.now, all)); n > 160 {
		t.Errorf("%d keys are remembered, want at most 160", n)
	}
	flush(t, q)
	again := newQuotas(q.store, 160, c.Now, zap.NewNop())
	if err := again.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range 2000 {
		k := Key{Rule: 1, Name: fmt.Sprint("new ", n)}
		if take(again, k, r, c, 1) != 1 {
			t.Fatalf("attack: new caller %d is refused after a restart, since those of before take all room", n)
		}
		if n%5 == 0 {
			flush(t, again)
		}
	}
}
