package badgerstore

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

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
		stored := engine.EncodeRecord([]byte("k"), nil, tc.expires)
		if got := timeToLive(stored, time.Hour); got != tc.want {
			t.Errorf("%s: timeToLive = %d, want %d", name, got, tc.want)
		}
		if got, want := engine.Expired(stored, at), !tc.expires.IsZero() && tc.expires.Before(at); got != want {
			t.Errorf("%s: expired = %t, want %t", name, got, want)
		}
	}
}

// With the machine's clock Badger can collect too, but not before an hour after the expiry.
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

// A record that was found expired and then written again stays.
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

// Old versions of a record are dropped, but kept while a view needs them.
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
