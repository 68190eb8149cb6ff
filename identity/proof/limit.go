package proof

import (
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// CountRequest counts one more of something that is done at most so often in a window, and returns how long it is not done.
func (s *Service) CountRequest(tx storage.Tx, what, whose string, most int, now time.Time) (wait time.Duration, err error) {
	c := Counter{storage.Key(what, whose), most, false}
	rec, err := s.ReadFailures(tx, c, now)
	if err != nil {
		return 0, err
	}
	if wait = rec.Until.Sub(now); wait > 0 {
		return wait, nil
	}
	rec = s.CountFailure(rec, c, now)
	return 0, FailureRecords.Put(tx, c.Key, rec, s.ClearFailures(rec))
}

// OnceEvery tells whether something is done again that is done at most once in a time, and counts it. Whoever asks is told nothing of it.
func OnceEvery(tx storage.Tx, what, whose string, every time.Duration, now time.Time) (bool, error) {
	key := storage.Key(what, whose)
	last, err := FailureRecords.Get(tx, key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return false, err
	}
	if last.Until.After(now) {
		return false, nil
	}
	rec := FailureRecord{Failures: 1, First: now, Until: now.Add(every)}
	return true, FailureRecords.Put(tx, key, rec, rec.Until.Add(time.Minute))
}
