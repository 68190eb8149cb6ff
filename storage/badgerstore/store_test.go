package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/storage"
)

// mustOpen opens a store of dir; o may be given.
func mustOpen(t *testing.T, dir string, o ...Options) *Store {
	t.Helper()
	opt := Options{SweepEvery: -1}
	if len(o) > 0 {
		opt = o[0]
	}
	opt.Dir = dir
	s, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func putKey(s *Store, key, value string) error {
	return s.Update(context.Background(), func(tx storage.Tx) error {
		return tx.Put([]byte(key), []byte(value), time.Time{})
	})
}

func mustPut(t *testing.T, s *Store, key, value string) {
	t.Helper()
	if err := putKey(s, key, value); err != nil {
		t.Fatalf("Put(%q) = %v", key, err)
	}
}

func getKey(s *Store, key string) (value string, err error) {
	err = s.View(context.Background(), func(tx storage.Tx) error {
		v, err := tx.Get([]byte(key))
		value = string(v)
		return err
	})
	return value, err
}

func wantKey(t *testing.T, s *Store, key, want string) {
	t.Helper()
	if got, err := getKey(s, key); err != nil || got != want {
		t.Errorf("Get(%q) = %q, %v, want %q", key, got, err, want)
	}
}

// gate is a commit that waits to be let through.
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
	for {
		s.writer.mu.Lock()
		got := len(s.writer.queue)
		s.writer.mu.Unlock()
		if got >= n {
			return
		}
		runtime.Gosched()
	}
}

func TestNobodyIsAnsweredBeforeTheSync(t *testing.T) {
	t.Parallel()
	s, g := gated(t)
	first := make(chan error, 1)
	go func() { first <- putKey(s, "first", "1") }()
	<-g.reached // the batch of the first is on its way; what follows makes up the second
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

func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var free atomic.Uint64
	free.Store(1 << 30)
	opt := Options{SweepEvery: -1, FreeSpace: func(d string) (uint64, error) {
		if d != dir {
			t.Errorf("FreeSpace(%q), want %q", d, dir)
		}
		return free.Load(), nil
	}}
	s := mustOpen(t, dir, opt)
	mustPut(t, s, "a", "1")
	free.Store(DefaultMinFree - 1)
	ran := false
	err := s.Update(t.Context(), func(tx storage.Tx) error {
		ran = true
		return tx.Put([]byte("b"), nil, time.Time{})
	})
	if !errors.Is(err, storage.ErrFull) || ran {
		t.Errorf("Update on a full disk = %v, ran %t, want %v before it runs", err, ran, storage.ErrFull)
	}
	if err := s.Check(t.Context()); !errors.Is(err, storage.ErrFull) {
		t.Errorf("Check = %v, want %v", err, storage.ErrFull)
	}
	wantKey(t, s, "a", "1")
	free.Store(DefaultMinFree)
	mustPut(t, s, "b", "1")
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check = %v, want nil", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	free.Store(0)
	opt.Dir = dir
	if s, err := Open(t.Context(), opt); !errors.Is(err, storage.ErrFull) || !strings.Contains(err.Error(), "128 MiB are needed") {
		t.Errorf("Open on a full disk = %v, %v, want %v", s, err, storage.ErrFull)
	}
	free.Store(1 << 30)
	s = mustOpen(t, dir, opt)
	wantKey(t, s, "b", "1")
}

