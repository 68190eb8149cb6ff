package storagetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Notes is the memory of a test double that is told of things inside transactions. It keeps them in the transaction, so
// a rollback or a rerun of a closure undoes them as it undoes the product's own records.
type Notes[T any] struct{ table storage.Table[T] }

// NewNotes returns notes in a table of their own.
func NewNotes[T any](name string) Notes[T] {
	return Notes[T]{storage.NewTable[T]("storagetest_notes_" + name)}
}

// Add writes a note down, after those that are there.
func (n Notes[T]) Add(tx storage.Tx, note T) error {
	next := 0
	for last, err := range n.table.Scan(tx, storage.Range{Descending: true, Limit: 1}) {
		if err != nil {
			return err
		}
		if _, err := fmt.Sscanf(last.Key, "%d", &next); err != nil {
			return err
		}
	}
	return n.table.Create(tx, fmt.Sprintf("%08d", next+1), note, time.Time{})
}

// Take returns what was noted, oldest first, and forgets it.
func (n Notes[T]) Take(t testing.TB, s storage.Store) []T {
	t.Helper()
	var out []T
	err := s.Update(t.Context(), func(tx storage.Tx) error {
		out = nil
		for e, err := range n.table.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if err := n.table.Delete(tx, e.Key); err != nil {
				return err
			}
			out = append(out, e.Value)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("take notes: %v", err)
	}
	return out
}
