package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/gatehouse-id/gatehouse/storage"
)

// A page is so small that its records fit into one transaction of every engine.
const (
	pageRecords = 512
	pageBytes   = 128 << 10
)

// Source is the source of records. No one changes it meanwhile.
type Source interface {
	// page returns the next records after a key, nil for the first ones, in their order; none at the end.
	page(ctx context.Context, after []byte) ([]storage.Record, error)
}

// FromStore returns a store as a source. It is not changed.
func FromStore(s storage.Store) Source { return storeSource{s} }

type storeSource struct{ store storage.Store }

func (s storeSource) page(ctx context.Context, after []byte) (list []storage.Record, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		list = nil
		size := 0
		for rec, err := range tx.Scan(storage.Range{After: after, Limit: pageRecords}) {
			if err != nil {
				return err
			}
			list = append(list, rec)
			if size += len(rec.Key) + len(rec.Value); size >= pageBytes {
				break
			}
		}
		return nil
	})
	return list, err
}

// FromBackup returns a backup as a source.
func FromBackup(r io.ReadSeeker) Source { return &backupSource{file: r} }

type backupSource struct {
	file io.ReadSeeker
	in   *Reader
	last []byte // the last key that was returned
	over bool
}

func (s *backupSource) page(ctx context.Context, after []byte) (list []storage.Record, err error) {
	if s.in == nil || !bytes.Equal(s.last, after) || (s.last == nil) != (after == nil) {
		if err := s.rewind(); err != nil {
			return nil, err
		}
	}
	for size := 0; !s.over && len(list) < pageRecords && size < pageBytes; {
		rec, err := s.in.Next()
		if errors.Is(err, io.EOF) {
			s.over = true
			break
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if after != nil && bytes.Compare(rec.Key, after) <= 0 {
			continue
		}
		list = append(list, rec)
		s.last = rec.Key
		size += len(rec.Key) + len(rec.Value)
	}
	return list, nil
}

func (s *backupSource) rewind() (err error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	s.last, s.over = nil, false
	s.in, err = NewReader(s.file)
	return err
}
