package storagetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

func open(t *testing.T) storage.Store {
	t.Helper()
	s, err := badgerstore.OpenMemory()
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

func TestTwice(t *testing.T) {
	t.Parallel()
	s := storagetest.Twice(open(t))
	runs, created := 0, error(nil)
	err := s.Update(t.Context(), func(tx storage.Tx) error {
		runs++
		created = tx.Create([]byte("a"), []byte{byte(runs)}, time.Time{})
		return created
	})
	if err != nil || runs != 2 {
		t.Fatalf("Update = %v after %d runs, want none after 2: the first is rolled back", err, runs)
	}
	runs = 0
	err = s.View(t.Context(), func(tx storage.Tx) error {
		runs++
		v, err := tx.Get([]byte("a"))
		if err != nil || v[0] != 2 {
			t.Errorf("Get = %v, %v, want what the second run has written", v, err)
		}
		return err
	})
	if err != nil || runs != 2 {
		t.Errorf("View = %v after %d runs, want 2", err, runs)
	}
	runs = 0
	reading, err := s.(storage.Tracker).Track(t.Context(), func(tx storage.Tx) error {
		runs++
		_, err := tx.Get([]byte("a"))
		return err
	})
	if err != nil || runs != 2 || !reading.Holds() {
		t.Errorf("Track = %v after %d runs, want a reading that holds after 2", err, runs)
	}
	verdict := errors.New("no")
	if err := s.Update(t.Context(), func(storage.Tx) error { return verdict }); !errors.Is(err, verdict) {
		t.Errorf("Update = %v, want %v", err, verdict)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Update(cancelled, func(storage.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Update = %v, want %v", err, context.Canceled)
	}
}

func TestNotesAreTransactional(t *testing.T) {
	t.Parallel()
	s := storagetest.Twice(open(t))
	notes, undone := storagetest.NewNotes[string]("x"), errors.New("undone")
	for _, note := range []string{"one", "undone", "two"} {
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			if err := notes.Add(tx, note); err != nil || note != "undone" {
				return err
			}
			return undone
		})
		if err != nil && !errors.Is(err, undone) {
			t.Fatal(err)
		}
	}
	if got := notes.Take(t, s); len(got) != 2 || got[0] != "one" || got[1] != "two" {
		t.Errorf("Take = %q, want one and two", got)
	}
	if got := notes.Take(t, s); len(got) != 0 {
		t.Errorf("Take = %q, want nothing", got)
	}
}
