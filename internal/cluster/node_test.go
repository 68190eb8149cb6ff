package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/clocktest"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
)

func newClock() *clocktest.Clock { return clocktest.New(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)) }

// database is a store that several nodes share.
type database struct {
	storage.Store

	clock *clocktest.Clock
	cut   atomic.Bool // nothing reaches it
}

var errCut = errors.New("the network is down")

func (d *database) Clock(context.Context) (time.Time, error) {
	if d.cut.Load() {
		return time.Time{}, errCut
	}
	return d.clock.Now(), nil
}

func (d *database) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if d.cut.Load() {
		return errCut
	}
	return d.Store.Update(ctx, fn)
}

// machine is a node, its way to the database, and its clock.
type machine struct {
	*cluster.Node

	way   *database
	clock *clocktest.Clock
}

func join(t *testing.T, db *database, host string) *machine {
	t.Helper()
	m := &machine{way: &database{Store: db.Store, clock: db.clock}, clock: db.clock}
	n, err := cluster.Join(t.Context(), m.way, cluster.Options{Host: host, Version: "v1", Now: m.clock.Now})
	if err != nil {
		t.Fatalf("Join = %v", err)
	}
	m.Node = n
	return m
}

func (m *machine) beat(t *testing.T) {
	t.Helper()
	if err := m.Beat(t.Context()); err != nil {
		t.Errorf("Beat = %v", err)
	}
}

// worker is the work of a role on one machine. begun gives its context, ended says when it has ended.
type worker struct {
	begun chan context.Context
	ended chan struct{}
}

