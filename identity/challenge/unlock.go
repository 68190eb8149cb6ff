package challenge

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// personCounters are the kinds of counters of one person's sign-ins. (Counters)
var personCounters = []string{"person", "person-address", "device"}

func counterOf(personID string) string { return "person:" + personID }

// Unlock forgets the failed sign-ins of a person, so the next attempt does not have to wait. Those of an address stay:
// they can be of other persons. It returns how many counters it removed. Errors: person.ErrNoPerson, a failure of
// storage.
func (s *Service) Unlock(ctx context.Context, usernameOrID string, by audit.Actor) (removed int, err error) {
	ev, err := s.deps.Events.New(failuresForgotten, by.Origin)
	if err != nil {
		return 0, err
	}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		removed = 0
		id, rec, err := s.deps.Person.Find(tx, usernameOrID)
		if err != nil {
			return err
		}
		keys, err := failuresOf(tx, id)
		if err != nil || len(keys) == 0 {
			return err
		}
		for _, key := range keys {
			if err := FailureRecords.Delete(tx, key); err != nil {
				return err
			}
		}
		removed = len(keys)
		e := by.Fill(ev, id, "")
		e.Partition = rec.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
	return removed, err
}

// Waits returns until when the attempts of strangers to sign in as a person have to wait. Zero: they do not.
func (s *Service) Waits(tx storage.Tx, personID string, now time.Time) (until time.Time, err error) {
	keys, err := failuresOf(tx, personID)
	if err != nil {
		return until, err
	}
	for _, key := range keys {
		rec, _, err := FailureRecords.Find(tx, key)
		if err != nil {
			return until, err
		}
		if rec.Until.After(now) && rec.Until.After(until) {
			until = rec.Until
		}
	}
	return until, nil
}

// failuresOf returns the keys of a person's counters.
func failuresOf(tx storage.Tx, personID string) (keys []string, err error) {
	subject := counterOf(personID)
	for _, kind := range personCounters {
		key := storage.Key(kind, subject)
		found, err := FailureRecords.Has(tx, key)
		if err != nil {
			return nil, err
		}
		if found {
			keys = append(keys, key)
		}
		for e, err := range FailureRecords.Scan(tx, storage.Range{Prefix: storage.Prefix(kind, subject)}) {
			if err != nil {
				return nil, err
			}
			keys = append(keys, e.Key)
		}
	}
	return keys, nil
}
