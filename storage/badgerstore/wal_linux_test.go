package badgerstore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/gatehouse-id/gatehouse/storage"
)

// syncGate is a sync that waits for permission to proceed.
type syncGate struct {
	reached chan struct{}
	pass    chan error
}

func (g *syncGate) sync(f *os.File) error {
	g.reached <- struct{}{}
	if err := <-g.pass; err != nil {
		return err
	}
	return datasync(f)
}

func syncGated(t *testing.T) (s *Store, g *syncGate, written *atomic.Int32) {
	t.Helper()
	g, written = &syncGate{make(chan struct{}), make(chan error)}, new(atomic.Int32)
	s = mustOpen(t, t.TempDir(), Options{SweepEvery: -1, sync: g.sync, commit: func(txn *badger.Txn, seq uint64) error {
		defer written.Add(1)
		return txn.CommitAt(seq, nil)
	}})
	return s, g, written
}

// TestBatchesAreWrittenWhileTheDiskIsBusy: the next batch is in Badger before the previous one is durable, and depends
// on it. No caller is answered and no view sees anything before its own sync.
func TestBatchesAreWrittenWhileTheDiskIsBusy(t *testing.T) {
	t.Parallel()
	s, g, written := syncGated(t)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- putKey(s, "first", "1") }()
	<-g.reached
	go func() {
		second <- s.Update(t.Context(), func(tx storage.Tx) error {
			v, err := tx.Get([]byte("first"))
			if err != nil {
				return err
			}
			return tx.Create([]byte("second"), v, time.Time{})
		})
	}()
	for written.Load() < 2 {
		runtime.Gosched()
	}
	for _, key := range []string{"first", "second"} {
		if v, err := getKey(s, key); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("a view sees %q, %v under %s before the sync, want %v", v, err, key, storage.ErrNotFound)
		}
	}
	if len(first)+len(second) > 0 {
		t.Error("an update was answered before the sync")
	}
	g.pass <- nil
	if err := <-first; err != nil {
		t.Errorf("first Update = %v", err)
	}
	<-g.reached
	wantKey(t, s, "first", "1")
	if len(second) > 0 {
		t.Error("the second update was answered before its sync")
	}
	g.pass <- nil
	if err := <-second; err != nil {
		t.Errorf("second Update = %v", err)
	}
	wantKey(t, s, "second", "1")
}

// TestFailedSyncTakesWhatFollows: after a batch that is not durable, no later closure succeeds, not even one that only
// read.
func TestFailedSyncTakesWhatFollows(t *testing.T) {
	t.Parallel()
	s, g, _ := syncGated(t)
	broken := errors.New("input/output error")
	results := make(chan error, 3)
	go func() { results <- putKey(s, "a", "1") }()
	<-g.reached
	go func() { results <- putKey(s, "b", "1") }()
	go func() {
		results <- s.Update(t.Context(), func(tx storage.Tx) error { _, err := tx.Get([]byte("a")); return err })
	}()
	g.pass <- broken
	for range 3 {
		if err := <-results; !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("Update = %v, want %v", err, storage.ErrUnavailable)
		}
	}
	if _, err := getKey(s, "a"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("later View = %v, want %v", err, storage.ErrUnavailable)
	}
}

// TestRotationWithoutDescriptors: when Badger begins a log, descriptors are free for it even if the process has none
// left, and if there are none at all the batch is refused, and not the store ruined.
func TestRotationWithoutDescriptors(t *testing.T) {
	t.Parallel()
	// Two thousand commits, and no crash: none waits for the disk.
	s := mustOpen(t, t.TempDir(), Options{SweepEvery: -1, sync: func(*os.File) error { return nil }})
	left := atomic.Bool{}
	left.Store(true)
	tries := 0
	s.wal.wait = func(time.Duration) { tries++ }
	s.wal.open = func(name string) (*os.File, error) {
		if !left.Load() {
			return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
		}
		return os.Open(name)
	}
	yielded := 0
	s.commit = func(txn *badger.Txn, seq uint64) error {
		logs := s.wal.fid
		err := txn.CommitAt(seq, nil)
		if st, e := os.Lstat(s.wal.path(logs + 1)); e == nil && st.Size() > 0 {
			if len(s.wal.spare) > 0 {
				t.Errorf("log %d was begun while %d descriptors were kept", logs+1, len(s.wal.spare))
			}
			yielded++
		}
		return err
	}
	value := strings.Repeat("x", 256<<10)
	for range 100 {
		mustPut(t, s, "key", value)
	}
	for range 1000 { // small ones fill the table in memory more than the log
		mustPut(t, s, "k", "")
	}
	if yielded < 2 {
		t.Errorf("%d logs were begun, want several", yielded)
	}
	for i := range 10_000 { // until the next log is near
		if s.wal.filled+2*spareBatch >= memTableSize {
			break
		}
		mustPut(t, s, "key", value[:i%2+1<<10])
	}
	left.Store(false)
	s.wal.yield() // others have taken them
	if err := putKey(s, "key", value); !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, syscall.EMFILE) || tries == 0 {
		t.Errorf("Update near the end of a log, without descriptors = %v after %d tries", err, tries)
	}
	if s.starved.Load() == nil {
		t.Error("Check will not give the reason")
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check = %v: nothing was written, and there are descriptors, so the store is good", err)
	}
	if _, err := getKey(s, "key"); err != nil {
		t.Errorf("View = %v", err)
	}
	left.Store(true)
	mustPut(t, s, "key", "1")
	wantKey(t, s, "key", "1")
}

