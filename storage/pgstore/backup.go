package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

// Backup implements storage.Backuper. Reads and writes continue meanwhile. Every engine can restore it.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := s.enter(); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	defer s.leave()
	out, err := transfer.NewWriter(w)
	if err == nil {
		// Once: what is written cannot be taken back.
		_, err = s.viewOnce(ctx, maxTries, func(t *tx) error {
			for rec, err := range t.Scan(storage.Range{}) {
				if err == nil {
					err = out.Add(rec)
				}
				if err != nil {
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

// What one round trip of a restore writes.
const (
	restoreSize  = 2 << 20
	restoreCount = 5_000
)

// Restore fills an empty database from a backup, in one transaction: it is all or nothing. After the records it runs
// after, if not nil, in the same transaction.
func Restore(ctx context.Context, o Options, r io.Reader, after func(storage.Tx) error) error {
	o.SweepEvery = -1
	s, err := open(ctx, o)
	if err != nil {
		return fmt.Errorf("restore into storage postgres: %w", err)
	}
	defer s.Close() //nolint:errcheck // it returns none
	if err := s.restore(ctx, r, after); err != nil {
		return fmt.Errorf("restore into storage postgres: %w", err)
	}
	return nil
}

func (s *Store) restore(ctx context.Context, r io.Reader, after func(storage.Tx) error) error {
	w := &writer{store: s}
	defer w.leave()
	base := &transaction{store: s, begin: s.sql.beginUpdate, open: w.open}
	results, err := base.run(statement{
		"SELECT k FROM " + s.sql.table + " WHERE k < $1 OR k >= $2 LIMIT 1",
		[]uint32{typeBytea, typeBytea},
		[][]byte{[]byte(tallyPrefix), []byte(tallyEnd)},
	})
	if err != nil {
		return err
	}
	if len(results[0].Rows) > 0 {
		return refusal("the database is not empty: restore into a new database, or another `schema`")
	}
	in, err := transfer.NewReader(r)
	if err != nil {
		return err
	}
	for last := false; !last; {
		var batch []storage.Record
		if batch, last, err = readBatch(in); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(batch) > 0 {
			if _, err := base.run(s.sql.write(entriesOf(batch))...); err != nil {
				return err
			}
		}
	}
	return w.finish(base, after)
}

// finish runs after, if not nil, and commits.
func (w *writer) finish(base *transaction, after func(storage.Tx) error) error {
	own := engine.NewOverlay()
	if after != nil {
		t := &tx{Writes: writes(engine.NewOverlay(), own), store: w.store, base: base}
		defer t.End()
		if err := after(t); err != nil {
			return err
		}
		if err := t.Failed(); err != nil {
			return err
		}
	}
	return w.commit(base, own)
}

// entriesOf returns what is written for records that another store kept.
func entriesOf(batch []storage.Record) []*engine.Entry {
	list := make([]*engine.Entry, len(batch))
	for i, rec := range batch {
		list[i] = &engine.Entry{Key: string(rec.Key), Stored: engine.EncodeRecord(rec.Key, rec.Value, sayable(rec.Expires))}
	}
	return list
}

// readBatch reads records until they are enough for one round trip; last is true when the end was reached and is
// correct.
func readBatch(in *transfer.Reader) (batch []storage.Record, last bool, err error) {
	for total := 0; total < restoreSize && len(batch) < restoreCount; {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return batch, true, nil
		}
		if err != nil {
			return nil, false, err
		}
		batch = append(batch, rec)
		total += len(rec.Key) + len(rec.Value)
	}
	return batch, false, nil
}
