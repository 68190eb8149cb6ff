package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// gate is a commit that waits for permission to proceed.
type gate struct {
	reached chan struct{}
	pass    chan error
}

func newGate() *gate { return &gate{reached: make(chan struct{}), pass: make(chan error)} }

func (g *gate) commit(txn *badger.Txn, seq uint64) error {
	g.reached <- struct{}{}
	if err := <-g.pass; err != nil {
		return err
	}
	return txn.CommitAt(seq, nil)
}

func gated(t *testing.T) (*Store, *gate) {
	t.Helper()
	g := newGate()
	s, err := OpenMemory(func(o *Options) { o.commit = g.commit })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, g
}

// waiting returns once n updates are in the queue.
func waiting(s *Store, n int) {
	for s.writer.queue.Len() < n {
		runtime.Gosched()
	}
}

func TestNobodyIsAnsweredBeforeTheSync(t *testing.T) {
	t.Parallel()
	s, g := gated(t)
	first := make(chan error, 1)
	go func() { first <- putKey(s, "first", "1") }()
	<-g.reached // the batch of the first is on its way; the following ones make up the second
	mine := errors.New("mine")
	var answered atomic.Int32
	var wg sync.WaitGroup
	for name, fn := range map[string]struct {
		fn   func(storage.Tx) error
		want error
	}{
		"writer":  {func(tx storage.Tx) error { return tx.Create([]byte("code"), nil, time.Time{}) }, nil},
		"writer2": {func(tx storage.Tx) error { return tx.Put([]byte("other"), nil, time.Time{}) }, nil},
		"reader":  {func(tx storage.Tx) error { _, err := tx.Get([]byte("first")); return err }, nil},
		"verdict": {func(storage.Tx) error { return mine }, mine},
	} {
		wg.Go(func() {
			if err := s.Update(context.Background(), fn.fn); !errors.Is(err, fn.want) {
				t.Errorf("%s: Update = %v, want %v", name, err, fn.want)
			}
			answered.Add(1)
		})
	}
	waiting(s, 4)
	g.pass <- nil
	<-g.reached
	if err := <-first; err != nil {
		t.Errorf("first Update = %v", err)
	}
	if n := answered.Load(); n != 0 {
		t.Errorf("%d updates were answered before the sync of their batch, want 0", n)
	}
	if v, err := getKey(s, "code"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a view sees %q, %v before the sync, want %v", v, err, storage.ErrNotFound)
	}
	g.pass <- nil
	wg.Wait()
	if st := s.Stats(); st.Commits != 2 || st.Updates != 5 || st.Records != 3 || st.Seq != 2 {
		t.Errorf("Stats = %+v, want 5 updates and 3 records in 2 commits", st)
	}
}

func TestBatchThatWroteNothingIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory(func(o *Options) {
		o.commit = func(*badger.Txn, uint64) error { return errors.New("nothing to commit") }
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Update(t.Context(), func(storage.Tx) error { return nil }); err != nil {
		t.Errorf("Update = %v, want nil", err)
	}
	if n := s.Stats().Commits; n != 0 {
		t.Errorf("commits = %d, want 0", n)
	}
}

func TestFailedCommitPoisons(t *testing.T) {
	t.Parallel()
	s, g := gated(t)
	broken := errors.New("input/output error")
	go func() { <-g.reached; g.pass <- nil }()
	mustPut(t, s, "a", "1")

	first := make(chan error, 1)
	go func() { first <- putKey(s, "b", "1") }()
	<-g.reached
	mine := errors.New("mine")
	results := make(chan error, 3)
	go func() { results <- putKey(s, "c", "1") }()
	go func() { results <- s.Update(context.Background(), func(storage.Tx) error { return mine }) }()
	go func() { results <- s.Update(context.Background(), func(storage.Tx) error { return nil }) }()
	waiting(s, 3)
	g.pass <- broken
	if err := <-first; !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, broken) {
		t.Errorf("Update = %v, want %v for %v", err, storage.ErrUnavailable, broken)
	}
	for range 3 {
		if err := <-results; !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("Update behind the failure = %v, want %v", err, storage.ErrUnavailable)
		}
	}
	if err := putKey(s, "d", "1"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("later Update = %v, want %v", err, storage.ErrUnavailable)
	}
	if _, err := getKey(s, "a"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("later View = %v, want %v", err, storage.ErrUnavailable)
	}
	if err := s.Check(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Check = %v, want %v", err, storage.ErrUnavailable)
	}
}

