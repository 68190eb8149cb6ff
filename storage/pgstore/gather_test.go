package pgstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// TestReadsTogether: views that read at the same time share statements, and each of them reads what was answered before
// it began. A damaged record is an error for those alone who read it.
func TestReadsTogether(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	s := newStores(server.URL(pgtest.Database)).open(t, schema)
	put := func(key, value string) {
		t.Helper()
		if err := s.Update(t.Context(), func(tx storage.Tx) error { return tx.Put([]byte(key), []byte(value), time.Time{}) }); err != nil {
			t.Error(err)
		}
	}
	put("n", "0")
	put("bad", "1")
	server.Exec(t, pgtest.Database, fmt.Sprintf(`UPDATE "%s".gatehouse_kv SET v = 'changed' WHERE k = 'bad'`, schema))
	var answered atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for !over.Load() {
				least := answered.Load()
				n, err := strconv.ParseInt(get(t, s, "n"), 10, 64)
				if err != nil || n < least {
					t.Errorf("read %d, %v after %d was answered", n, err, least)
					return
				}
			}
		})
	}
	all.Go(func() {
		for !over.Load() {
			if err := s.View(t.Context(), func(tx storage.Tx) error { _, err := tx.Get([]byte("bad")); return err }); !errors.Is(err,
				storage.ErrCorrupt) {
				t.Errorf("a damaged record = %v, want %v", err, storage.ErrCorrupt)
				return
			}
		}
	})
	for n := range int64(100) {
		put("n", strconv.FormatInt(n+1, 10))
		answered.Store(n + 1)
	}
	over.Store(true)
	all.Wait()
}

// TestDamagedRecordOfOthers: a record that views have read next, and that is damaged, is an error for those alone who
// read it. A view that goes on after it still reads one snapshot.
func TestDamagedRecordOfOthers(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	s := newStores(server.URL(pgtest.Database)).open(t, schema)
	put := func(value string, keys ...string) {
		t.Helper()
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			for _, key := range keys {
				if err := tx.Put([]byte(key), []byte(value), time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("1", "first", "next", "last")
	for range 3 {
		err := s.View(t.Context(), func(tx storage.Tx) error {
			_, err := tx.Get([]byte("first"))
			if err == nil {
				_, err = tx.Get([]byte("next"))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	server.Exec(t, pgtest.Database, fmt.Sprintf(`UPDATE "%s".gatehouse_kv SET v = 'changed' WHERE k = 'next'`, schema))
	if got := get(t, s, "first"); got != "1" {
		t.Errorf("read %q, want what does not depend on the damaged record", got)
	}
	var meanwhile sync.Once
	var first, last []byte
	err := s.View(t.Context(), func(tx storage.Tx) (err error) {
		if first, err = tx.Get([]byte("first")); err != nil {
			return err
		}
		meanwhile.Do(func() { put("2", "first", "last") })
		if _, err := tx.Get([]byte("next")); !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("the damaged record = %v, want %v", err, storage.ErrCorrupt)
		}
		last, err = tx.Get([]byte("last"))
		return err
	})
	if err != nil || string(first) != string(last) {
		t.Errorf("read %q and %q of one snapshot, %v", first, last, err)
	}
}
