package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// mustOpen opens a store of dir; o may be given.
func mustOpen(t *testing.T, dir string, o ...Options) *Store {
	t.Helper()
	opt := Options{SweepEvery: -1}
	if len(o) > 0 {
		opt = o[0]
	}
	opt.Dir = dir
	s, err := openDir(t.Context(), opt)
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

func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var free atomic.Uint64
	free.Store(1 << 30)
	opt := Options{SweepEvery: -1, FreeSpace: func(d string) (uint64, error) {
		if asked, err := os.Stat(d); err != nil || !sameDir(asked, dir) {
			t.Errorf("FreeSpace(%q), want it for %q", d, dir)
		}
		return free.Load(), nil
	}}
	s := mustOpen(t, dir, opt)
	mustPut(t, s, "a", "1")
	free.Store(defaultMinFree - 1)
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
	free.Store(defaultMinFree)
	mustPut(t, s, "b", "1")
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check = %v, want nil", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	free.Store(0)
	s = mustOpen(t, dir, opt)
	wantKey(t, s, "b", "1")
	dir = t.TempDir()
	opt.Dir = dir
	if s, err := openDir(t.Context(), opt); !errors.Is(err, storage.ErrFull) || !strings.Contains(err.Error(), "128 MiB are needed") {
		t.Errorf("Open of a new directory on a full disk = %v, %v, want %v", s, err, storage.ErrFull)
	}
}

func sameDir(st os.FileInfo, dir string) bool {
	other, err := os.Stat(dir)
	return err == nil && os.SameFile(st, other)
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
	_, err := openDir(t.Context(), Options{Dir: dir})
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

// A program that knows Badger alone and this one keep each other out.
func TestSecondOpenerThatKnowsBadgerAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustPut(t, s, "a", "1")
	badgerAlone := badger.DefaultOptions(dir).WithLogger(nil)
	if db, err := badger.OpenManaged(badgerAlone); err == nil {
		t.Error("Badger opens a directory that is in use")
		_ = db.Close()
	}
	wantKey(t, s, "a", "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := badger.OpenManaged(badgerAlone)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := openDir(t.Context(), Options{Dir: dir}); !errors.Is(err, errInUse) {
		t.Errorf("Open = %v, want %v", err, errInUse)
	}
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

// A store that was closed can be opened at once, though the process is just starting another, which has copies of all
// open files until it runs its own program.
func TestOpenAgainWhileProcessesStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var starting sync.WaitGroup
	defer starting.Wait()
	defer cancel()
	for range 2 {
		starting.Go(func() {
			for ctx.Err() == nil {
				_ = exec.CommandContext(ctx, os.Args[0], "-test.run=^$").Run() //nolint:gosec // this test
			}
		})
	}
	for range 20 {
		if err := mustOpen(t, dir, Options{SweepEvery: -1}).Close(); err != nil {
			t.Fatal(err)
		}
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
	good := engine.EncodeRecord([]byte("a"), []byte("value of a"), time.Time{})
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	for name, stored := range map[string][]byte{
		"flipped": flipped, "short": good[:10], "empty": {}, "under another key": engine.EncodeRecord([]byte("b"), []byte("x"), time.Time{}),
	} {
		s.writer.known = newRecent() // as after a start
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
