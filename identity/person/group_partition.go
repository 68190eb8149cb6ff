package person

import (
	"cmp"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
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

// partitionName returns the name of the group's partition.
func (r *groupRecord) partitionName() string { return cmp.Or(r.Partition, audit.DefaultPartition) }
