package person

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// RemoveGroup removes all members of a group, then the group. It can be repeated after an interruption.
func (s *Service) RemoveGroup(ctx context.Context, id string, by audit.Actor, allow func(tx storage.Tx, g Group) error) error {
	err := s.changeSettled(ctx, id, func(tx storage.Tx) error {
		rec, err := groups.Get(tx, id)
		if err != nil || rec.Removing {
			return err
		}
		if allow != nil {
			if err := allow(tx, rec.group(id)); err != nil {
				return err
			}
		}
		if err := s.spareGroup(by, rec.partitionName(), rec.Name); err != nil {
			return err
		}
		rec.Removing = true
		return groups.Put(tx, id, rec, time.Time{})
	})
	for more := err == nil; more && err == nil; {
		more, err = s.emptyGroup(ctx, id, by)
	}
	return err
}

// emptyGroup removes some members of a group that is being removed, and the group with the last of them.
func (s *Service) emptyGroup(ctx context.Context, id string, by audit.Actor) (more bool, err error) {
	ev, err := s.groupEvents(by, groupRemoved, groupChunk)
	if err != nil {
		return false, err
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		more = false
		rec, found, err := groups.Find(tx, id)
		if err != nil || !found { // another call was faster
			return err
		}
		members, err := someMembers(tx, id, "", groupChunk)
		if err != nil {
			return err
		}
		if more = len(members) == groupChunk; len(members) > 0 {
			c := GroupChange{Remove: members}
			if err := s.changeMembers(tx, id, &rec, &c, ev[1:], now); err != nil {
				return err
			}
		}
		for _, who := range members { // including removed persons
			if err := groupMembers.Delete(tx, storage.Key(id, who)); err != nil {
				return err
			}
		}
		if more {
			return nil
		}
		if err := deleteGroupName(tx, rec.Partition, rec.Name); err != nil {
			return err
		}
		e := ev[0]
		e.Reason, e.Partition = rec.Name, rec.partitionName()
		if err := s.deps.Events.Append(tx, e); err != nil {
			return err
		}
		return groups.Delete(tx, id)
	})
	return more, err
}

// errUnsettled says that a group has been renamed, and that some of its members still have the old name.
var errUnsettled = errors.New("the group is being renamed")

// changeSettled runs the transaction of a change of a group whose members all have its name. Another call can rename the
// group at any time, so that is certain only within the transaction.
func (s *Service) changeSettled(ctx context.Context, id string, fn func(storage.Tx) error) error {
	for {
		if err := s.settle(ctx, id); err != nil {
			return err
		}
		err := s.deps.Store.Update(ctx, func(tx storage.Tx) error {
			rec, err := groups.Get(tx, id)
			if errors.Is(err, storage.ErrNotFound) {
				return ErrNoGroup
			}
			if err == nil && rec.Former != "" {
				err = errUnsettled
			}
			if err != nil {
				return err
			}
			return fn(tx)
		})
		if !errors.Is(err, errUnsettled) {
			return err
		}
	}
}

// settle gives the members of a renamed group its new name, in several transactions, and frees the old name in the
// last. Several calls can do it together.
func (s *Service) settle(ctx context.Context, id string) error {
	for done := false; !done; {
		err := s.deps.Store.Update(ctx, func(tx storage.Tx) error {
			rec, err := groups.Get(tx, id)
			if errors.Is(err, storage.ErrNotFound) {
				return ErrNoGroup
			}
			if done = rec.Former == ""; err != nil || done {
				return err
			}
			members, err := someMembers(tx, id, rec.Settled, groupChunk)
			if err != nil {
				return err
			}
			for _, who := range members {
				if err := rename(tx, who, rec.Former, rec.Name); err != nil {
					return err
				}
				rec.Settled = who
			}
			if len(members) == groupChunk {
				return groups.Put(tx, id, rec, time.Time{})
			}
			if err := deleteGroupName(tx, rec.Partition, rec.Former); err != nil {
				return err
			}
			rec.Former, rec.Settled, done = "", "", true
			return groups.Put(tx, id, rec, time.Time{})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rename replaces the name of a group in the record of a member.
func rename(tx storage.Tx, person, from, to string) error {
	rec, _, err := Records.Find(tx, person)
	at := slices.Index(rec.Groups, from)
	if err != nil || at < 0 {
		return err
	}
	rec.Groups = slices.Clone(rec.Groups)
	rec.Groups[at] = to
	return Records.Put(tx, person, rec, time.Time{})
}
