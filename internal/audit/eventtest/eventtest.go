// Package eventtest reads the events of a store for tests.
package eventtest

import (
	"cmp"
	"iter"
	"slices"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// events is the table of package event; the places in its indexes are passed over.
var events = storage.NewTable[audit.Event]("event_log")

// All yields every event of every chain, newest first.
func All(tx storage.Tx) iter.Seq2[audit.Event, error] {
	return func(yield func(audit.Event, error) bool) {
		var all []audit.Event
		for e, err := range events.Scan(tx, storage.Range{}) {
			if err != nil {
				yield(audit.Event{}, err)
				return
			}
			all = append(all, e.Value)
		}
		slices.SortFunc(all, func(a, b audit.Event) int { return cmp.Compare(b.ID, a.ID) }) // UUIDv7: in order of time
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}
