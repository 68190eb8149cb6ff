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
			if err := s.View(t.Context(), func(tx storage.Tx) error { _, err := tx.Get([]byte("bad")); return err }); !errors.Is(err, storage.ErrCorrupt) {
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