// TestNewLogHasItsBlocks: before Badger writes to a log that it begins, the blocks of the log are there. A batch for
// which they cannot be had is refused before its closures run.
func TestNewLogHasItsBlocks(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	begun := 0
	s.commit = func(txn *badger.Txn, seq uint64) error {
		next := s.wal.path(s.wal.fid + 1)
		before, missing := os.Lstat(next)
		err := txn.CommitAt(seq, nil)
		if after, e := os.Lstat(next); e == nil && after.Size() > 0 {
			begun++
			if missing != nil || before.Size() != 0 || allocated(before) < logSize || allocated(after) < logSize {
				t.Errorf("%s was begun without its blocks: %v", filepath.Base(next), missing)
			}
		}
		return err
	}
	value := strings.Repeat("x", 256<<10)
	for range 200 {
		mustPut(t, s, "key", value)
	}
	if begun < 3 {
		t.Errorf("%d logs were begun, want several", begun)
	}
	made := s.wal.make
	s.wal.make = func(string) error { return syscall.ENOSPC }
	var refused error
	for range 200 {
		ran := false
		refused = s.Update(t.Context(), func(tx storage.Tx) error {
			ran = true
			return tx.Put([]byte("key"), []byte(value), time.Time{})
		})
		if refused != nil {
			if ran {
				t.Error("the closure ran although its batch was refused")
			}
			break
		}
	}
	if !errors.Is(refused, storage.ErrFull) {
		t.Errorf("Update when there is no room for a new log = %v, want %v", refused, storage.ErrFull)
	}
	s.wal.make = made
	mustPut(t, s, "key", "1")
	wantKey(t, s, "key", "1")
}

// TestLogIsFollowed: when Badger begins another log, that log is synced.
func TestLogIsFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synced := map[string]int{}
	s := mustOpen(t, dir, Options{SweepEvery: -1, sync: func(f *os.File) error {
		logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
		logs = slices.DeleteFunc(logs, func(name string) bool { // those that Badger has not begun
			st, err := os.Stat(name)
			return err == nil && st.Size() == 0
		})
		if newest := filepath.Base(slices.Max(logs)); err == nil && newest != filepath.Base(f.Name()) {
			err = errors.New("synced " + f.Name() + ", Badger writes " + newest)
		}
		synced[f.Name()]++
		return errors.Join(err, datasync(f))
	}})
	value := strings.Repeat("x", 256<<10)
	for range 200 { // 50 MiB through logs of 8
		mustPut(t, s, "key", value)
	}
	if len(synced) < 4 {
		t.Errorf("%d logs were synced, want several", len(synced))
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	s = mustOpen(t, dir)
	wantKey(t, s, "key", value)
}

// TestNewLogIsNamedBeforeAnAnswer: a batch in a new log is answered once the directory that names the log is durable.
// If it cannot be made so, the batch is refused.
func TestNewLogIsNamedBeforeAnAnswer(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	value := strings.Repeat("x", 256<<10)
	first, folder := s.wal.fid, s.wal.folder
	gone, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	s.wal.folder = gone
	var failed error
	for range 200 {
		if failed = putKey(s, "key", value); failed != nil {
			break
		}
		if s.wal.fid != first {
			t.Fatal("a batch in a new log was answered, and the directory is not synced")
		}
	}
	if !errors.Is(failed, storage.ErrUnavailable) {
		t.Errorf("the first batch in a new log = %v, want %v", failed, storage.ErrUnavailable)
	}
	s.wal.folder = folder
}
