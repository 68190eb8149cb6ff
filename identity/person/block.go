package person

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// maxBlock is the maximum duration of a block.
	maxBlock = 10 * 365 * 24 * time.Hour
	// endedAtOnce is the maximum number of ended blocks that one transaction handles.
	endedAtOnce = 100
	blockStamp  = "20060102150405"
)

// Block blocks a person as SetState does, until a time. Zero: until someone lets them sign in again. The time of
// someone who is blocked changes. Errors: as SetState, and a *ValidationError for a time that has passed.
func (s *Service) Block(ctx context.Context, usernameOrID string, until time.Time, by audit.Actor) error {
	now := s.deps.Now()
	if !until.IsZero() && (!until.After(now) || until.After(now.Add(maxBlock))) {
		return &ValidationError{"until", "must be in the next ten years"}
	}
	return s.moveState(ctx, usernameOrID, Blocked, until.UTC().Truncate(time.Second), by)
}

// moveState sets the state of a person, Blocked until a time if it is not zero.
func (s *Service) moveState(ctx context.Context, usernameOrID string, to State, until time.Time, by audit.Actor) error {
	ev, err := s.NewEvents(by.Origin, stateEvents[to], EventUpdated)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		id, rec, err := s.Find(tx, usernameOrID)
		if err != nil {
			return err
		}
		return s.moveIn(tx, id, rec, to, until, by, ev, now)
	})
}

// moveIn is moveState in a transaction that has read the record.
func (s *Service) moveIn(tx storage.Tx, id string, rec Record, to State, until time.Time, by audit.Actor,
	ev []audit.Event, now time.Time,
) error {
	c := changeContext{by, stateEvents[to], ev[0], now}
	if to == Active && rec.isInvited() { // who is not active now, but invited
		c.Kind, c.event, c.by.Reason = EventUpdated, ev[1], "state"
	}
	_, err := s.changeIn(tx, id, rec, c, func(tx storage.Tx, id string, rec *Record) (bool, error) {
		switch {
		case rec.State == Removed:
			return false, ErrNoPerson
		case rec.State == to && rec.BlockedUntil.Equal(until):
			return false, nil
		case rec.State == Invited && to == Active:
			return false, &StateError{Invited}
		}
		if rec.State != to {
			rec.moveTo(to)
			rec.Epoch++
		}
		if rec.BlockedUntil = until; until.IsZero() {
			return true, nil
		}
		return true, blockEnds.Put(tx, storage.Key(until.Format(blockStamp), id), struct{}{}, time.Time{})
	})
	return err
}

// EndBlocks lets those sign in again whose blocks have ended by now, and returns how many.
func (s *Service) EndBlocks(ctx context.Context) (n int, err error) {
	now := s.deps.Now()
	for {
		var due []string
		err := s.deps.Store.View(ctx, func(tx storage.Tx) error {
			due = nil
			for e, err := range blockEnds.Scan(tx, storage.Range{Limit: endedAtOnce}) {
				if err != nil {
					return err
				}
				if storage.Parts(e.Key)[0] > now.UTC().Format(blockStamp) {
					break
				}
				due = append(due, e.Key)
			}
			return nil
		})
		if err != nil || len(due) == 0 {
			return n, err
		}
		for _, key := range due {
			ended, err := s.endBlock(ctx, key, now)
			if err != nil {
				return n, err
			}
			if ended {
				n++
			}
		}
	}
}

// endBlock ends the block of a key of blockEnds, unless it was ended or its time was changed.
func (s *Service) endBlock(ctx context.Context, key string, now time.Time) (ended bool, err error) {
	parts := storage.Parts(key)
	ev, err := s.NewEvents(audit.Self, EventActivated, EventUpdated)
	if err != nil {
		return false, err
	}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		ended = false
		if err := blockEnds.Delete(tx, key); err != nil {
			return err
		}
		id, rec, err := s.Find(tx, parts[1])
		if errors.Is(err, ErrNoPerson) {
			return nil
		}
		if err != nil || rec.State != Blocked || rec.BlockedUntil.UTC().Format(blockStamp) != parts[0] {
			return err
		}
		ended = true
		return s.moveIn(tx, id, rec, Active, time.Time{}, audit.Actor{Reason: "the time of the block is over"}, ev, now)
	})
	return ended, err
}
