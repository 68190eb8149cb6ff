package places_test

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/places"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// A record of an earlier version that cannot be read does not keep the others from being listed.
func TestUnreadableRecordIsLeftOut(t *testing.T) {
	t.Parallel()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	err = store.Update(t.Context(), func(tx storage.Tx) error {
		for key, value := range map[string]string{"old/1": "a", "old/2": "unreadable", "old/3": "c"} {
			if err := tx.Put([]byte(key), []byte(value), time.Time{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	old := places.Source{Name: "old", Prefix: []byte("old/"), Note: func(tx storage.Tx, rec storage.Record) error {
		if string(rec.Value) == "unreadable" {
			return storage.ErrCorrupt
		}
		return places.Note(tx, places.Device, "phone", string(rec.Value), time.Time{})
	}}
	if err := places.New(store, zap.NewNop(), old).List(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	err = store.View(t.Context(), func(tx storage.Tx) error {
		done, err := places.Complete(tx, "old")
		if err != nil {
			return err
		}
		ids, err := places.Sessions(tx, places.Device, "phone", "", 10)
		if !done || len(ids) != 2 {
			t.Errorf("listed %v, all of them: %t, want two and all", ids, done)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