func TestFreeSpaceUnknown(t *testing.T) {
	t.Parallel()
	broken := errors.New("stale file handle")
	var fails atomic.Bool
	s, err := OpenMemory(func(o *Options) {
		o.FreeSpace = func(string) (uint64, error) {
			if fails.Load() {
				return 0, broken
			}
			return 1 << 40, nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fails.Store(true)
	if err := putKey(s, "a", "1"); !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, broken) {
		t.Errorf("Update = %v, want %v for %v", err, storage.ErrUnavailable, broken)
	}
	fails.Store(false)
	mustPut(t, s, "a", "1")
}

func TestSecondOpener(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustPut(t, s, "a", "1")
	_, err := Open(t.Context(), Options{Dir: dir})
	if !errors.Is(err, errInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second Open = %v, want %v", err, errInUse)
	}
	if err := Restore(t.Context(), Options{Dir: dir}, strings.NewReader(""), nil); !errors.Is(err, errInUse) {
		t.Errorf("Restore into an open directory = %v, want %v", err, errInUse)
	}
	mustPut(t, s, "b", "1")
	wantKey(t, s, "a", "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir)
	wantKey(t, s, "b", "1")
}

func TestDirectoryIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	mustOpen(t, dir)
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode of the directory = %v, %v, want 0700", st.Mode(), err)
	}
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
	for range n { // two of them do not fit in one batch
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
	for i := range maxWaiting {
		wg.Go(func() { _ = putKey(s, fmt.Sprint(i), "1") })
	}
	waiting(s, maxWaiting)
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
	if n := s.Stats().Seq; n < 2 || n > maxWaiting {
		t.Errorf("commits = %d", n)
	}
}

func TestBrokenRecordIsCorrupt(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, k := range []string{"a", "b", "c"} {
		mustPut(t, s, k, "value of "+k)
	}
	good := encodeRecord([]byte("a"), []byte("value of a"), time.Time{})
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	for name, stored := range map[string][]byte{
		"flipped": flipped, "short": good[:10], "empty": {}, "under another key": encodeRecord([]byte("b"), []byte("x"), time.Time{}),
	} {
		txn := s.db.NewTransactionAt(s.writer.seq, true)
		if err := errors.Join(txn.Set([]byte("ra"), stored), txn.CommitAt(s.writer.seq, nil)); err != nil {
			t.Fatal(err)
		}
		if v, err := getKey(s, "a"); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: Get = %q, %v, want %v", name, v, err, storage.ErrCorrupt)
		}
		err := s.View(t.Context(), func(tx storage.Tx) error {
			n := 0
			for rec, err := range tx.Scan(storage.Range{}) {
				n++
				if err != nil {
					return err
				}
				t.Errorf("%s: Scan yields %q", name, rec.Key)
			}
			return fmt.Errorf("%d yields without an error", n)
		})
		if !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: Scan = %v, want %v", name, err, storage.ErrCorrupt)
		}
		err = s.Update(t.Context(), func(tx storage.Tx) error { return tx.Create([]byte("a"), nil, time.Time{}) })
		if !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: Create = %v, want %v", name, err, storage.ErrCorrupt)
		}
		if err := s.Backup(t.Context(), &bytes.Buffer{}); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: Backup = %v, want %v", name, err, storage.ErrCorrupt)
		}
	}
	mustPut(t, s, "a", "new")
	wantKey(t, s, "a", "new")
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	for name, tc := range map[string]struct {
		expires time.Time
		want    uint64
	}{
		"never":       {time.Time{}, 0},
		"some time":   {at, uint64(at.Unix()) + 1 + 3600},
		"the epoch":   {time.Unix(0, 0), 3601},
		"before":      {time.Unix(-1e6, 0), 1},
		"far away":    {time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), uint64(time.Date(9999, 12, 31, 1, 0, 1, 0, time.UTC).Unix())},
		"long before": {time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), 1},
	} {
		stored := encodeRecord([]byte("k"), nil, tc.expires)
		if got := timeToLive(stored, time.Hour); got != tc.want {
			t.Errorf("%s: timeToLive = %d, want %d", name, got, tc.want)
		}
		if got, want := expired(stored, at), !tc.expires.IsZero() && tc.expires.Before(at); got != want {
			t.Errorf("%s: expired = %t, want %t", name, got, want)
		}
	}
}

