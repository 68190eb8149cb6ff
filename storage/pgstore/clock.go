package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

var _ storage.Shared = (*Store)(nil)

// Clock implements storage.Shared: the time of the database. It looks for losses too, and for whether one was accepted.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	if err := s.enter(); err != nil {
		return time.Time{}, err
	}
	defer s.leave()
	for try := 1; ; try++ {
		at, err := s.askClock(ctx)
		if try == 3 || !errors.Is(err, errAgain) {
			return at, err
		}
	}
}

func (s *Store) askClock(ctx context.Context) (time.Time, error) {
	c, err := s.pool.get(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer s.pool.put(c)
	before := s.history.before()
	results, err := c.run(statement{sql: "SELECT clock_timestamp()"}, s.sql.facts())
	if err != nil {
		return time.Time{}, s.failed(c, err)
	}
	if err := s.judgeHistory(c, before, factsIn(results[1])); err != nil {
		return time.Time{}, err
	}
	raw := results[0].Rows[0][0]
	if len(raw) != 8 {
		return time.Time{}, unavailable("the database tells no time")
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(raw)) + epoch2000).UTC(), nil //nolint:gosec // as it is sent
}