func lead(t *testing.T, m *machine, role string) *worker {
	t.Helper()
	w := &worker{begun: make(chan context.Context), ended: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-done
	})
	go func() {
		defer close(done)
		m.Lead(ctx, role, func(term context.Context) {
			select {
			case w.begun <- term:
			case <-ctx.Done():
				return
			}
			<-term.Done()
			select {
			case w.ended <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	asked(t, m, role)
	return w
}

// asked waits until a machine wants a role, which Lead asks for in its goroutine.
func asked(t *testing.T, m *machine, role string) {
	t.Helper()
	for !m.Wants(role) {
		if t.Context().Err() != nil {
			t.Fatal("the role was not asked for")
		}
		runtime.Gosched()
	}
}

func (w *worker) idle(t *testing.T, who string) {
	t.Helper()
	select {
	case <-w.begun:
		t.Errorf("%s works too", who)
	default:
	}
}

var marks = storage.NewTable[string]("cluster_test_mark")

// mark writes as work does in a term, or after it.
func mark(m *machine, term context.Context, key string) error { //nolint:revive // of a term, not of the call
	return m.way.Store.Update(context.WithoutCancel(term), func(tx storage.Tx) error { return marks.Put(tx, key, m.Host, time.Time{}) })
}

func marked(t *testing.T, s storage.Store) string {
	t.Helper()
	var list []string
	err := s.View(t.Context(), func(tx storage.Tx) error {
		list = nil
		for e, err := range marks.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			list = append(list, e.Key+" by "+e.Value)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, ", ")
}

// TestPausedNode: one node of two works. One that was paused and comes back after its term writes nothing.
func TestPausedNode(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	a, b := join(t, db, "a"), join(t, db, "b")
	atA, atB := lead(t, a, "work"), lead(t, b, "work")
	a.beat(t)
	termA := <-atA.begun
	for range 10 {
		b.beat(t)
		db.clock.Advance(5 * time.Second)
		a.beat(t)
	}
	atB.idle(t, "b")
	if err := errors.Join(mark(a, termA, "1"), mark(a, termA, "2")); err != nil {
		t.Errorf("Update in the term = %v", err)
	}

	db.clock.Advance(9 * time.Second) // a is paused
	b.beat(t)
	atB.idle(t, "b, before the term of a is over,")
	db.clock.Advance(2 * time.Second)
	b.beat(t)
	termB := <-atB.begun
	if err := mark(a, termA, "4"); !errors.Is(err, cluster.ErrOver) { // it has not noticed
		t.Errorf("Update of a node that was paused = %v, want %v", err, cluster.ErrOver)
	}
	if err := mark(b, termB, "5"); err != nil {
		t.Errorf("Update of its successor = %v", err)
	}
	a.beat(t)
	<-atA.ended
	if err := mark(a, termA, "6"); !errors.Is(err, cluster.ErrOver) {
		t.Errorf("Update after it has noticed = %v, want %v", err, cluster.ErrOver)
	}
	if got, want := marked(t, db.Store), "1 by a, 2 by a, 5 by b"; got != want {
		t.Errorf("written: %s, want %s", got, want)
	}

	if err := b.Leave(t.Context()); err != nil { // which does not wait for the end of its term
		t.Errorf("Leave = %v", err)
	}
	<-atB.ended
	a.beat(t)
	next := <-atA.begun
	if err := mark(a, next, "7"); err != nil {
		t.Errorf("Update in the next term = %v", err)
	}
	if err := mark(a, termA, "8"); !errors.Is(err, cluster.ErrOver) {
		t.Errorf("Update of work of an earlier term = %v, want %v", err, cluster.ErrOver)
	}
}

// TestNodeThatReachesNothing: a node that cannot prolong its term ends its work when the term is over.
func TestNodeThatReachesNothing(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	a := join(t, db, "a")
	at := lead(t, a, "work")
	a.beat(t)
	<-at.begun
	a.way.cut.Store(true)
	for range 3 {
		db.clock.Advance(3 * time.Second)
		if err := a.Beat(t.Context()); !errors.Is(err, errCut) {
			t.Errorf("Beat = %v, want %v", err, errCut)
		}
	}
	select {
	case <-at.ended:
		t.Error("the work has ended before the term")
	default:
	}
	db.clock.Advance(2 * time.Second)
	if err := a.Beat(t.Context()); !errors.Is(err, errCut) {
		t.Errorf("Beat = %v, want %v", err, errCut)
	}
	<-at.ended
	a.way.cut.Store(false)
	a.beat(t)
	<-at.begun
}

// TestManyNodes: of many nodes that want a role at the same time one gets it.
func TestManyNodes(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	var all sync.WaitGroup
	list := make([]*machine, 20)
	begun := make(chan string, len(list))
	for i := range list {
		m := join(t, db, fmt.Sprint(i))
		list[i] = m
		w := lead(t, m, "work")
		go func() {
			select {
			case term := <-w.begun:
				if mark(m, term, m.Host) == nil {
					begun <- m.Host
				}
			case <-t.Context().Done():
			}
		}()
	}
	for range 3 {
		for _, m := range list {
			all.Go(func() { m.beat(t) })
		}
		all.Wait()
		db.clock.Advance(time.Second)
	}
	who := <-begun
	if got := marked(t, db.Store); got != who+" by "+who || len(begun) != 0 {
		t.Errorf("written: %s, want what %s has written", got, who)
	}
}

// TestClocks: a node whose clock is wrong does not start, and says so when it becomes wrong later.
func TestClocks(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	for _, off := range []time.Duration{-6 * time.Second, 6 * time.Second} {
		wrong := newClock()
		wrong.Advance(off)
		if _, err := cluster.Join(t.Context(), db, cluster.Options{Now: wrong.Now}); !errors.Is(err, cluster.ErrClock) ||
			!strings.Contains(err.Error(), "6s") {
			t.Errorf("Join with a clock that is off by %s = %v, want %v", off, err, cluster.ErrClock)
		}
	}
	own := newClock()
	n, err := cluster.Join(t.Context(), db, cluster.Options{Host: "a", Now: own.Now})
	if err != nil {
		t.Fatal(err)
	}
	own.Advance(-5500 * time.Millisecond)
	if err := n.Beat(t.Context()); err != nil {
		t.Errorf("Beat = %v", err)
	}
	if err := n.Check(); !errors.Is(err, cluster.ErrClock) || !strings.Contains(err.Error(), "5.5s behind") {
		t.Errorf("Check = %v, want %v", err, cluster.ErrClock)
	}
	own.Advance(5 * time.Second)
	if err := n.Beat(t.Context()); err != nil {
		t.Errorf("Beat = %v", err)
	}
	if err := n.Check(); err != nil {
		t.Errorf("Check with a clock that was set = %v", err)
	}
	list, err := n.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Ahead != -500 {
		t.Errorf("List = %+v, %v, want this node, half a second behind", list, err)
	}
}

// TestStorageWhoseClockWasAhead: what a node has begun while the clock of the storage was an hour ahead does not
// outlast the node: another one gets its role and its chain of events, and it counts as ended.
func TestStorageWhoseClockWasAhead(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	db.clock.Advance(time.Hour)
	a := join(t, db, "a")
	atA := lead(t, a, "work")
	a.beat(t)
	<-atA.begun
	lane := a.Lane()
	a.way.cut.Store(true) // it is dead
	db.clock.Advance(-time.Hour)
	b := join(t, db, "b")
	atB := lead(t, b, "work")
	b.beat(t)
	<-atB.begun
	if got := b.Lane(); got != lane {
		t.Errorf("the chain of events of the other node is %d, want %d, which nobody uses", got, lane)
	}
	list, err := b.List(t.Context())
	if err != nil || len(list) != 2 || !list[0].Alive || !list[0].This || list[1].Alive || len(list[1].Roles) != 0 {
		t.Errorf("List = %+v, %v, want one node that runs", list, err)
	}
}

func TestListOfNodes(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	if err := cluster.Unused(t.Context(), db); err != nil {
		t.Errorf("Unused of a new storage = %v", err)
	}
	a := join(t, db, "a")
	lead(t, a, "work")
	a.beat(t)
	db.clock.Advance(time.Minute)
	b := join(t, db, "b")
	lead(t, b, "work")
	lead(t, b, "more work")
	b.beat(t)
	list, err := b.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("List = %+v, %v, want two nodes", list, err)
	}
	if l := list[0]; l.Host != "b" || !l.Alive || !l.This || l.Version != "v1" || fmt.Sprint(l.Roles) != "[more work work]" ||
		!l.Seen.Equal(db.clock.Now()) {
		t.Errorf("the node that answers = %+v", l)
	}
	if n := b.Count(); n != 1 {
		t.Errorf("Count = %d, want the one that runs", n)
	}
	if l := list[1]; l.Host != "a" || l.Alive || l.This || len(l.Roles) != 0 {
		t.Errorf("a node that was last seen a minute ago = %+v", l)
	}
	if err := cluster.Unused(t.Context(), db); err == nil || !strings.Contains(err.Error(), "a server on b uses this storage") {
		t.Errorf("Unused = %v, want that b uses it", err)
	}
	if a.beat(t); a.Count() != 2 {
		t.Errorf("Count = %d after both were seen, want 2", a.Count())
	}
	for _, m := range []*machine{a, b} {
		if err := m.Leave(t.Context()); err != nil {
			t.Errorf("Leave = %v", err)
		}
	}
	if list, err := b.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List after the end = %+v, %v", list, err)
	}
	if err := cluster.Unused(t.Context(), db); err != nil {
		t.Errorf("Unused after the end = %v", err)
	}
}

// TestNodeOfItsOwnStorage: on a storage that one process has for itself, the node has every role, and writes nothing
// but the id of the storage.
func TestNodeOfItsOwnStorage(t *testing.T) {
	t.Parallel()
	s := memory(t)
	n, err := cluster.Join(t.Context(), s, cluster.Options{Host: "a"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n.Lead(ctx, "work", func(context.Context) {
		if err := s.Update(ctx, func(tx storage.Tx) error { return marks.Put(tx, "1", "a", time.Time{}) }); err != nil {
			t.Errorf("Update = %v", err)
		}
		if list, err := n.List(ctx); err != nil || len(list) != 1 || !list[0].Alive || !list[0].This || fmt.Sprint(list[0].Roles) != "[work]" {
			t.Errorf("List = %+v, %v", list, err)
		}
	})
	if list, err := n.List(ctx); err != nil || len(list) != 1 || len(list[0].Roles) != 0 {
		t.Errorf("List after the work = %+v, %v", list, err)
	}
	if err := errors.Join(cluster.Unused(ctx, s), n.Check()); err != nil {
		t.Errorf("Unused or Check = %v", err)
	}
	records := 0
	err = s.View(ctx, func(tx storage.Tx) error {
		for _, err := range tx.Scan(storage.Range{Prefix: []byte("cluster_")}) {
			if err != nil {
				return err
			}
			records++
		}
		return nil
	})
	if err != nil || records != 2 { // with the mark
		t.Errorf("%d records, %v, want the identity and the mark", records, err)
	}
}

// TestRunOfANode: Run takes a role as soon as it is asked for, and gives everything up at its end.
func TestRunOfANode(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	a := join(t, db, "a")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx)
	}()
	w := lead(t, a, "work")
	<-w.begun
	stop()
	<-done
	<-w.ended
	if list, err := a.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List after the end = %+v, %v", list, err)
	}
}

func joinAs(t *testing.T, db *database, host string, format int) *machine {
	t.Helper()
	m := &machine{way: &database{Store: db.Store, clock: db.clock}, clock: db.clock}
	n, err := cluster.Join(t.Context(), m.way, cluster.Options{Host: host, Version: fmt.Sprint("v", format), Format: format, Now: m.clock.Now})
	if err != nil {
		t.Fatalf("Join = %v", err)
	}
	m.Node = n
	return m
}

// TestRollingUpgrade: nodes of two versions work side by side and either way, until an operator says that none will go
// back. Then the older version is refused, also a node of it that was paused meanwhile.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	finished := 0
	finish := func(m *machine) (before, now int, err error) {
		return m.Finish(t.Context(), func(tx storage.Tx) error {
			finished++
			return marks.Put(tx, "finished", m.Host, time.Time{})
		})
	}
	older, paused := joinAs(t, db, "a", 1), joinAs(t, db, "p", 1)
	newer := joinAs(t, db, "b", 2)
	list, err := newer.List(t.Context())
	if err != nil || len(list) != 3 || list[2].Format+list[1].Format+list[0].Format != 4 {
		t.Errorf("List = %+v, %v", list, err)
	}
	for _, l := range list {
		if l.This && (l.Format != 2 || l.Written != 1) {
			t.Errorf("the new node = %+v, want that it could write format 2 and writes 1", l)
		}
	}
	if _, _, err := finish(newer); !errors.Is(err, cluster.ErrOlder) || !strings.Contains(err.Error(), "v1 on ") {
		t.Errorf("Finish beside an older version = %v, want %v", err, cluster.ErrOlder)
	}
	newer.beat(t)
	older.beat(t)
	if err := newer.Leave(t.Context()); err != nil { // and goes back
		t.Errorf("Leave = %v", err)
	}
	older.beat(t)

	newer = joinAs(t, db, "b", 2)
	if err := older.Leave(t.Context()); err != nil {
		t.Errorf("Leave = %v", err)
	}
	db.clock.Advance(16 * time.Second) // paused is not heard of
	newer.beat(t)
	if before, now, err := finish(newer); err != nil || before != 1 || now != 2 {
		t.Errorf("Finish = %d, %d, %v, want from 1 to 2", before, now, err)
	}
	if before, now, err := finish(newer); err != nil || before != 2 || now != 2 || finished != 1 {
		t.Errorf("Finish again = %d, %d, %v", before, now, err)
	}
	newer.beat(t)
	if _, err := cluster.Join(t.Context(), older.way, cluster.Options{Host: "a", Format: 1, Now: db.clock.Now}); !errors.Is(err,
		cluster.ErrNewer) || !strings.Contains(err.Error(), "format 2, this version reads 1") {
		t.Errorf("Join of the older version = %v, want %v", err, cluster.ErrNewer)
	}
	if err := paused.Beat(t.Context()); !errors.Is(err, cluster.ErrNewer) {
		t.Errorf("Beat of a node that was paused = %v, want %v", err, cluster.ErrNewer)
	}
	if err := paused.Check(); !errors.Is(err, cluster.ErrNewer) {
		t.Errorf("Check of a node that was paused = %v, want %v", err, cluster.ErrNewer)
	}
	if list, err := newer.List(t.Context()); err != nil || len(list) != 2 || !list[0].This || list[0].Written != 2 {
		t.Errorf("List = %+v, %v", list, err)
	}
}

