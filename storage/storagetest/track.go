package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/modeltest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// tracks tests storage.Tracker, if the engine is one.
func (s *suite) tracks(t *testing.T) {
	store := s.open(t)
	tracker, ok := store.(storage.Tracker)
	if !ok {
		return
	}
	put(t, store, "t/a", "1")
	put(t, store, storage.Key("t/p", "x"), "1")
	reads := map[string]func(storage.Tx) error{
		"get":    func(tx storage.Tx) error { _, err := tx.Get([]byte("t/a")); return err },
		"absent": func(tx storage.Tx) error { _, err := tx.GetMany([]byte("t/a"), []byte("t/none")); return err },
		"scan":   func(tx storage.Tx) error { return scanAll(tx, storage.Range{Prefix: storage.Prefix("t/p")}) },
		"down": func(tx storage.Tx) error {
			return scanAll(tx, storage.Range{Prefix: storage.Prefix("t/p", "q"), Descending: true, Limit: 1})
		},
		"table":  func(tx storage.Tx) error { return scanAll(tx, storage.Range{Prefix: []byte("t/zz")}) },
		"all":    func(tx storage.Tx) error { return scanAll(tx, storage.Range{}) },
		"inside": func(tx storage.Tx) error { return scanAll(tx, storage.Range{Prefix: []byte("t/p\x00\x01x")}) },
	}
	if _, shared := store.(storage.Shared); shared {
		for name, read := range reads {
			if track(t, tracker, read).Holds() {
				t.Errorf("%s: the reading holds though others can write unheard", name)
			}
		}
		return
	}
	for _, tc := range []struct {
		write string
		ends  []string
	}{
		{"t/a", []string{"get", "absent", "table", "all"}},
		{"t/none", []string{"absent", "table", "all"}},
		{storage.Key("t/p", "y"), []string{"scan", "inside", "table", "all"}},
		{storage.Key("t/p", "q", "r"), []string{"scan", "down", "inside", "table", "all"}},
		{"other/a", []string{"all"}},
	} {
		readings := map[string]*storage.Reading{}
		for name, read := range reads {
			readings[name] = track(t, tracker, read)
			if !readings[name].Holds() {
				t.Errorf("%s: the reading does not hold though nothing was written", name)
			}
		}
		put(t, store, tc.write, "2")
		for _, name := range tc.ends {
			if readings[name].Holds() {
				t.Errorf("%s: the reading holds after a write of %q", name, tc.write)
			}
		}
	}
	held := 0
	for n := range 50 { // marks are shared, so one of these writes may seem to be of the record
		reading := track(t, tracker, reads["get"])
		put(t, store, fmt.Sprint("other/", n), "3")
		if reading.Holds() {
			held++
		}
	}
	if held < 25 {
		t.Errorf("%d of 50 readings outlive a write of another record, want nearly all", held)
	}
	mine := errors.New("mine")
	late := track(t, tracker, reads["get"])
	if _, err := tracker.Track(t.Context(), func(storage.Tx) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("Track = %v, want the error of its closure", err)
	}
	if err := store.Update(t.Context(), func(tx storage.Tx) error { _ = tx.Delete([]byte("t/a")); return mine }); !errors.Is(err, mine) {
		t.Errorf("Update = %v, want the error of its closure", err)
	}
	if !late.Holds() {
		t.Error("a reading ends with a transaction of which nothing is kept")
	}
	update(t, store, func(tx storage.Tx) error { return tx.Delete([]byte("t/a")) })
	if late.Holds() {
		t.Error("a reading holds after the record was deleted")
	}
	last := track(t, tracker, reads["table"])
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if last.Holds() {
		t.Error("a reading holds after the store was closed")
	}
}

// tracksRaces looks for a reading that holds although a write that changes it was answered, whichever comes between:
// the read before the write, the commit, the end of the View.
func (s *suite) tracksRaces(t *testing.T) {
	store := s.open(t)
	tracker, ok := store.(storage.Tracker)
	if !ok {
		return
	}
	const keys = 4
	writes := int64(modeltest.Rounds(60, 300))
	var answered [keys]atomic.Int64 // a lower bound of what a View must read
	for k := range keys {
		put(t, store, fmt.Sprint("t/", k), "0")
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for k := range keys {
		all.Go(func() {
			for n := int64(1); n <= writes; n++ {
				err := store.Update(context.WithoutCancel(ctx), func(tx storage.Tx) error {
					return tx.Put([]byte(fmt.Sprint("t/", k)), []byte(fmt.Sprint(n)), never)
				})
				if err != nil {
					t.Error(err)
					return
				}
				answered[k].Store(n)
			}
		})
	}
	var readers sync.WaitGroup
	for k := range keys {
		readers.Go(func() {
			for ctx.Err() == nil {
				var value int64
				reading, err := tracker.Track(context.WithoutCancel(ctx), func(tx storage.Tx) error {
					raw, err := tx.Get([]byte(fmt.Sprint("t/", k)))
					_, _ = fmt.Sscan(string(raw), &value)
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				for range 20 {
					least := answered[k].Load()
					if reading.Holds() && value < least {
						t.Errorf("a reading of %d holds after %d was answered", value, least)
						return
					}
				}
			}
		})
	}
	all.Wait()
	stop()
	readers.Wait()
}

func track(t *testing.T, s storage.Tracker, fn func(storage.Tx) error) *storage.Reading {
	t.Helper()
	r, err := s.Track(t.Context(), fn)
	if err != nil {
		t.Fatalf("Track = %v", err)
	}
	return r
}

func scanAll(tx storage.Tx, r storage.Range) error {
	for _, err := range tx.Scan(r) {
		if err != nil {
			return err
		}
	}
	return nil
}
