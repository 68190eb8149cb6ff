package person

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// finishTime bounds how long a call gives the members of a group its change. After that FinishGroups does.
const finishTime = 5 * time.Minute

// finishing returns the context for the rest of a change of a group, of which a first part is stored: it goes on when
// the caller has hung up.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), finishTime)
}

// FinishGroups gives the members of groups the changes whose calls have not come to their end, such as before a crash.
// It returns the number of these groups.
func (s *Service) FinishGroups(ctx context.Context) (n int, err error) {
	var due []string
	latest := s.deps.Now().Add(-finishTime)
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		due = nil
		for e, err := range unfinishedGroups.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if !e.Value.After(latest) {
				due = append(due, e.Key)
			}
		}
		return nil
	})
	for _, id := range due {
		failed := s.finishGroup(ctx, id)
		if failed == nil {
			n++
		}
		err = errors.Join(err, failed)
	}
	return n, err
}

func (s *Service) finishGroup(ctx context.Context, id string) error {
	err := s.settle(ctx, id)
	removing := false
	if err == nil {
		err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
			rec, _, err := groups.Find(tx, id)
			removing = rec.Removing
			return err
		})
	}
	if err == nil && removing {
		err = s.emptyGroup(ctx, id, audit.Actor{Origin: audit.Self})
	}
	if errors.Is(err, ErrNoGroup) { // another call was faster
		return nil
	}
	return err
}

// RemoveGroup removes all members of a group, then the group.
func (s *Service) RemoveGroup(ctx context.Context, id string, by audit.Actor, allow func(tx storage.Tx, g Group) error) error {
	now := s.deps.Now()
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
		if err := unfinishedGroups.Put(tx, id, now, time.Time{}); err != nil {
			return err
		}
		return groups.Put(tx, id, rec, time.Time{})
	})
	if err != nil {
		return err
	}
	rest, stop := finishing(ctx)
	defer stop()
	return s.emptyGroup(rest, id, by)
}

// emptyGroup removes the members of a group that is being removed, and the group with the last of them.
func (s *Service) emptyGroup(ctx context.Context, id string, by audit.Actor) (err error) {
	for more := true; more && err == nil; {
		more, err = s.removeMembers(ctx, id, by)
	}
	return err
}

// removeMembers removes some members, as emptyGroup does.
func (s *Service) removeMembers(ctx context.Context, id string, by audit.Actor) (more bool, err error) {
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
		if err := unfinishedGroups.Delete(tx, id); err != nil {
			return err
		}
		return groups.Delete(tx, id)
	})
	return more, err
}

// errUnsettled says that a group has been renamed, and that some of its members still have the old name.
var errUnsettled = errors.New("the group is being renamed")

// changeSettled runs the transaction of a change of a group whose members all have its name. Another call can rename
// the group at any time, and only the transaction itself can exclude that.
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
			if err := unfinishedGroups.Delete(tx, id); err != nil {
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