func TestPoisonEndsWithReopening(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fail := false
	s := mustOpen(t, dir, Options{SweepEvery: -1, commit: func(txn *badger.Txn, seq uint64) error {
		if fail {
			return errors.New("input/output error")
		}
		return txn.CommitAt(seq, nil)
	}})
	mustPut(t, s, "a", "1")
	fail = true
	if err := putKey(s, "a", "2"); !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("Update = %v, want %v", err, storage.ErrUnavailable)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	s = mustOpen(t, dir)
	wantKey(t, s, "a", "1")
	mustPut(t, s, "a", "3")
	wantKey(t, s, "a", "3")
}

func TestUpdatesShareSyncs(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	const writers, rounds = 64, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				if err := putKey(s, fmt.Sprintf("%d/%d", w, i), "v"); err != nil {
					t.Errorf("Update = %v", err)
				}
			}
		})
	}
	wg.Wait()
	if st := s.Stats(); st.Updates != writers*rounds || st.Commits > st.Updates/4 || st.Seq != st.Commits {
		t.Errorf("%d updates took %d commits, want %d and at most a quarter of it", st.Updates, st.Commits, writers*rounds)
	}
}

func TestBatchesAreSplit(t *testing.T) {
	t.Parallel()
	s, g := gated(t)
	value := string(make([]byte, storage.MaxValue))
	first := make(chan error, 1)
	go func() { first <- putKey(s, "first", "1") }()
	<-g.reached
	const n = 5
	results := make(chan error, n)
	for i := range n {
		go func() { results <- putKey(s, fmt.Sprint("large", i), value) }()
	}
	waiting(s, n)
	g.pass <- nil
	for range n { // two of them do not fit into one batch
		<-g.reached
		g.pass <- nil
	}
	for range n {
		if err := <-results; err != nil {
			t.Errorf("Update = %v", err)
		}
	}
	for i := range n {
		wantKey(t, s, fmt.Sprint("large", i), value)
	}
	if err := <-first; err != nil {
		t.Errorf("first Update = %v", err)
	}
}

func TestGivenUp(t *testing.T) {
	t.Parallel()
	s, g := gated(t)
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	go func() {
		results <- s.Update(ctx, func(tx storage.Tx) error { return tx.Put([]byte("ran"), nil, time.Time{}) })
	}()
	<-g.reached
	go func() {
		results <- s.Update(ctx, func(tx storage.Tx) error { return tx.Put([]byte("queued"), nil, time.Time{}) })
	}()
	waiting(s, 1)
	cancel()
	for range 2 { // neither waits for the disk
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("Update = %v, want %v", err, context.Canceled)
		}
	}
	go func() { results <- putKey(s, "after", "1") }()
	g.pass <- nil
	<-g.reached
	g.pass <- nil
	if err := <-results; err != nil {
		t.Errorf("Update = %v", err)
	}
	wantKey(t, s, "ran", "")
	if _, err := getKey(s, "queued"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get of what was given up before it ran = %v, want %v", err, storage.ErrNotFound)
	}
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	s, g := gated(t)
	var wg sync.WaitGroup
	wg.Go(func() { _ = putKey(s, "first", "1") })
	<-g.reached
	for i := range engine.MaxWaiting {
		wg.Go(func() { _ = putKey(s, fmt.Sprint(i), "1") })
	}
	waiting(s, engine.MaxWaiting)
	if err := putKey(s, "one more", "1"); !errors.Is(err, errBusy) {
		t.Errorf("Update = %v, want %v", err, errBusy)
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for open := true; open; {
		select {
		case g.pass <- nil:
		case <-g.reached:
		case <-done:
			open = false
		}
	}
	if n := s.Stats().Seq; n < 2 || n > engine.MaxWaiting {
		t.Errorf("commits = %d", n)
	}
}
