package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// sweepBatch is the number of records that one transaction of a sweep removes: few enough not to delay other writers.
const sweepBatch = 256

// flattenAfter is the number of removed records after which the tables are rewritten without them. A quarter of all
// records must have been removed too, because a rewrite costs as much as the whole store is large.
const flattenAfter = 10_000

// startSweeps starts monitoring the directory and collecting expired records, until Close.
func (s *Store) startSweeps() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopSweeps = cancel
	if !s.opt.memory {
		s.sweeps.Go(func() { s.watch(ctx) })
	}
	if s.opt.SweepEvery < 0 || s.readOnly {
		return
	}
	s.sweeps.Go(func() {
		tick := time.NewTicker(s.opt.SweepEvery)
		defer tick.Stop()
		removed := 0
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			removed = s.collect(ctx, removed)
		}
	})
}

// collect does what is due at one tick and returns how many records were removed since the last Flatten.
func (s *Store) collect(ctx context.Context, before int) int {
	seen, removed, err := s.sweep(ctx)
	removed += before
	if err == nil && removed >= flattenAfter && removed >= seen/4 {
		err = s.Flatten(ctx)
		removed = 0
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("expired records were not collected", zap.Error(err))
	}
	return removed
}

// Sweep removes the records whose expiry has passed and returns their number. It runs by itself every
// Options.SweepEvery. Free disk space grows when Badger compacts, at the latest with Flatten.
func (s *Store) Sweep(ctx context.Context) (int, error) {
	_, removed, err := s.sweep(ctx)
	return removed, err
}

func (s *Store) sweep(ctx context.Context) (seen, removed int, err error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	now := s.now()
	var due [][]byte
	flush := func() error {
		n, err := s.removeExpired(ctx, due, now)
		removed += n
		due = due[:0]
		return err
	}
	// The view only finds candidates; each is checked again in the transaction that removes it.
	err = s.View(ctx, func(t storage.Tx) error {
		for rec, err := range t.(*tx).scanStored() {
			if err == nil && seen%sweepBatch == 0 {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			seen++
			if !engine.Expired(rec.Value, now) {
				continue
			}
			if due = append(due, rec.Key); len(due) == sweepBatch {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil && len(due) > 0 {
		err = flush()
	}
	s.statsMu.Lock()
	s.stats.Collected += uint64(removed)
	s.statsMu.Unlock()
	if err != nil {
		return seen, removed, fmt.Errorf("collect expired records: %w", err)
	}
	return seen, removed, nil
}

func (s *Store) removeExpired(ctx context.Context, keys [][]byte, now time.Time) (removed int, err error) {
	err = s.Update(ctx, func(t storage.Tx) error {
		removed = 0
		for _, key := range keys {
			stored, _, err := t.(*tx).stored(key)
			if errors.Is(err, storage.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if !engine.Expired(stored, now) {
				continue // written again since, with a later expiry
			}
			if err := t.Delete(key); err != nil {
				return err
			}
			removed++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// Flatten rewrites the tables without removed records and frees the space. It causes as much disk traffic as the store
// is large, and runs alongside reads and writes.
func (s *Store) Flatten(ctx context.Context) error {
	if err := errors.Join(ctx.Err(), s.faulty()); err != nil {
		return err
	}
	if err := s.writable(); err != nil {
		return err
	}
	snap, err := s.snapshots.open() // makes Close wait
	if err != nil {
		return err
	}
	defer s.snapshots.release(snap)
	if err := s.db.Flatten(1); err != nil {
		return fmt.Errorf("flatten tables: %w", err)
	}
	return nil
}
