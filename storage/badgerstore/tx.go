package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// tx is a view or one closure of a batch: its own writes, over those of the batch, over a snapshot.
type tx struct {
	engine.Writes

	store *Store
	ctx   context.Context    // of a view, so a long scan ends with its caller
	seq   uint64             // the snapshot
	base  *badger.Txn        // reads the snapshot; nil until something is read
	known *recent            // what closures have read before; nil in a view
	iters []*badger.Iterator // open iterators
	key   []byte             // scratch for stored keys
}

// End makes the transaction unusable and releases what it holds.
func (t *tx) End() {
	t.Writes.End()
	for _, it := range t.iters { // left open by a caller that pulled a scan and did not stop it
		it.Close()
	}
	t.iters = nil
	if t.base != nil {
		t.base.Discard()
	}
}

func (t *tx) snapshot() *badger.Txn {
	if t.base == nil {
		t.base = t.store.db.NewTransactionAt(t.seq, false)
	}
	return t.base
}

// Get implements storage.Tx.
func (t *tx) Get(key []byte) ([]byte, error) {
	stored, shared, err := t.stored(key)
	if err != nil {
		return nil, err
	}
	if shared {
		stored = slices.Clone(stored)
	}
	return stored[engine.RecordHead:], nil
}

// GetMany implements storage.Tx.
func (t *tx) GetMany(keys ...[]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		v, err := t.Get(key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

// stored returns the checked record of key. If it is shared it must not be changed.
func (t *tx) stored(key []byte) (stored []byte, shared bool, err error) {
	if t.Ended() {
		return nil, false, engine.ErrEnded
	}
	if e, ok := t.Written(key); ok {
		if e.Stored == nil {
			return nil, false, storage.ErrNotFound
		}
		return e.Stored, true, nil
	}
	if len(key) > storage.MaxKey {
		return nil, false, storage.ErrNotFound // too long to have been written
	}
	if t.known != nil {
		if e := t.known.get(key); e != nil {
			if e.Stored == nil {
				return nil, false, storage.ErrNotFound
			}
			return e.Stored, true, nil
		}
	}
	t.key = append(append(t.key[:0], recordSpace), key...)
	item, err := t.item()
	if errors.Is(err, badger.ErrKeyNotFound) {
		if t.known != nil {
			t.known.absent(key)
		}
		return nil, false, storage.ErrNotFound
	}
	if err != nil {
		return nil, false, readError(err)
	}
	err = item.Value(func(v []byte) error {
		stored = v // a copy for this item alone
		return engine.CheckRecord(key, v)
	})
	if err != nil {
		return nil, false, readError(err)
	}
	if t.known != nil {
		t.known.put(&engine.Entry{Key: string(key), Stored: stored})
		return stored, true, nil
	}
	return stored, false, nil
}

// item looks t.key up. Badger is left without a table in memory when it could not begin a log, and panics: the store is
// being poisoned then, so the reader hears the same as those who come after.
func (t *tx) item() (item *badger.Item, err error) {
	defer func() {
		if p := recover(); p != nil {
			item, err = nil, fmt.Errorf("badger panicked: %v", p)
		}
	}()
	return t.snapshot().Get(t.key)
}

// Create implements storage.Tx.
func (t *tx) Create(key, value []byte, expires time.Time) error {
	switch _, _, err := t.stored(key); {
	case err == nil:
		return storage.ErrExists
	case !errors.Is(err, storage.ErrNotFound):
		return err
	}
	return t.Put(key, value, expires)
}

// Scan implements storage.Tx.
func (t *tx) Scan(r storage.Range) iter.Seq2[storage.Record, error] {
	return func(yield func(storage.Record, error) bool) {
		if t.Ended() {
			yield(storage.Record{}, engine.ErrEnded)
			return
		}
		b := engine.BoundsOf(r)
		if b.Empty() {
			return
		}
		s := scan{tx: t, Bounds: b, Merge: t.Merge(b, r.Descending)}
		if t.known == nil || !t.known.vacant(r.Prefix) {
			s.open(r.Prefix)
			defer s.close()
		}
		for n := 0; r.Limit <= 0 || n < r.Limit; n++ {
			rec, ok, err := s.next()
			if err == nil && n%256 == 255 && t.ctx != nil {
				err = t.ctx.Err()
			}
			if err != nil {
				yield(storage.Record{}, err)
				return
			}
			if !ok || !yield(rec, nil) {
				return
			}
		}
	}
}

// scan merges the writes that are not in Badger yet with an iterator over the snapshot.
type scan struct {
	*tx
	engine.Bounds
	engine.Merge
	it     *badger.Iterator // nil: Badger has nothing of the range
	broken error            // there is no iterator
}

// iterator is item for scans.
func (t *tx) iterator(o badger.IteratorOptions) (it *badger.Iterator, err error) {
	defer func() {
		if p := recover(); p != nil {
			t.base = nil // it would panic again at its end, since it has counted an iterator
			it, err = nil, readError(fmt.Errorf("badger panicked: %v", p))
		}
	}()
	return t.snapshot().NewIterator(o), nil
}

func (s *scan) open(prefix []byte) {
	o := badger.IteratorOptions{Reverse: s.Descending}
	if s.Descending {
		o.Prefix = []byte{recordSpace} // a longer one would hide keys behind a seek to the end of the range
	} else {
		o.Prefix = append([]byte{recordSpace}, prefix...)
	}
	if s.it, s.broken = s.iterator(o); s.broken != nil {
		return
	}
	s.iters = append(s.iters, s.it)
	switch {
	case !s.Descending:
		s.it.Seek(append([]byte{recordSpace}, s.Low...))
	case s.Bounded:
		s.it.Seek(append([]byte{recordSpace}, s.High...))
		if s.it.Valid() && string(s.it.Item().Key()[1:]) == s.High {
			s.it.Next()
		}
	default:
		s.it.Seek([]byte{recordSpace + 1})
	}
	if s.known == nil || s.Descending || s.it.Valid() {
		return
	}
	if table := s.known.miss(prefix); table != nil && s.empty(table) {
		s.known.empty[string(table)] = true
	}
}

// maxMarks bounds how many marks of deleted records a look at a whole table passes: every write waits for it, and a
// table with short-lived records can have hundreds of thousands until Badger compacts.
const maxMarks = 512

// empty reports whether Badger has no record whose key begins with prefix. false: it has one, or more marks of deleted
// ones than it pays to pass.
func (t *tx) empty(prefix []byte) bool {
	it, err := t.iterator(badger.IteratorOptions{Prefix: append([]byte{recordSpace}, prefix...), AllVersions: true})
	if err != nil {
		return false
	}
	defer it.Close()
	var last []byte
	passed := 0
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		if passed++; passed > maxMarks {
			return false
		}
		if bytes.Equal(item.Key(), last) { // an earlier version, the newest comes first
			continue
		}
		if !item.IsDeletedOrExpired() {
			return false
		}
		last = item.KeyCopy(last)
	}
	return true
}

func (s *scan) close() {
	if s.it == nil {
		return
	}
	s.it.Close()
	s.iters = slices.DeleteFunc(s.iters, func(it *badger.Iterator) bool { return it == s.it })
}

// next returns the next record; ok is false at the end.
func (s *scan) next() (rec storage.Record, ok bool, err error) {
	for {
		if s.Ended() {
			return rec, false, engine.ErrEnded
		}
		if s.broken != nil {
			return rec, false, s.broken
		}
		var item *badger.Item
		var key []byte
		if s.it != nil && s.it.Valid() && s.Has(string(s.it.Item().Key()[1:])) {
			item = s.it.Item()
			key = item.Key()[1:]
		}
		if e, replaces := s.Take(key, item != nil); e != nil {
			if replaces {
				s.it.Next()
			}
			if e.Stored == nil {
				continue
			}
			return storage.Record{Key: []byte(e.Key), Value: slices.Clone(e.Stored[engine.RecordHead:]), Expires: engine.Expires(e.Stored)},
				true, nil
		}
		if item == nil {
			return rec, false, nil
		}
		rec.Key = slices.Clone(key)
		err = item.Value(func(v []byte) error {
			if err := engine.CheckRecord(rec.Key, v); err != nil {
				return err
			}
			rec.Value, rec.Expires = slices.Clone(v[engine.RecordHead:]), engine.Expires(v)
			return nil
		})
		if err != nil {
			return rec, false, readError(err)
		}
		s.it.Next()
		return rec, true, nil
	}
}

// readError drops Badger's own text, which would quote the key.
func readError(err error) error {
	if errors.Is(err, storage.ErrCorrupt) {
		return err
	}
	if errors.Is(err, badger.ErrDBClosed) {
		return errClosed
	}
	return fmt.Errorf("read record: %w", storage.ErrUnavailable)
}
