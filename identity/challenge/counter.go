package challenge

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

const firstWait = 30 * time.Second

// Counter is one of the counters of an attempt.
type Counter struct {
	Key   string
	Limit int
	// Clears says that a success sets the counter to zero. On the others a success takes back only its own count.
	// Otherwise the owner of any account could clear what is counted against an address, and a stranger who waits for
	// the person to sign in could clear what is counted against strangers.
	Clears bool
	// Until is the wait that the attempt has begun, once it is counted.
	Until time.Time
}

// count counts one attempt on all counters, or on none if one of them has a wait, or there is a wait already. exhausted
// says that the next attempt has to wait.
func (s *Service) count(tx storage.Tx, counters []Counter, already time.Duration, now time.Time) (wait time.Duration,
	exhausted bool, err error,
) {
	recs, wait := make([]FailureRecord, len(counters)), max(already, 0)
	for i, c := range counters {
		if recs[i], err = s.ReadFailures(tx, c, now); err != nil {
			return 0, false, err
		}
		wait = max(wait, recs[i].Until.Sub(now))
	}
	if wait > 0 {
		return wait, false, nil
	}
	for i, c := range counters {
		rec := s.CountFailure(recs[i], c, now)
		exhausted, counters[i].Until = exhausted || rec.Until.After(now), rec.Until
		if err := FailureRecords.Put(tx, c.Key, rec, s.CollectAt(rec)); err != nil {
			return 0, false, err
		}
		if rec.Until.After(now) {
			if err := noteWait(tx, c.Key, rec.Until); err != nil {
				return 0, false, err
			}
		}
	}
	return 0, exhausted, nil
}

// ReadFailures returns the state of a counter. It is empty if what was counted no longer matters.
func (s *Service) ReadFailures(tx storage.Tx, c Counter, now time.Time) (FailureRecord, error) {
	rec, found, err := FailureRecords.Find(tx, c.Key)
	if err != nil || !found || !now.Before(rec.end(s.cfg.Window)) {
		return FailureRecord{}, err
	}
	return rec, nil
}

// end returns when a counter is forgotten: a window after its first failure, and after its last wait.
func (f FailureRecord) end(window time.Duration) time.Time {
	if f.Until.After(f.First) {
		return f.Until.Add(window)
	}
	return f.First.Add(window)
}

// CollectAt returns when the record of a counter can be collected.
func (s *Service) CollectAt(rec FailureRecord) time.Time {
	return rec.end(s.cfg.Window).Add(time.Minute)
}

// CountFailure counts one more failure. From the limit on, each sets a wait twice as long as the one before, up to the
// window.
func (s *Service) CountFailure(rec FailureRecord, c Counter, now time.Time) FailureRecord {
	if rec.Failures == 0 {
		rec.First = now
	}
	rec.Failures++
	rec.Until = time.Time{}
	if over := rec.Failures - c.Limit; over >= 0 {
		rec.Until = now.Add(min(firstWait<<min(over, 10), max(s.cfg.Window, firstWait)))
	}
	return rec
}

// CountRequest counts one more of what is done only so often in a window, and returns how long it must wait. With a
// wait nothing is counted.
func (s *Service) CountRequest(tx storage.Tx, what, whose string, most int, now time.Time) (wait time.Duration, err error) {
	wait, _, err = s.count(tx, []Counter{{Key: storage.Key(what, whose), Limit: most}}, 0, now)
	return wait, err
}

// OnceEvery reports whether something that is done at most once in a period can be done again, and records that it is.
func OnceEvery(tx storage.Tx, what, whose string, every time.Duration, now time.Time) (bool, error) {
	key := storage.Key(what, whose)
	last, _, err := FailureRecords.Find(tx, key)
	if err != nil || last.Until.After(now) {
		return false, err
	}
	rec := FailureRecord{Failures: 1, First: now, Until: now.Add(every)}
	return true, FailureRecords.Put(tx, key, rec, rec.Until.Add(time.Minute))
}
