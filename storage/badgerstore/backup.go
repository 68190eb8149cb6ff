package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

// restoring is the directory in which a restore builds the store. Open refuses while it exists.
const restoring = "RESTORING"

// Backup implements storage.Backuper. Reads and writes continue meanwhile; disk space of what they replace is kept
// until it ends. A damaged record ends it with storage.ErrCorrupt.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	out, err := transfer.NewWriter(w)
	if err == nil {
		// A view of this engine runs once, so it can write elsewhere.
		err = s.View(ctx, func(tx storage.Tx) error {
			for rec, err := range tx.Scan(storage.Range{}) {
				if err != nil {
					return err
				}
				if err := out.Add(rec); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil {
		err = out.End()
	}
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

// scanStored yields every record as it is stored, in the order of the keys. It is for views: it ignores the overlay.
// The caller owns Key and Value; the checksum is not checked.
func (t *tx) scanStored() iter.Seq2[storage.Record, error] {
	return func(yield func(storage.Record, error) bool) {
		it, err := t.iterator(badger.IteratorOptions{Prefix: []byte{recordSpace}})
		if err != nil {
			yield(storage.Record{}, err)
			return
		}
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			rec := storage.Record{Key: slices.Clone(it.Item().Key()[1:])}
			err := it.Item().Value(func(v []byte) error {
				if len(v) < engine.RecordHead {
					return engine.CheckRecord(rec.Key, v)
				}
				rec.Value = slices.Clone(v)
				return nil
			})
			if err != nil {
				yield(rec, readError(err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// Restore builds a store from a backup in o.Dir, which must be missing or empty. It is all or nothing: a damaged or cut
// stream leaves the directory empty. After the records it runs after, if not nil, on the new store, before any other
// process can open it.
func Restore(ctx context.Context, o Options, r io.Reader, after func(storage.Tx) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore into %s: %w", o.Dir, err)
		}
	}()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	lock, err := lockDir(o.Dir) // a server or another restore may hold it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	if err := emptyDir(o.Dir); err != nil {
		return err
	}
	work := filepath.Join(o.Dir, restoring)
	if err := os.RemoveAll(work); err != nil { // left by a restore that was killed
		return err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	if err := restoreInto(ctx, o, work, r, after); err != nil {
		return errors.Join(err, os.RemoveAll(work))
	}
	return moveUp(work, o.Dir)
}

// emptyDir refuses a directory with anything in it but our lock and the entries that a file system adds itself.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case lockName, restoring, "lost+found":
		default:
			return fmt.Errorf("the directory is not empty, %s is there: move its content away first", e.Name())
		}
	}
	return nil
}

func restoreInto(ctx context.Context, o Options, work string, r io.Reader, after func(storage.Tx) error) error {
	o.Dir, o.SweepEvery = work, -1
	s, err := openDir(ctx, o)
	if err != nil {
		return err
	}
	err = s.load(ctx, r)
	if err == nil && after != nil {
		err = s.Update(ctx, after)
	}
	return errors.Join(err, s.Close())
}

// load writes the records of a backup and then requires its end.
func (s *Store) load(ctx context.Context, r io.Reader) error {
	in, err := transfer.NewReader(r)
	if err != nil {
		return err
	}
	for {
		batch, last, err := s.batch(in)
		if err != nil {
			return err
		}
		if len(batch) > 0 {
			err = s.Update(ctx, func(t storage.Tx) error {
				for _, rec := range batch {
					if err := t.Put(rec.Key, rec.Value, rec.Expires); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil || last {
			return err
		}
	}
}

// batch reads records until they fill a transaction; last is true when the end was reached and is correct.
func (s *Store) batch(in *transfer.Reader) (batch []storage.Record, last bool, err error) {
	size, count := int(s.maxSize)/2, s.maxCount/2
	for total := 0; total < size && len(batch) < count; {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return batch, true, nil
		}
		if err != nil {
			return nil, false, err
		}
		batch = append(batch, rec)
		total += len(rec.Key) + engine.RecordHead + len(rec.Value) + engine.PerEntry
	}
	return batch, false, nil
}

// moveUp moves the finished store to where Open looks. RESTORING is removed last: until then Open refuses.
func moveUp(work, dir string) error {
	entries, err := os.ReadDir(work)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockName {
			if err := os.Remove(filepath.Join(work, lockName)); err != nil {
				return err
			}
			continue
		}
		if err := os.Rename(filepath.Join(work, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	if err := os.Remove(work); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(dir)
}
