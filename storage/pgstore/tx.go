package pgstore

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

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
	engine.Writes

	store *Store
	ctx   context.Context // of a view, so a long scan ends with its caller
	trail *storage.Trail  // of its request: a view adds to it, an update reads along what it has. Can be nil
	base  *transaction
}

func writes(batch, own *engine.Overlay) engine.Writes {
	return engine.Writes{Batch: batch, Own: own, MaxSize: maxSize, MaxCount: maxCount}
}

func (t *tx) usable() error {
	switch {
	case t.Ended():
		return engine.ErrEnded
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
		if e, ok := t.Written(key); !ok {
			ask, at = append(ask, key), append(at, i)
		} else if e.Stored != nil {
			values[i] = valueOf(e.Stored)
		}
	}
	if len(ask) == 0 {
		return values, nil
	}
	if t.Own == nil {
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
	case t.Own == nil && !t.Ended():
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
	if err := t.reserved(key); err != nil {
		return err
	}
	return t.Writes.Put(key, value, sayable(expires))
}

// Delete implements storage.Tx.
func (t *tx) Delete(key []byte) error {
	if err := t.reserved(key); err != nil {
		return err
	}
	return t.Writes.Delete(key)
}

// reserved refuses the keys of rows that are no records.
func (t *tx) reserved(key []byte) error {
	if bytes.HasPrefix(key, []byte(tallyPrefix)) {
		return t.Refuse(errors.New("the key is that of a row that counts commits"))
	}
	return nil
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
		s := scan{tx: t, Bounds: b, Merge: t.Merge(b, r.Descending), page: firstPage}
		if r.Limit > 0 {
			s.page = min(r.Limit+s.Pending(), lastPage) // as many may be deleted
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

// scan merges the writes that are not in the database yet with pages of records. Its bounds are what was not read yet.
type scan struct {
	*tx
	engine.Bounds
	engine.Merge

	rows []storage.Record // of the last page, as stored
	page int              // how many records are read next
	over bool             // there are no more pages
}

// next returns the next record as it is stored; ok is false at the end.
func (s *scan) next() (rec storage.Record, ok bool, err error) {
	for {
		if s.Ended() {
			return rec, false, engine.ErrEnded
		}
		for len(s.rows) == 0 && !s.over { // a page can have rows that are no records
			if err := s.read(); err != nil {
				return rec, false, err
			}
		}
		var key []byte
		if len(s.rows) > 0 {
			key = s.rows[0].Key
		}
		if e, replaces := s.Take(key, len(s.rows) > 0); e != nil {
			if replaces {
				s.rows = s.rows[1:]
			}
			if e.Stored == nil {
				continue
			}
			return storage.Record{Key: []byte(e.Key), Value: e.Stored}, true, nil
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
	results, err := s.base.run(s.store.sql.scan(s.Bounds, s.Descending, s.page))
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
	if s.Descending {
		s.High, s.Bounded = last, true
	} else {
		s.Low = last + "\x00"
	}
	s.page = min(2*max(s.page, firstPage), lastPage)
	return nil
}
