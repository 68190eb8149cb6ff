package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Collect removes the blocks in which every event is older than its retention, from the front of each chain, and
// returns the number of removed events. The rest of the chain begins after a checkpoint. Errors: a failure of storage.
func (k *Keeper) Collect(ctx context.Context) (removed int, err error) { return k.collect(ctx, 0) }

func (k *Keeper) collect(ctx context.Context, pause time.Duration) (removed int, err error) {
	var all []Chain
	err = k.store.View(ctx, func(tx storage.Tx) error {
		all = nil
		for e, err := range chains.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			all = append(all, chainOf(e.Key))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, c := range all {
		for {
			n, more, err := k.collectBlock(ctx, c)
			removed += n
			if err != nil {
				return removed, fmt.Errorf("collect events of %s: %w", c, err)
			}
			if !more {
				break
			}
			if pause > 0 {
				select {
				case <-ctx.Done():
					return removed, ctx.Err()
				case <-time.After(pause):
				}
			}
		}
	}
	return removed, nil
}

// collectBlock removes the first block of a chain when it is due. more: the next one may be due too.
func (k *Keeper) collectBlock(ctx context.Context, c Chain) (removed int, more bool, err error) {
	keep, now := k.used().Retention.of(c), k.now()
	if keep <= 0 {
		return 0, false, nil
	}
	var head chainRecord
	var block blockRecord
	var gone []record
	var numbers []uint64
	err = k.store.View(ctx, func(tx storage.Tx) (err error) {
		gone, numbers, more = nil, nil, false
		if head, err = chainAt(tx, c.key()); err != nil || head.CutBlock == head.Block {
			return err
		}
		if block, err = blocks.Get(tx, c.at(head.CutBlock+1)); err != nil || block.Newest.Add(keep).After(now) {
			return err
		}
		more = true
		return eachOf(tx, c, block, func(n uint64, _ storage.Record, rec record) error {
			numbers, gone = append(numbers, n), append(gone, rec)
			return nil
		})
	})
	if errors.Is(err, storage.ErrNotFound) {
		err = fmt.Errorf("%w: block %d is missing", storage.ErrCorrupt, head.CutBlock+1)
	}
	if err != nil || !more {
		return 0, false, err
	}
	raced := false
	err = k.store.Update(ctx, func(tx storage.Tx) error {
		is, err := chainAt(tx, c.key())
		if raced = err == nil && is.CutBlock != head.CutBlock; err != nil || raced {
			return err
		}
		for i, n := range numbers {
			if err := events.Delete(tx, c.at(n)); err != nil {
				return err
			}
			if err := gone[i].removeFromIndexes(tx); err != nil {
				return err
			}
		}
		if err := unlist(tx, c, head.CutBlock+1, gone); err != nil {
			return err
		}
		is.CutBlock++
		is.CutEvent, is.CutHash, is.CutAt = block.Last, block.Hash, now
		if err := blocks.Delete(tx, c.at(is.CutBlock)); err != nil {
			return err
		}
		return chains.Put(tx, c.key(), is, never)
	})
	if err != nil || raced {
		return 0, raced, err
	}
	k.collected.Add(int64(len(gone)))
	return len(gone), true, nil
}

// eachOf calls fn for each event that still exists of those that a block covers.
func eachOf(tx storage.Tx, c Chain, b blockRecord, fn func(n uint64, raw storage.Record, rec record) error) error {
	span := b.Last - b.First + 1
	if span == 0 {
		return nil
	}
	r := storage.Range{ //nolint:gosec // bounded
		Prefix: events.Key(c.key()), After: events.Key(c.at(b.First - 1)),
		Limit: int(min(span, 1<<20)),
	}
	for raw, err := range tx.Scan(r) {
		if err != nil {
			return err
		}
		n := numberOf(string(raw.Key))
		if n > b.Last {
			return nil
		}
		rec, err := events.Decode(raw.Value)
		if err != nil {
			return err
		}
		if err := fn(n, raw, rec); err != nil {
			return err
		}
	}
	return nil
}

// removeFromIndexes removes the index entries of an event and adjusts the counts in the same transaction, so a page and
// its total always agree.
func (r *record) removeFromIndexes(tx storage.Tx) error {
	for _, e := range []struct {
		key   string
		place uint64
	}{{byPerson(r.PersonID), r.AsPerson}, {byActor(r.Actor), r.AsActor}, {byBoth(r.PersonID, r.Actor), r.AsBoth}} {
		if e.place == 0 {
			continue
		}
		c, err := counts.Get(tx, e.key)
		if err != nil {
			return fmt.Errorf("count events: %w", err)
		}
		if c.Count--; c.Count == 0 {
			c.Dense = c.Next
		}
		c.Dense = max(c.Dense, e.place+1)
		if err := counts.Put(tx, e.key, c, never); err != nil {
			return err
		}
		if err := index.Delete(tx, numbered(e.key, e.place)); err != nil {
			return err
		}
	}
	return nil
}
