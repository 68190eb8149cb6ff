package cluster_test

import (
	"maps"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
)

// wantLanes fails unless the nodes number their events in these lanes.
func wantLanes(t *testing.T, what string, want map[*machine]int) {
	t.Helper()
	for m, lane := range want {
		if m.Lane() != lane {
			t.Errorf("%s: node %s is in lane %d, want %d", what, m.Host, m.Lane(), lane)
		}
	}
}

// TestEachNodeHasAChainOfEvents: two nodes never number in one chain for long, and there are only as many chains as
// there were nodes at a time: a node that starts takes over that of one that ended, or was killed a while ago.
func TestEachNodeHasAChainOfEvents(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	a, b, c := join(t, db, "a"), join(t, db, "b"), join(t, db, "c")
	all := map[*machine]int{a: 0, b: 1, c: 2}
	wantLanes(t, "at first", all)
	for m := range all {
		if m.beat(t); !m.HasLanes() {
			t.Errorf("node %s does not know of several chains", m.Host)
		}
	}
	wantLanes(t, "later", all)

	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	b = join(t, db, "b again")
	wantLanes(t, "after a restart", map[*machine]int{a: 0, b: 1, c: 2})
	hosts, err := cluster.Writers(t.Context(), db.Store)
	if want := map[int]string{0: "a", 1: "b again", 2: "c"}; err != nil || !maps.Equal(hosts, want) {
		t.Errorf("Writers = %v, %v, want %v", hosts, err, want)
	}

	// a is killed, or paused: its lane stays free as long as it can still write there.
	d := join(t, db, "d")
	db.clock.Advance(14 * time.Second)
	for _, m := range []*machine{b, c, d} {
		m.beat(t)
	}
	e := join(t, db, "e")
	wantLanes(t, "while a was seen a moment ago", map[*machine]int{d: 3, e: 4})
	db.clock.Advance(2 * time.Second)
	f := join(t, db, "f")
	wantLanes(t, "when a is not heard of", map[*machine]int{f: 0})
	if err := d.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.beat(t) // it comes back
	wantLanes(t, "when a comes back", map[*machine]int{a: 3, b: 1, c: 2, e: 4, f: 0})
	list, err := a.List(t.Context())
	for _, n := range list {
		if n.This && n.Lane != 4 {
			t.Errorf("List says that a is in lane %d, want the fourth", n.Lane)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// TestOneChainWhileAnOlderNodeWrites: an older version numbers all events in one chain and reads no other. So do the
// new nodes next to it, until the upgrade is finished.
func TestOneChainWhileAnOlderNodeWrites(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	older := joinAs(t, db, "older", 1)
	a, b := joinAs(t, db, "a", 2), joinAs(t, db, "b", 2)
	for _, m := range []*machine{a, b} {
		if m.beat(t); m.HasLanes() {
			t.Errorf("node %s writes several chains beside an older version", m.Host)
		}
	}
	wantLanes(t, "beside an older version", map[*machine]int{a: 0, b: 0})
	if err := older.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Finish(t.Context(), func(storage.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*machine{a, b} {
		if m.beat(t); !m.HasLanes() {
			t.Errorf("node %s still writes one chain", m.Host)
		}
	}
	wantLanes(t, "after the upgrade", map[*machine]int{a: 0, b: 1})
}

// TestMoreNodesThanChains: further nodes share the first chain.
func TestMoreNodesThanChains(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	last := 0
	for range 34 {
		last = join(t, db, "x").Lane()
	}
	if last != 0 {
		t.Errorf("the 34th node is in lane %d, want the first", last)
	}
}
