package badgerstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/gatehouse-id/gatehouse/storage"
)

// mustLast opens a store that is opened again without pauses. Each failure of its commits is fail's.
func mustLast(t *testing.T, dir string, fail func() error, pauses *atomic.Int64) *Lasting {
	t.Helper()
	l, err := openLasting(t.Context(), Options{
		Dir: dir, SweepEvery: -1, spacePause: time.Millisecond, commit: func(txn *badger.Txn, seq uint64) error {
			if err := fail(); err != nil {
				return err
			}
			return txn.CommitAt(seq, nil)
		},
	}, func(_ context.Context, d time.Duration) { pauses.Add(int64(d)) })
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func put(s storage.Store, key string) error {
	return s.Update(context.Background(), func(tx storage.Tx) error { return tx.Put([]byte(key), []byte(key), time.Time{}) })
}

func has(s storage.Store, key string) error {
	return s.View(context.Background(), func(tx storage.Tx) error {
		_, err := tx.Get([]byte(key))
		return err
	})
}

// TestStoreComesBackAfterAFailedCommit: a failed commit costs its callers a 503, not the operator a restart.
func TestStoreComesBackAfterAFailedCommit(t *testing.T) {
	t.Parallel()
	var failure atomic.Pointer[error]
	var pauses atomic.Int64
	l := mustLast(t, t.TempDir(), func() error {
		if err := failure.Swap(nil); err != nil {
			return *err
		}
		return nil
	}, &pauses)
	told := make(chan error, 1)
	l.OnReopen(func(reason error) { told <- reason })
	if err := put(l, "before"); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("input/output error")
	failure.Store(&broken)
	if err := put(l, "lost"); !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, broken) {
		t.Errorf("Update whose commit fails = %v, want %v for %v", err, storage.ErrUnavailable, broken)
	}
	if reason := <-told; !errors.Is(reason, broken) {
		t.Errorf("the reason told = %v, want %v", reason, broken)
	}
	if err := errors.Join(l.Check(t.Context()), put(l, "after"), has(l, "before"), has(l, "after")); err != nil {
		t.Errorf("after it was opened again: %v", err)
	}
	if err := has(l, "lost"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get of what no commit wrote = %v, want %v", err, storage.ErrNotFound)
	}
	if st := l.Stats(); st.Updates != 3 || st.Reopenings != 1 {
		t.Errorf("%d updates and %d reopenings are counted, want 3 over both openings, and 1", st.Updates, st.Reopenings)
	}
	if pauses.Load() != 0 {
		t.Errorf("the first opening waited %v", time.Duration(pauses.Load()))
	}
}

// TestReopeningIsBounded: a disk that fails for good is not opened again for ever, and Check says so.
func TestReopeningIsBounded(t *testing.T) {
	t.Parallel()
	broken := errors.New("input/output error")
	var pauses atomic.Int64
	l := mustLast(t, t.TempDir(), func() error { return broken }, &pauses)
	told := 0
	l.OnReopen(func(error) { told++ })
	for deadline := time.Now().Add(time.Minute); ; {
		err := put(l, "key")
		if err == nil || !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("Update = %v, want %v", err, storage.ErrUnavailable)
		}
		if strings.Contains(err.Error(), "restart") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still tried: %v", err)
		}
	}
	if err := l.Check(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Check = %v, want the reason %v", err, broken)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if told != reopenTries || time.Duration(pauses.Load()) < 20*time.Minute {
		t.Errorf("opened %d times with pauses of %v, want %d times over more than 20 minutes", told, time.Duration(pauses.Load()), reopenTries)
	}
}

// TestRemovedDirectoryIsNoticed: when the directory is emptied under a running server, no write is acknowledged into
// files without a name, health says why, no empty store takes its place, and Close ends.
func TestRemovedDirectoryIsNoticed(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(dir string) error{
		"emptied": func(dir string) error {
			entries, err := os.ReadDir(dir)
			for _, e := range entries {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
			return err
		},
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+".old") },
		"only the logs": func(dir string) error {
			logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
			for _, log := range logs {
				err = errors.Join(err, os.Remove(log))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			l, err := openLasting(t.Context(), Options{Dir: dir, SweepEvery: -1, closeWait: 50 * time.Millisecond},
				func(ctx context.Context, _ time.Duration) { <-ctx.Done() })
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := put(l, "a"); err != nil {
				t.Fatal(err)
			}
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
			if err := l.Check(t.Context()); name != "only the logs" && !errors.Is(err, ErrRemoved) {
				t.Errorf("Check = %v, want %v", err, ErrRemoved)
			}
			if err := put(l, "b"); !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, ErrRemoved) {
				t.Errorf("Update = %v, want %v for %v", err, storage.ErrUnavailable, ErrRemoved)
			}
			_ = l.Close() // it returns
			if _, err := os.Stat(filepath.Join(dir, badger.ManifestFilename)); err == nil && name != "only the logs" {
				t.Error("a new store was made where the old one was")
			}
		})
	}
}

