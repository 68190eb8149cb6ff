package pgstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// TestFullDisk: while the disk of the database is full, writes are refused with the reason and nothing of them is kept,
// reads go on, and the server says that it is not healthy. When there is room again it goes on by itself.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, server.Address())
	s := newStores(at(proxy.Address())).open(t, newSchema())
	put := func(value string) error {
		return s.Update(t.Context(), func(tx storage.Tx) error { return tx.Put([]byte("a"), []byte(value), time.Time{}) })
	}
	if err := put("before"); err != nil {
		t.Fatal(err)
	}
	proxy.Decide(func(_ int, sql string) pgtest.Fate {
		if strings.HasPrefix(sql, "INSERT") {
			return pgtest.Full
		}
		return pgtest.Pass
	})
	health := s.(storage.Checker)
	for range 2 {
		if err := put("lost"); !errors.Is(err, storage.ErrFull) || !strings.Contains(err.Error(), "disk of the database is full") {
			t.Errorf("Update = %v, want %v", err, storage.ErrFull)
		}
		if err := health.Check(t.Context()); !errors.Is(err, storage.ErrFull) {
			t.Errorf("Check = %v, want %v", err, storage.ErrFull)
		}
		if got := get(t, s, "a"); got != "before" {
			t.Errorf("read %q, want what was written before", got)
		}
	}
	proxy.Decide(nil)
	if err := put("after"); err != nil {
		t.Errorf("Update with room again = %v", err)
	}
	eventually(t, "the server is healthy again", func() bool { return health.Check(t.Context()) == nil })
	if got := get(t, s, "a"); got != "after" {
		t.Errorf("read %q, want what was written after", got)
	}
}

func get(t *testing.T, s storage.Store, key string) (value string) {
	t.Helper()
	err := s.View(t.Context(), func(tx storage.Tx) error {
		v, err := tx.Get([]byte(key))
		value = string(v)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return value
}
