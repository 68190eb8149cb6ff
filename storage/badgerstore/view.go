package badgerstore

import (
	"context"

	"github.com/gatehouse-id/gatehouse/storage"
)

// How many marks there are for keys: 2 MiB for a store on disk. A write of another key with the same mark costs a
// reading, so there are many more than keys that a second writes.
const (
	marksOnDisk   = 1 << 18
	marksInMemory = 1 << 12 // tests open thousands of stores
)

// View implements storage.Store.
func (s *Store) View(ctx context.Context, fn func(storage.Tx) error) error {
	return s.view(ctx, func(t *tx) error { return fn(t) })
}

// Track implements storage.Tracker.
func (s *Store) Track(ctx context.Context, fn func(storage.Tx) error) (*storage.Reading, error) {
	var w *storage.Watched
	err := s.view(ctx, func(t *tx) error {
		w = s.marks.Watch(t, t.seq)
		return fn(w)
	})
	if err != nil {
		return nil, err
	}
	return w.Reading(), nil
}

func (s *Store) view(ctx context.Context, fn func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.faulty(); err != nil {
		return err
	}
	snap, err := s.snapshots.open()
	if err != nil {
		return err
	}
	defer s.snapshots.release(snap)
	t := &tx{store: s, ctx: ctx, seq: snap.seq}
	defer t.End()
	return fn(t)
}
