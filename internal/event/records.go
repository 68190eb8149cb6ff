package event

import (
	"iter"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	events   = storage.NewTable[Event]("event")              // id -> event; ids sort by time
	byPerson = storage.NewTable[struct{}]("event_by_person") // person, id
	byActor  = storage.NewTable[struct{}]("event_by_actor")  // actor, id
)

// OfPerson yields the events of a person, newest first.
func OfPerson(tx storage.Tx, personID string) iter.Seq2[Event, error] {
	return indexed(tx, byPerson, personID)
}

// OfActor yields the events that an actor caused, newest first.
func OfActor(tx storage.Tx, actor string) iter.Seq2[Event, error] {
	return indexed(tx, byActor, actor)
}

// All yields every event, newest first.
func All(tx storage.Tx) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range events.Scan(tx, storage.Range{Descending: true}) {
			if !yield(e.Value, err) || err != nil {
				return
			}
		}
	}
}

func indexed(tx storage.Tx, index storage.Table[struct{}], of string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for entry, err := range index.Scan(tx, storage.Range{Prefix: storage.Prefix(of), Descending: true}) {
			var e Event
			if err == nil {
				e, err = events.Get(tx, storage.Parts(entry.Key)[1])
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
