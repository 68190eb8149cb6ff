package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// sweepBatch is the number of records that one statement of a sweep removes: few enough not to delay writers.
const sweepBatch = 256

func (s *Store) startSweeps() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopSweeps = cancel
	if s.opt.SweepEvery < 0 {
		return
	}
	s.sweeps.Go(func() {
		tick := time.NewTicker(s.opt.SweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("expired records were not collected", zap.Error(err))
			}
		}
	})
}

// Sweep removes the records whose expiry has passed and returns their number. It runs by itself every
// Options.SweepEvery, on each node.
func (s *Store) Sweep(ctx context.Context) (int, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	removed, again := 0, 0
	for {
		n, err := s.sweep(ctx)
		removed += n
		switch {
		case errors.Is(err, errAgain) && again < maxTries:
			again++
			s.stats.retried[opSweep].Add(1)
			err = s.pause(ctx, again)
		case err == nil && n < sweepBatch:
			return removed, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return removed, err
		}
	}
}

// sweep removes one batch. It is no serializable transaction and need not be one: of a record it looks at the expiry
// alone, and once more after it has waited for the lock of a row that another transaction rewrites.
func (s *Store) sweep(ctx context.Context) (int, error) {
	c, err := s.pool.get(ctx)
	if err != nil {
		return 0, err
	}
	defer s.pool.put(c)
	results, err := c.run(s.sql.sweep(s.opt.Now))
	if err != nil {
		return 0, s.failed(c, err)
	}
	if err := s.forgetTallies(c); err != nil {
		return 0, s.failed(c, err)
	}
	n := int(results[0].CommandTag.RowsAffected())
	s.stats.collected.Add(uint64(n)) //nolint:gosec // a count
	return n, nil
}

func (q *texts) sweep(now func() time.Time) statement {
	// After the wait for a lock the database looks at the new row by the outer condition alone. In coalesce no index fits
	// it: with old statistics PostgreSQL would read all expired records by that of x, and the batch again for each.
	text := func(at string) string {
		return "DELETE FROM " + q.table + " WHERE coalesce(x < " + at + ", false) AND k IN (SELECT k FROM " + q.table + " WHERE x < " + at +
			fmt.Sprintf(" ORDER BY x LIMIT %d)", sweepBatch)
	}
	if now == nil {
		return statement{sql: text("now()")}
	}
	return statement{text("$1"), []uint32{typeTime}, [][]byte{int8Of(now().UnixMicro() - epoch2000)}}
}
