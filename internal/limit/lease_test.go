package limit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// node returns one of several nodes of a store.
func node(store storage.Store, c *clock, nodes int) *Counters {
	out := NewCounters(store, c.Now, zap.NewNop())
	out.Quotas.Nodes = func() int { return nodes }
	return out
}

// TestLeases: several nodes let a caller pass as often as one does, whether it comes to one of them or to all, asks
// without a pause or at its rate: never more than the limit and one slice for each further node, and never less than
// nine tenths of it once leases are there.
func TestLeases(t *testing.T) {
	t.Parallel()
	for _, limit := range []struct {
		text  string
		burst int64
	}{{"100/min", 20}, {"600/min", 10}, {"1000/s", 100}, {"50/s", 50}, {"30/min", 1}} {
		for _, nodes := range []int{2, 3} {
			for _, how := range []string{"one", "turns", "drawn", "moves", "mostly one"} {
				t.Run(fmt.Sprintf("%s of %d nodes, %s", limit.text, nodes, how), func(t *testing.T) {
					t.Parallel()
					seesLimit(t, bucket(t, limit.text, limit.burst), nodes, how)
				})
			}
		}
	}
}

func seesLimit(t *testing.T, b *Bucket, nodes int, how string) {
	store, c := memory(t), later()
	var all []*Counters
	for range nodes {
		all = append(all, node(store, c, nodes))
	}
	draw := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	k := Key{Rule: 1, Name: "shop"}
	const seconds = 120
	steps := max(10, int(3*int64(time.Second)/b.every/int64(nodes))*nodes) // in a second: three times the rate
	var passed int64
	slice := int64(nodes-1)*b.part(int64(nodes)).Burst + b.ahead() - b.Burst + 1
	for second := range seconds {
		for step := range steps {
			c.now = c.now.Add(time.Second / time.Duration(steps))
			at := 0
			switch how {
			case "turns":
				at = step % nodes
			case "drawn":
				at = draw.IntN(nodes)
			case "moves":
				at = second / 20 % nodes
			case "mostly one":
				if step%10 == 0 {
					at = 1
				}
			}
			if all[at].Take(false, k, b, c.now).OK {
				passed++
			}
		}
		for _, n := range all {
			if err := n.share(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		exact := b.Burst + (int64(second)+1)*int64(time.Second)/b.every
		if passed > exact+slice {
			t.Fatalf("%d passed in %d seconds, want at most the %d of one node and a slice of %d", passed, second+1, exact, slice)
		}
	}
	if exact := b.Burst + seconds*int64(time.Second)/b.every; passed < exact*9/10-2 {
		t.Errorf("%d passed in %d seconds, want nearly the %d of one node", passed, seconds, exact)
	}
}

// drive has a caller ask at nodes in turn for some seconds, so many times in each, and returns how often it passed in
// the last ten.
func drive(t *testing.T, c *clock, k Key, b *Bucket, all []*Counters, seconds, asks int) (passed int) {
	t.Helper()
	for second := range seconds {
		for step := range asks {
			c.now = c.now.Add(time.Second / time.Duration(asks))
			if all[step%len(all)].Take(false, k, b, c.now).OK && second >= seconds-10 {
				passed++
			}
		}
		for _, n := range all {
			n.share(t.Context()) //nolint:errcheck // it fails in one test
		}
	}
	return passed
}

// TestLeasesBelowTheLimit: a caller that asks less often than it may is not refused, at whichever node it asks.
func TestLeasesBelowTheLimit(t *testing.T) {
	t.Parallel()
	store, c := memory(t), later()
	all := []*Counters{node(store, c, 2), node(store, c, 2)}
	b, k := bucket(t, "100/s", 20), Key{Rule: 1, Name: "shop"}
	if n := drive(t, c, k, b, all, 40, 90); n != 900 {
		t.Errorf("%d of 900 passed at two nodes", n)
	}
	if n := drive(t, c, k, b, all[:1], 20, 90); n != 900 {
		t.Errorf("%d of 900 passed when the caller came to one node alone", n)
	}
	if n := drive(t, c, k, b, all[1:], 20, 90); n != 900 {
		t.Errorf("%d of 900 passed when it came to the other", n)
	}
}

// TestLeasesWithoutStorage: while storage fails, each node has its part of the limit, and afterwards what they need.
func TestLeasesWithoutStorage(t *testing.T) {
	t.Parallel()
	store, c := &failing{Store: memory(t)}, later()
	all := []*Counters{node(store, c, 2), node(store, c, 2)}
	b, k := bucket(t, "100/s", 20), Key{Rule: 1, Name: "shop"}
	drive(t, c, k, b, all, 20, 300)
	store.down.Store(true)
	if n := drive(t, c, k, b, all, 20, 300); n < 980 || n > 1020 {
		t.Errorf("%d passed in ten seconds without storage, want 1000", n)
	}
	store.down.Store(false)
	if n := drive(t, c, k, b, all[:1], 20, 90); n != 900 {
		t.Errorf("%d of 900 passed at one node afterwards", n)
	}
}

// TestSharedLimitIsListedAndLifted: a node says who is above a limit, and lifts it, also if others have used it.
func TestSharedLimitIsListedAndLifted(t *testing.T) {
	t.Parallel()
	store, c := memory(t), later()
	all := []*Counters{node(store, c, 2), node(store, c, 2)}
	b, k := bucket(t, "30/min", 10), Key{Rule: 1, Name: "shop"}
	drive(t, c, k, b, all, 5, 20)
	for i, n := range all {
		near := n.Near(0.8, 10, c.now, nil)
		if len(near) != 1 || near[0].Used < 8 || near[0].Retry == 0 {
			t.Errorf("Near at node %d = %+v, want the caller", i, near)
		}
	}
	if err := all[0].Lift(t.Context(), k.ID(), func(storage.Tx, Key) error { return nil }); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for range 20 {
		if all[0].Take(false, k, b, c.now).OK {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d passed at once after the limit was lifted, want the 5 of one of two nodes", passed)
	}
	all[0].Return(k, b)
	if !all[0].Take(false, k, b, c.now).OK || all[0].Take(false, k, b, c.now).OK {
		t.Error("what was returned cannot be had again exactly once")
	}
	if look := all[0].Rehearsed().Take(false, k, b, c.now); look.OK || look.Remaining != 0 {
		t.Errorf("a rehearsal says %+v, want a refusal", look)
	}
	if got := all[1].Rehearsed().Take(false, Key{Rule: 1, Name: "other"}, b, c.now); !got.OK {
		t.Errorf("a rehearsal of another caller says %+v", got)
	}
}

// TestAddressesStayOnTheirNode: strangers do not write to the storage.
func TestAddressesStayOnTheirNode(t *testing.T) {
	t.Parallel()
	store, c := &failing{Store: memory(t)}, later()
	store.down.Store(true)
	n := node(store, c, 2)
	b := bucket(t, "2/min", 2)
	for range 5 {
		n.Take(true, address(1), b, c.now)
	}
	if err := n.share(t.Context()); err != nil {
		t.Errorf("an address was written: %v", err)
	}
	n.Take(false, Key{Name: "shop"}, b, c.now)
	if err := n.share(t.Context()); err == nil {
		t.Error("a caller was not written")
	}
}

// TestFill: the metrics say how full the tables are.
func TestFill(t *testing.T) {
	t.Parallel()
	c := later()
	n := node(memory(t), c, 1)
	b := bucket(t, "2/min", 2)
	for i := range 600 {
		n.Take(true, address(uint32(i)), b, c.now)
		n.Take(false, Key{Name: fmt.Sprint(i)}, b, c.now)
	}
	n.TakeQuota(shop, rate(t, "5/d"), "", c.now)
	if got := n.Fill(); got["addresses"] != 0.001 || got["callers"] != 0.003 || got["quotas"] != 1.0/quotaKeys {
		t.Errorf("Fill = %v", got)
	}
}

func BenchmarkTakeShared(b *testing.B) {
	n := node(nil, later(), 2)
	bucket, k := bucket(b, "20/s", 20), Key{Rule: 7, Name: "a-client-of-usual-length"}
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(100 * time.Millisecond)
		n.Take(false, k, bucket, now)
	}
}