// TestCloseIsBounded: Badger tries for ever to write its last table when the directory is gone, and SIGTERM must end
// the process all the same.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := mustOpen(t, dir, Options{SweepEvery: -1, closeWait: 100 * time.Millisecond})
	mustPut(t, s, "a", "1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, errStuck) {
		t.Errorf("Close = %v, want %v", err, errStuck)
	}
}

// TestStartWithAFullDiskServesReads: a server that was killed can be started on a full disk, answers reads, refuses
// writes, and takes them once there is space.
func TestStartWithAFullDiskServesReads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked := runVictim(t, dir, 500) // killed, so its logs are as they were
	var free atomic.Uint64
	l, err := openLasting(t.Context(), Options{
		Dir: dir, SweepEvery: -1, spacePause: time.Millisecond, FreeSpace: func(string) (uint64, error) { return free.Load(), nil },
	}, sleep)
	if err != nil {
		t.Fatalf("Open on a full disk = %v", err)
	}
	defer l.Close()
	if n := readAll(t, l.store, acked); n > 0 {
		t.Errorf("%d records are damaged", n)
	}
	ran := false
	err = l.Update(t.Context(), func(storage.Tx) error { ran = true; return nil })
	if !errors.Is(err, storage.ErrFull) || ran {
		t.Errorf("Update on a full disk = %v, ran %t, want %v before it runs", err, ran, storage.ErrFull)
	}
	if err := l.Check(t.Context()); !errors.Is(err, storage.ErrFull) || !strings.Contains(err.Error(), "128 MiB are needed") {
		t.Errorf("Check = %v, want %v with the space that is needed", err, storage.ErrFull)
	}
	free.Store(1 << 30)
	for deadline := time.Now().Add(time.Minute); ; {
		if err = put(l, "after"); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err := errors.Join(err, has(l, "after")); err != nil {
		t.Errorf("Update after space was freed = %v", err)
	}
	if n := readAll(t, l.store, acked); n > 0 {
		t.Errorf("%d records are damaged after space was freed", n)
	}
}

// TestReserveIsGivenUpOnAFullDisk: half of the watermark is kept for the tables that are still to be written. Writes go
// on when it is there again, not before.
func TestReserveIsGivenUpOnAFullDisk(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	dir := t.TempDir()
	var free atomic.Uint64
	free.Store(defaultMinFree)
	s := mustOpen(t, dir, Options{SweepEvery: -1, FreeSpace: func(string) (uint64, error) { return free.Load(), nil }})
	size := func() int64 {
		st, err := os.Stat(filepath.Join(dir, reserveName))
		if err != nil {
			return 0
		}
		return st.Size()
	}
	if !syncsWAL {
		return // no reserve on this system
	}
	for _, step := range []struct {
		free    uint64
		reserve int64
		takes   bool
	}{
		{free: 191 * mib, takes: true},
		{free: 192 * mib, reserve: 64 * mib, takes: true},
		{free: 128 * mib, reserve: 64 * mib, takes: true},
		{free: 127 * mib, reserve: 64 * mib},
		{free: 16 * mib, reserve: 64 * mib},
		{free: 15 * mib},
		{free: 79 * mib}, // what was given up
		{free: 191 * mib},
		{free: 192 * mib, reserve: 64 * mib, takes: true},
	} {
		free.Store(step.free)
		err := putKey(s, "key", "value")
		if (err == nil) != step.takes || err != nil && !errors.Is(err, storage.ErrFull) {
			t.Errorf("Update with %d MiB free = %v, want success %t", step.free/mib, err, step.takes)
		}
		if size() != step.reserve {
			t.Errorf("with %d MiB free the reserve has %d MiB, want %d", step.free/mib, size()/mib, step.reserve/mib)
		}
	}
}

// TestFilesArePrivate: nothing in the directory can be read by others, whatever the umask, so a copy stays private.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	value := strings.Repeat("x", 256<<10)
	for range 100 { // through several logs and tables
		mustPut(t, s, "key", value)
	}
	if err := os.WriteFile(filepath.Join(dir, "made-with-umask-022"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "made-with-umask-022"), 0o644); err != nil { //nolint:gosec // that is the point
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 5 {
		t.Fatalf("%d files: %v", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of %s = %v, %v, want 0600", e.Name(), info.Mode(), err)
		}
	}
}
