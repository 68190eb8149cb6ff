package depcache

import (
	"context"
	"sync/atomic"

	"github.com/gatehouse-id/gatehouse/storage"
)

// One keeps the answer to one question that every request asks, such as the settings, as long as nothing has changed
// that it rests on. It is safe for concurrent use. The answer is shared: no one may change it.
type One[A any] struct {
	store   storage.Store
	tracker storage.Tracker // nil: nothing is kept
	kept    atomic.Pointer[oneAnswer[A]]
}

type oneAnswer[A any] struct {
	answer  A
	reading *storage.Reading
}

// NewOne returns the answer to a question about a store.
func NewOne[A any](store storage.Store) *One[A] {
	o := &One[A]{store: store}
	o.tracker, _ = store.(storage.Tracker)
	return o
}

// Ask returns the answer that is kept, or asks the store in one View.
func (o *One[A]) Ask(ctx context.Context, ask func(storage.Tx) (A, error)) (answer A, err error) {
	if k := o.kept.Load(); k != nil && k.reading.Holds() {
		return k.answer, ctx.Err()
	}
	view := func(tx storage.Tx) (err error) {
		answer, err = ask(tx)
		return err
	}
	if o.tracker == nil {
		err = o.store.View(ctx, view)
		return answer, err
	}
	reading, err := o.tracker.Track(ctx, view)
	if err == nil && reading.Holds() { // never, where other processes write
		o.kept.Store(&oneAnswer[A]{answer, reading})
	}
	return answer, err
}
