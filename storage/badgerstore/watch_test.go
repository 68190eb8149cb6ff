package badgerstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// bell is a Waker that can be waited for.
type bell chan struct{}

func (b bell) Wake() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// tracked is a store that tells what has changed.
type tracked interface {
	storage.Store
	storage.Tracker
}

// track reads keys, and watches what has been read.
func track(t *testing.T, s tracked, b bell, keys ...string) (values []string, w *storage.Watch) {
	t.Helper()
	r, err := s.Track(t.Context(), func(tx storage.Tx) error {
		for _, k := range keys {
			v, err := tx.Get([]byte(k))
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			values = append(values, string(v))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w = r.Watch(b)
	if w == nil {
		t.Fatal("it cannot be watched")
	}
	return values, w
}

func write(t *testing.T, s tracked, key, value string) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx storage.Tx) error { return tx.Put([]byte(key), []byte(value), time.Time{}) }); err != nil {
		t.Error(err)
	}
}

func openForWatch(t *testing.T, disk bool) tracked {
	t.Helper()
	var s tracked
	var err error
	if disk {
		s, err = badgerstore.Open(t.Context(), badgerstore.Options{Dir: t.TempDir()})
	} else {
		s, err = badgerstore.OpenMemory()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A reader that is woken reads what has woken it, and no one else is woken.
func TestCommitWakesThoseWhoHaveReadWhatItWrites(t *testing.T) {
	t.Parallel()
	for _, disk := range []bool{false, true} {
		s := openForWatch(t, disk)
		mine, others, gone := make(bell, 1), make(bell, 1), make(bell, 1)
		_, w := track(t, s, mine, "t/a", "t/absent")
		defer w.Stop()
		_, w = track(t, s, others, "t/b")
		defer w.Stop()
		_, w = track(t, s, gone, "t/a")
		w.Stop()
		w.Stop()
		for i, key := range []string{"t/a", "t/absent", "t/a"} {
			want := fmt.Sprint(i)
			write(t, s, key, want)
			<-mine
			if values, w := track(t, s, make(bell, 1), key); values[0] != want {
				t.Errorf("disk %t: woken for %s, and reads %q, want %q", disk, key, values[0], want)
			} else {
				w.Stop()
			}
		}
		if len(others) > 0 || len(gone) > 0 {
			t.Errorf("disk %t: somebody was woken who has not read it (%d) or has stopped (%d)", disk, len(others), len(gone))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-others // the store answers no more
	}
}

func TestScanIsWatched(t *testing.T) {
	t.Parallel()
	s, all, table, other := openForWatch(t, false), make(bell, 1), make(bell, 1), make(bell, 1)
	for prefix, b := range map[string]bell{"": all, "t/": table, "u/": other} {
		r, err := s.Track(t.Context(), func(tx storage.Tx) error {
			for range tx.Scan(storage.Range{Prefix: []byte(prefix)}) { //nolint:revive // the scan itself
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Watch(b).Stop()
	}
	write(t, s, "t/new", "1")
	<-all
	<-table
	if len(other) > 0 {
		t.Error("the scan of another table was woken")
	}
}

// What rests on two readings is told of changes to either, and of none before them.
func TestTwoReadingsAreWatched(t *testing.T) {
	t.Parallel()
	s := openForWatch(t, false)
	read := func(key string) *storage.Reading {
		r, err := s.Track(t.Context(), func(tx storage.Tx) error { _, err := tx.GetMany([]byte(key)); return err })
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, key := range []string{"t/a", "t/b", "t/c"} {
		a := read("t/a")
		write(t, s, "t/b", "between")
		write(t, s, "t/c", "between")
		both, b, other := a.And(read("t/b")).And(read("t/c")), make(bell, 1), make(bell, 1)
		w := both.Watch(b)
		if w == nil || !both.Holds() {
			t.Fatal("two readings cannot be watched, or do not hold")
		}
		gone := both.Watch(other)
		gone.Stop()
		if write(t, s, "t/d", "1"); len(b) > 0 {
			t.Error("a write of something else wakes")
		}
		write(t, s, key, "2")
		<-b
		if both.Holds() || len(other) > 0 {
			t.Errorf("after a write of %s the readings hold, or one who has stopped is woken", key)
		}
		w.Stop()
	}
	if read("t/a").And(nil) != nil || (*storage.Reading)(nil).And(read("t/a")) != nil {
		t.Error("what is not known can be watched")
	}
}

// A View that has read more than is noted cannot be watched, and must be asked again by the clock.
func TestTooMuchToWatch(t *testing.T) {
	t.Parallel()
	s := openForWatch(t, false)
	r, err := s.Track(t.Context(), func(tx storage.Tx) error {
		for i := range 300 {
			if _, err := tx.Get(fmt.Appendf(nil, "t/%d", i)); !errors.Is(err, storage.ErrNotFound) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Watch(make(bell, 1)) != nil || (*storage.Reading)(nil).Watch(make(bell, 1)) != nil {
		t.Error("it is watched")
	}
}

// Twenty watch what four write. A reader that sleeps has read what was written last, wherever between the read and the
// watch the commit came.
func TestNobodySleepsThroughACommit(t *testing.T) {
	t.Parallel()
	for _, disk := range []bool{false, true} {
		s := openForWatch(t, disk)
		const records, rounds = 4, 50
		var writers, readers sync.WaitGroup
		for i := range records {
			writers.Go(func() {
				for n := range rounds {
					write(t, s, fmt.Sprint("t/", i), fmt.Sprint(n))
				}
			})
		}
		for n := range 20 {
			readers.Go(func() {
				b := make(bell, 1)
				for last := fmt.Sprint(rounds - 1); ; {
					values, w := track(t, s, b, fmt.Sprint("t/", n%records))
					if values[0] == last {
						w.Stop()
						return
					}
					<-b // without the last wake, for ever
					w.Stop()
				}
			})
		}
		writers.Wait()
		readers.Wait()
	}
}

func TestWatchAfterTheStoreHasFailed(t *testing.T) {
	t.Parallel()
	s, b := openForWatch(t, false), make(bell, 1)
	var r *storage.Reading
	var err error
	if r, err = s.Track(t.Context(), func(tx storage.Tx) error { _, err := tx.GetMany([]byte("t/a")); return err }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w := r.Watch(b)
	defer w.Stop()
	<-b
}
