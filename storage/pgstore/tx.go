package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

var errEnded = unavailable("the transaction has ended")

// The largest transaction of one closure.
const (
	maxSize  = 16 << 20
	maxCount = 50_000
)

// A scan reads this many records at first, and then twice as many each time.
const (
	firstPage = 32
	lastPage  = 512
)

// tx is a view or one closure of a batch: its own writes, over those of the batch, over a transaction of the database.
type tx struct {
	store *Store
	ctx   context.Context // of a view, so a long scan ends with its caller
	trail *storage.Trail  // of its request: a view adds to it, an update reads along what it has. Can be nil
	base  *transaction
	batch *engine.Overlay // what earlier closures of the batch wrote; nil in a view
	own   *engine.Overlay // what this closure wrote; nil in a view
	fail  error           // a write that was refused: nothing of the closure is kept
	ended bool
}

// Failed implements engine.Transaction.
func (t *tx) Failed() error { return t.fail }

// End makes the transaction unusable.
func (t *tx) End() { t.ended = true }

// written returns what was written under a key since the transaction of the database began.
func (t *tx) written(key []byte) (*engine.Entry, bool) {
	for _, o := range [...]*engine.Overlay{t.own, t.batch} {
		if o == nil {
			continue
		}
		if e, ok := o.Get(key); ok {
			return e, true
		}
	}
	return nil, false
}

func (t *tx) usable() error {
	switch {
	case t.ended:
		return errEnded
	case t.ctx != nil:
		return t.ctx.Err()
	}
	return nil
}

// Get implements storage.Tx.
func (t *tx) Get(key []byte) ([]byte, error) {
	values, err := t.GetMany(key)
	if err != nil {
		return nil, err
	}
	if values[0] == nil {
		return nil, storage.ErrNotFound
	}
	return values[0], nil
}

// GetMany implements storage.Tx.
func (t *tx) GetMany(keys ...[]byte) ([][]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	var ask [][]byte
	var at []int
	for i, key := range keys {
		if e, ok := t.written(key); !ok {
			ask, at = append(ask, key), append(at, i)
		} else if e.Stored != nil {
			values[i] = valueOf(e.Stored)
		}
	}
	if len(ask) == 0 {
		return values, nil
	}
	if t.own == nil {
		t.trail.Note(ask...)
	} else if err := t.readAlong(ask); err != nil {
		return nil, err
	}
	stored, err := t.base.read(ask)
	if err != nil {
		return nil, err
	}
	for i, s := range stored {
		if s != nil {
			values[at[i]] = valueOf(s)
		}
	}
	return values, nil
}

// readAlong reads what an update asks for first together with what the views of its request have read.
func (t *tx) readAlong(ask [][]byte) error {
	keys := t.trail.Keys()
	if len(keys) == 0 || t.base.err != nil || t.base.has(ask) {
		return nil
	}
	t.trail = nil
	results, err := t.base.run(t.store.sql.get(distinct(append(keys, ask...))))
	if err != nil {
		return err
	}
	rows := rowsOf(results[0])
	for _, k := range keys {
		_ = t.base.remember([][]byte{k}, rows) // if it is damaged, it is read again by those who ask for it
	}
	return t.base.remember(ask, rows)
}

// valueOf returns a copy of the value of a stored record, which is not nil.
func valueOf(stored []byte) []byte { return append([]byte{}, stored[engine.RecordHead:]...) }

// Create implements storage.Tx.
func (t *tx) Create(key, value []byte, expires time.Time) error {
	switch _, err := t.Get(key); {
	case t.own == nil && !t.ended:
		return storage.ErrReadOnly
	case err == nil:
		return storage.ErrExists
	case !errors.Is(err, storage.ErrNotFound):
		return err
	}
	return t.Put(key, value, expires)
}

// Put implements storage.Tx.
func (t *tx) Put(key, value []byte, expires time.Time) error {
	if len(value) > storage.MaxValue {
		return t.refuse(fmt.Errorf("%w: a value of %d bytes", storage.ErrTooLarge, len(value)))
	}
	return t.write(key, func() []byte { return engine.EncodeRecord(key, value, sayable(expires)) })
}

// Delete implements storage.Tx.
func (t *tx) Delete(key []byte) error {
	return t.write(key, func() []byte { return nil })
}

