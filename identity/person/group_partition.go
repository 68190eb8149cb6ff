package person

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every partition has groups of its own, whose members are its persons. Records of persons hold the names of groups, so
// a name means the group of that name in the person's partition. As with usernames, the default partition has a table
// of its own, since it is older than the others.

func findGroupName(tx storage.Tx, partition, name string) (id string, found bool, err error) {
	if stored(partition) == "" {
		return groupNames.Find(tx, name)
	}
	return partitionGroupNames.Find(tx, storage.Key(partition, name))
}

// createGroupName takes the name for the group of an id, or returns ErrGroupTaken.
func createGroupName(tx storage.Tx, partition, name, id string) error {
	var err error
	if stored(partition) == "" {
		err = groupNames.Create(tx, name, id, time.Time{})
	} else {
		err = partitionGroupNames.Create(tx, storage.Key(partition, name), id, time.Time{})
	}
	if errors.Is(err, storage.ErrExists) {
		return ErrGroupTaken
	}
	return err
}

func deleteGroupName(tx storage.Tx, partition, name string) error {
	if stored(partition) == "" {
		return groupNames.Delete(tx, name)
	}
	return partitionGroupNames.Delete(tx, storage.Key(partition, name))
}

// scanGroupNames yields the names of the groups of a partition in order, with their ids, beginning after the name
// after.
func scanGroupNames(tx storage.Tx, partition, after string, yield func(name, id string) (bool, error)) error {
	table, prefix := groupNames, ""
	if stored(partition) != "" {
		table, prefix = partitionGroupNames, string(storage.Prefix(partition))
	}
	r := storage.Range{Prefix: []byte(prefix)}
	if after != "" {
		r.After = []byte(prefix + after)
	}
	for e, err := range table.Scan(tx, r) {
		if err != nil {
			return err
		}
		if more, err := yield(e.Key[len(prefix):], e.Value); err != nil || !more {
			return err
		}
	}
	return nil
}

// separated is the key that says that every group is in one partition.
const separated = "partitions"

// separateGroups gives the members of a group who are in other partitions a group of the same name and permissions
// there. An earlier version had one group of a name for all partitions. It runs once, in many transactions, and can be
// repeated after an interruption.
func (s *Service) separateGroups(ctx context.Context) error {
	done, apart := false, false
	err := s.store.View(ctx, func(tx storage.Tx) (err error) {
		if done, err = groupSteps.Has(tx, separated); err != nil || done {
			return err
		}
		apart = false
		for _, err := range partitionUsernames.Scan(tx, storage.Range{Limit: 1}) {
			apart = true
			return err
		}
		return nil
	})
	if err != nil || done {
		return err
	}
	for after := ""; apart; {
		var ids []string
		err := s.store.View(ctx, func(tx storage.Tx) error {
			ids = nil
			r := storage.Range{Limit: groupChunk}
			if after != "" {
				r.After = []byte(after)
			}
			for e, err := range groups.Scan(tx, r) {
				if err != nil {
					return err
				}
				ids = append(ids, e.Key)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			s.log.Info("groups separated by partition")
			break
		}
		for _, id := range ids {
			if err := s.separateGroup(ctx, id); err != nil {
				return err
			}
		}
		after = ids[len(ids)-1]
	}
	return s.store.Update(ctx, func(tx storage.Tx) error { return groupSteps.Put(tx, separated, struct{}{}, time.Time{}) })
}

// separateGroup moves the members of one group.
func (s *Service) separateGroup(ctx context.Context, id string) error {
	if err := s.settle(ctx, id); errors.Is(err, ErrNoGroup) { // removed in this moment
		return nil
	} else if err != nil {
		return err
	}
	for after := ""; ; {
		last := ""
		err := s.store.Update(ctx, func(tx storage.Tx) error {
			last = ""
			rec, found, err := groups.Find(tx, id)
			if err != nil || !found || rec.Partition != "" {
				return err
			}
			members, err := someMembers(tx, id, after, groupChunk)
			if err != nil {
				return err
			}
			before := rec.Version
			for _, who := range members {
				p, found, err := Records.Find(tx, who)
				if err != nil {
					return err
				}
				if found && p.Partition != "" {
					if err := moveMember(tx, id, &rec, who, p.Partition); err != nil {
						return err
					}
				}
				last = who
			}
			if rec.Version == before {
				return nil
			}
			return groups.Put(tx, id, rec, time.Time{})
		})
		if err != nil || last == "" {
			return err
		}
		after = last
	}
}

// moveMember moves a member of a group of the default partition to the group of that name in their own.
func moveMember(tx storage.Tx, from string, rec *groupRecord, who, partition string) error {
	to, found, err := findGroupName(tx, partition, rec.Name)
	if err != nil {
		return err
	}
	if !found {
		space, err := uuid.Parse(from)
		if err != nil {
			return err
		}
		to = uuid.NewSHA1(space, []byte(partition)).String()
		err = createGroup(tx, to, groupRecord{
			Name: rec.Name, Partition: partition, ExternalID: rec.ExternalID, Permissions: rec.Permissions, CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt,
		})
		if err != nil {
			return err
		}
	}
	target, err := groups.Get(tx, to)
	if err != nil {
		return err
	}
	rec.Members--
	rec.Version++
	if err := groupMembers.Delete(tx, storage.Key(from, who)); err != nil {
		return err
	}
	err = groupMembers.Create(tx, storage.Key(to, who), struct{}{}, time.Time{})
	if errors.Is(err, storage.ErrExists) {
		return nil
	}
	if err != nil {
		return err
	}
	target.Members++
	target.Version++
	return groups.Put(tx, to, target, time.Time{})
}

// partitionName returns the name of the group's partition.
func (r *groupRecord) partitionName() string { return cmp.Or(r.Partition, event.DefaultPartition) }