// TestUpgradeOfOneServer: a storage that belongs to one server has its form from the start on.
func TestUpgradeOfOneServer(t *testing.T) {
	t.Parallel()
	s := memory(t)
	for _, format := range []int{1, 2, 2} {
		n, err := cluster.Join(t.Context(), s, cluster.Options{Host: "a", Format: format})
		if err != nil {
			t.Fatalf("Join with format %d = %v", format, err)
		}
		if before, now, err := n.Finish(t.Context(), nil); err != nil || before != format || now != format {
			t.Errorf("Finish = %d, %d, %v, want nothing to do", before, now, err)
		}
	}
	if _, err := cluster.Join(t.Context(), s, cluster.Options{Host: "a", Format: 1}); !errors.Is(err, cluster.ErrNewer) {
		t.Errorf("Join of the older version = %v, want %v", err, cluster.ErrNewer)
	}
}

// TestSilentNode: a node that has not reached the storage for long says so, until it has.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	a := join(t, db, "a")
	db.clock.Advance(14 * time.Second)
	if err := a.Check(); err != nil {
		t.Errorf("Check = %v", err)
	}
	a.way.cut.Store(true)
	db.clock.Advance(2 * time.Second)
	if err := a.Check(); !errors.Is(err, cluster.ErrSilent) || !strings.Contains(err.Error(), "16s") {
		t.Errorf("Check = %v, want %v", err, cluster.ErrSilent)
	}
	a.way.cut.Store(false)
	a.beat(t)
	if err := a.Check(); err != nil {
		t.Errorf("Check after a beat = %v", err)
	}
}