func (t *tx) write(key []byte, stored func() []byte) error {
	switch {
	case t.ended:
		return errEnded
	case t.own == nil:
		return storage.ErrReadOnly
	case len(key) > storage.MaxKey:
		return t.refuse(fmt.Errorf("%w: a key of %d bytes", storage.ErrTooLarge, len(key)))
	case bytes.HasPrefix(key, []byte(tallyPrefix)):
		return t.refuse(errors.New("the key is that of a row that counts commits"))
	case t.fail != nil:
		return t.fail // nothing will be kept, so nothing more is collected
	}
	t.own.Put(&engine.Entry{Key: string(key), Stored: stored()})
	if t.own.Size() > maxSize || t.own.Len() > maxCount {
		return t.refuse(fmt.Errorf("%w: a transaction of %d records and %d bytes", storage.ErrTooLarge, t.own.Len(), t.own.Size()))
	}
	return nil
}

// refuse remembers the error, so a closure that ignores it cannot commit half of its writes.
func (t *tx) refuse(err error) error {
	switch {
	case t.ended:
		return errEnded
	case t.own == nil:
		return storage.ErrReadOnly
	case t.fail == nil:
		t.fail = err
	}
	return err
}

// Scan implements storage.Tx.
func (t *tx) Scan(r storage.Range) iter.Seq2[storage.Record, error] {
	return func(yield func(storage.Record, error) bool) {
		if err := t.usable(); err != nil {
			yield(storage.Record{}, err)
			return
		}
		b := engine.BoundsOf(r)
		if b.Empty() {
			return
		}
		s := scan{tx: t, Bounds: b, descending: r.Descending, page: firstPage, pending: engine.Layered(within(t.batch, b), within(t.own, b))}
		if r.Descending {
			slices.Reverse(s.pending)
		}
		if r.Limit > 0 {
			s.page = min(r.Limit+len(s.pending), lastPage) // as many may be deleted
		}
		for n := 0; r.Limit <= 0 || n < r.Limit; n++ {
			rec, ok, err := s.next()
			if err != nil {
				yield(storage.Record{}, err)
				return
			}
			if !ok || !yield(storage.Record{Key: rec.Key, Value: valueOf(rec.Value), Expires: engine.Expires(rec.Value)}, nil) {
				return
			}
		}
	}
}

func within(o *engine.Overlay, b engine.Bounds) []*engine.Entry {
	if o == nil {
		return nil
	}
	return o.Within(b)
}

// scan merges the writes that are not in the database yet with pages of records. Its bounds are what was not read yet.
type scan struct {
	*tx
	engine.Bounds

	descending bool
	pending    []*engine.Entry  // entries of the range, in the direction of the scan
	rows       []storage.Record // of the last page, as stored
	page       int              // how many records are read next
	over       bool             // there are no more pages
}

// next returns the next record as it is stored; ok is false at the end.
func (s *scan) next() (rec storage.Record, ok bool, err error) {
	for {
		if s.ended {
			return rec, false, errEnded
		}
		for len(s.rows) == 0 && !s.over { // a page can have rows that are no records
			if err := s.read(); err != nil {
				return rec, false, err
			}
		}
		if len(s.pending) > 0 {
			e, before, same := s.pending[0], true, false
			if len(s.rows) > 0 {
				c := strings.Compare(e.Key, string(s.rows[0].Key))
				same = c == 0
				before = same || (c < 0) != s.descending
			}
			if before {
				s.pending = s.pending[1:]
				if same {
					s.rows = s.rows[1:]
				}
				if e.Stored == nil {
					continue
				}
				return storage.Record{Key: []byte(e.Key), Value: e.Stored}, true, nil
			}
		}
		if len(s.rows) == 0 {
			return rec, false, nil
		}
		rec, s.rows = s.rows[0], s.rows[1:]
		return rec, true, nil
	}
}

// read reads the next page.
func (s *scan) read() error {
	if err := s.usable(); err != nil {
		return err
	}
	if s.Empty() {
		s.over = true
		return nil
	}
	if err := s.base.settle(nil); err != nil {
		return err
	}
	results, err := s.base.run(s.store.sql.scan(s.Bounds, s.descending, s.page))
	if err != nil {
		return err
	}
	rows := results[0].Rows
	s.rows = make([]storage.Record, 0, len(rows))
	for _, row := range rows {
		if bytes.HasPrefix(row[0], []byte(tallyPrefix)) {
			continue
		}
		stored, err := storedOf(row[0], row[1], row[2], row[3])
		if err != nil {
			return err
		}
		s.rows = append(s.rows, storage.Record{Key: row[0], Value: stored})
	}
	if len(rows) < s.page {
		s.over = true
		return nil
	}
	last := string(rows[len(rows)-1][0])
	if s.descending {
		s.High, s.Bounded = last, true
	} else {
		s.Low = last + "\x00"
	}
	s.page = min(2*max(s.page, firstPage), lastPage)
	return nil
}