// With the clock of the machine Badger may collect too: an hour after the expiry and not before.
func TestRecordsBehindTheirExpiryStay(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Update(t.Context(), func(tx storage.Tx) error {
		return errors.Join(tx.Put([]byte("just now"), []byte("v"), time.Now().Add(-time.Minute)),
			tx.Put([]byte("long ago"), []byte("v"), time.Now().Add(-2*time.Hour)))
	}); err != nil {
		t.Fatal(err)
	}
	wantKey(t, s, "just now", "v")
	if _, err := getKey(s, "long ago"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get(long ago) = %v, want %v", err, storage.ErrNotFound)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var ahead atomic.Int64
	s := mustOpen(t, t.TempDir(), Options{SweepEvery: -1, Now: func() time.Time { return start.Add(time.Duration(ahead.Load())) }})
	const n = 3*sweepBatch + 10
	for i := range n {
		if err := s.Update(t.Context(), func(tx storage.Tx) error {
			return tx.Put(fmt.Appendf(nil, "k%04d", i), nil, start.Add(time.Duration(1+i%2)*time.Hour))
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {time.Hour, 0}, {time.Hour + 1000, n / 2}, {90 * time.Minute, 0}, {3 * time.Hour, n / 2}, {4 * time.Hour, 0}} {
		ahead.Store(int64(tc.after))
		got, err := s.Sweep(t.Context())
		if err != nil || got != tc.want {
			t.Errorf("Sweep after %s = %d, %v, want %d", tc.after, got, err, tc.want)
		}
	}
	if got := s.Stats().Collected; got != n {
		t.Errorf("Collected = %d, want %d", got, n)
	}
	if err := s.Flatten(t.Context()); err != nil {
		t.Errorf("Flatten = %v", err)
	}
	mustPut(t, s, "a", "1")
	wantKey(t, s, "a", "1")
}

// A record that was found expired and then written anew stays.
func TestSweepJudgesAgain(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Now()
	mustPut(t, s, "renewed", "v")
	if err := s.Update(t.Context(), func(tx storage.Tx) error {
		return errors.Join(tx.Put([]byte("expired"), nil, now.Add(-time.Second)), tx.Put([]byte("later"), nil, now.Add(time.Hour)))
	}); err != nil {
		t.Fatal(err)
	}
	n, err := s.removeExpired(t.Context(), [][]byte{[]byte("renewed"), []byte("expired"), []byte("later"), []byte("gone")}, now)
	if n != 1 || err != nil {
		t.Errorf("removeExpired = %d, %v, want 1", n, err)
	}
	wantKey(t, s, "renewed", "v")
	wantKey(t, s, "later", "")
}

func TestSweepsRunByThemselves(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory(func(o *Options) { o.SweepEvery = time.Millisecond })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx storage.Tx) error {
		return tx.Put([]byte("a"), nil, time.Now().Add(-time.Second))
	}); err != nil {
		t.Fatal(err)
	}
	for s.Stats().Collected == 0 {
		runtime.Gosched()
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close while sweeps run = %v", err)
	}
}

// Old versions of a record are forgotten, and kept while a view needs them.
func TestVersionsAreForgotten(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	mustPut(t, s, "a", "first")
	err := s.View(t.Context(), func(tx storage.Tx) error {
		for i := range 100 {
			mustPut(t, s, "a", fmt.Sprint(i))
		}
		if _, _, oldest := s.snapshots.count(); oldest != 1 {
			t.Errorf("oldest snapshot = %d, want 1", oldest)
		}
		if err := s.Flatten(t.Context()); err != nil {
			return err
		}
		v, err := tx.Get([]byte("a"))
		if string(v) != "first" {
			t.Errorf("Get = %q, want first", v)
		}
		return err
	})
	if err != nil {
		t.Errorf("View = %v", err)
	}
	mustPut(t, s, "a", "last")
	if views, seq, oldest := s.snapshots.count(); views != 0 || seq != 102 || oldest != seq {
		t.Errorf("snapshots = %d views, at %d, oldest %d, want 0, 102, 102", views, seq, oldest)
	}
}

func TestNothingSecretIsLogged(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	s := mustOpen(t, t.TempDir(), Options{SweepEvery: -1, Log: zap.New(core)})
	mustPut(t, s, "secret-key", "secret-value")
	func() {
		defer func() { _ = recover() }()
		_ = s.Update(t.Context(), func(storage.Tx) error { panic("secret-panic") })
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, e := range logs.All() {
		if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, "secret") {
			t.Errorf("logged: %s", text)
		}
	}
	if logs.FilterMessage("panic in a transaction").Len() != 1 {
		t.Error("the panic was not logged")
	}
}
