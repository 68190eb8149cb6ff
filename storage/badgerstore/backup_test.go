package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

func backupOf(t *testing.T, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Backup(t.Context(), &b); err != nil {
		t.Fatalf("Backup = %v", err)
	}
	return b.Bytes()
}

func TestRestore(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	want := fill(t, s, "a", 1000) // several batches
	expires := time.Now().Add(time.Hour)
	if err := s.Update(t.Context(), func(tx storage.Tx) error { return tx.Put([]byte("expiring"), nil, expires) }); err != nil {
		t.Fatal(err)
	}
	stream := backupOf(t, s)
	dir := filepath.Join(t.TempDir(), "new")
	err := Restore(t.Context(), Options{Dir: dir}, bytes.NewReader(stream), func(tx storage.Tx) error {
		if _, err := tx.Get([]byte("expiring")); err != nil { // the records exist already
			return err
		}
		return tx.Put([]byte("epoch"), []byte("2"), time.Time{})
	})
	if err != nil {
		t.Fatalf("Restore = %v", err)
	}
	now := expires.Add(-time.Second)
	r := mustOpen(t, dir, Options{SweepEvery: -1, Now: func() time.Time { return now }})
	if n := readAll(t, r, want); n > 0 {
		t.Errorf("%d records are damaged", n)
	}
	wantKey(t, r, "epoch", "2")
	for _, tc := range []struct {
		at   time.Time
		want int
	}{{now, 0}, {expires.Add(time.Second), 1}} { // expiry times are restored too
		now = tc.at
		if n, err := r.Sweep(t.Context()); n != tc.want || err != nil {
			t.Errorf("Sweep = %d, %v, want %d", n, err, tc.want)
		}
	}
}

func TestRestoreIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustPut(t, s, "a", "1")
	stream := backupOf(t, s)
	mine := errors.New("mine")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	full := func(string) (uint64, error) { return 0, nil }
	for name, tc := range map[string]struct {
		ctx    context.Context
		opt    Options
		stream []byte
		after  func(storage.Tx) error
		want   string
	}{
		"cut":            {t.Context(), Options{}, stream[:len(stream)-1], nil, "cut short or damaged"},
		"empty":          {t.Context(), Options{}, nil, nil, "this is not a backup"},
		"something else": {t.Context(), Options{}, bytes.Repeat([]byte("x"), 1000), nil, "this is not a backup"},
		"continues":      {t.Context(), Options{}, append(bytes.Clone(stream), 0), nil, "continues after its end"},
		"failing epoch":  {t.Context(), Options{}, stream, func(storage.Tx) error { return mine }, mine.Error()},
		"cancelled":      {cancelled, Options{}, stream, nil, context.Canceled.Error()},
		"on a full disk": {t.Context(), Options{FreeSpace: full}, stream, nil, "free space is below the watermark"},
		"unordered":      {t.Context(), Options{}, unordered(), nil, "cut short or damaged"},
		"endless lengths": {
			t.Context(),
			Options{},
			append([]byte("gatehouse backup 1\n"), append([]byte{'r'}, bytes.Repeat([]byte{0xff}, 30)...)...), nil, "",
		},
	} {
		tc.opt.Dir = t.TempDir()
		err := Restore(tc.ctx, tc.opt, bytes.NewReader(tc.stream), tc.after)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Restore = %v, want %q", name, err, tc.want)
		}
		if err := Restore(t.Context(), Options{Dir: tc.opt.Dir}, bytes.NewReader(stream), nil); err != nil {
			t.Errorf("%s: a second try = %v, want nil", name, err)
		}
	}
}

// unordered is a stream that starts like a backup and repeats a key.
func unordered() []byte {
	rec := engine.EncodeRecord([]byte("k"), nil, time.Time{})
	b := []byte("gatehouse backup 1\n")
	for range 2 {
		b = append(append(append(b, 'r', 1, byte(len(rec))), 'k'), rec...)
	}
	return b
}

func TestRestoreOnlyIntoAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustPut(t, s, "a", "1")
	stream := backupOf(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	err := Restore(t.Context(), Options{Dir: dir}, bytes.NewReader(stream), nil)
	if err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("Restore over a store = %v, want that the directory is not empty", err)
	}
	s = mustOpen(t, dir)
	wantKey(t, s, "a", "1")
}

// A directory whose restore was killed while it moved files is not accepted as a store; one whose restore was killed
// earlier can be restored again.
func TestUnfinishedRestore(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustPut(t, s, "a", "1")
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, restoring, "rest"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := openDir(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "a restore did not finish") {
		t.Errorf("Open = %v, want that a restore did not finish", err)
	}
	if err := Restore(t.Context(), Options{Dir: dir}, bytes.NewReader(backupOf(t, s)), nil); err != nil {
		t.Fatalf("Restore = %v", err)
	}
	wantKey(t, mustOpen(t, dir), "a", "1")
}

func TestBackupIsCancelled(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustPut(t, s, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Backup(ctx, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Backup = %v, want %v", err, context.Canceled)
	}
	broken := errors.New("connection reset")
	if err := s.Backup(t.Context(), failingWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("Backup = %v, want %v", err, broken)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }
