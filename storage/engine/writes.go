package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// ErrEnded is the error of a transaction that is used after its closure.
var ErrEnded = fmt.Errorf("%w: the transaction has ended", storage.ErrUnavailable)

// Writes are the half of a transaction that the database does not know yet. A view has no overlays.
type Writes struct {
	Batch *Overlay // what earlier closures of the batch wrote
	Own   *Overlay // what this closure wrote

	MaxSize  int64 // of Own, in bytes
	MaxCount int   // of Own, in records

	fail  error // a write that was refused: nothing of the closure is kept
	ended bool
}

// Failed implements Transaction.
func (w *Writes) Failed() error { return w.fail }

// End implements Transaction.
func (w *Writes) End() { w.ended = true }

// Ended reports whether the transaction is unusable.
func (w *Writes) Ended() bool { return w.ended }

// Written returns the last write of a key.
func (w *Writes) Written(key []byte) (*Entry, bool) {
	if e, ok := w.Own.Get(key); ok {
		return e, true
	}
	return w.Batch.Get(key)
}

// Put implements storage.Tx.
func (w *Writes) Put(key, value []byte, expires time.Time) error {
	if len(value) > storage.MaxValue {
		return w.Refuse(fmt.Errorf("%w: a value of %d bytes", storage.ErrTooLarge, len(value)))
	}
	return w.write(key, func() []byte { return EncodeRecord(key, value, expires) })
}

// Delete implements storage.Tx.
func (w *Writes) Delete(key []byte) error { return w.write(key, func() []byte { return nil }) }

func (w *Writes) write(key []byte, stored func() []byte) error {
	switch {
	case w.ended:
		return ErrEnded
	case w.Own == nil:
		return storage.ErrReadOnly
	case len(key) > storage.MaxKey:
		return w.Refuse(fmt.Errorf("%w: a key of %d bytes", storage.ErrTooLarge, len(key)))
	case w.fail != nil:
		return w.fail // nothing will be kept, so nothing more is collected
	}
	w.Own.Put(&Entry{Key: string(key), Stored: stored()})
	if w.Own.Size() > w.MaxSize || w.Own.Len() > w.MaxCount {
		return w.Refuse(fmt.Errorf("%w: a transaction of %d records and %d bytes", storage.ErrTooLarge, w.Own.Len(), w.Own.Size()))
	}
	return nil
}

// Refuse remembers the error, so a closure that ignores it cannot commit half of its writes.
func (w *Writes) Refuse(err error) error {
	switch {
	case w.ended:
		return ErrEnded
	case w.Own == nil:
		return storage.ErrReadOnly
	case w.fail == nil:
		w.fail = err
	}
	return err
}

// Merge has the writes within b, for a scan that reads the records of the database in that direction.
func (w *Writes) Merge(b Bounds, descending bool) Merge {
	m := Merge{pending: layered(w.Batch.Within(b), w.Own.Within(b)), Descending: descending}
	if descending {
		slices.Reverse(m.pending)
	}
	return m
}

// Merge brings writes and stored records into one order.
type Merge struct {
	Descending bool

	pending []*Entry // in the direction of the scan
}

// Pending is the number of writes that were not taken.
func (m *Merge) Pending() int { return len(m.pending) }

// Take returns the next write, unless the record that is stored under a key comes before it. replaces: it takes the
// place of that record. more is false if no record is left.
func (m *Merge) Take(stored []byte, more bool) (e *Entry, replaces bool) {
	if len(m.pending) == 0 {
		return nil, false
	}
	e = m.pending[0]
	if more {
		c := strings.Compare(e.Key, string(stored))
		if replaces = c == 0; !replaces && (c < 0) == m.Descending {
			return nil, false
		}
	}
	m.pending = m.pending[1:]
	return e, replaces
}
