package person

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Group is a set of persons. The claim groups, headers and protect use its name; its permissions come with it.
type Group struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Partition   string    `json:"partition,omitempty"` // empty: the default one
	ExternalID  string    `json:"external_id,omitempty"`
	Permissions []string  `json:"permissions"`
	Members     int64     `json:"members"` // their number
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	Version     int64     `json:"-"` // grows with each change, memberships included
}

// GroupChange is the wanted state of a group. UpdateGroup fills in the present one. Add and Remove are ids of members.
type GroupChange struct {
	Name        string
	ExternalID  string
	Permissions []string
	Add, Remove []string
	// Clear removes all members that are not in Add.
	Clear bool
	// Partition is the partition of a new group; its members are persons of that partition. Empty: the default one.
	Partition string
}

const (
	maxPermissions = 256
	// maxMemberChanges bounds the members of one change of a group, since it is one transaction.
	maxMemberChanges = 500
	groupChunk       = 200 // members per transaction when a group is renamed or removed
)

// AddGroup makes a group. Errors: ErrGroupTaken, ErrNoPerson for a member, *ValidationError.
func (s *Service) AddGroup(ctx context.Context, c GroupChange, by audit.Actor) (g Group, err error) {
	if err := c.check(); err != nil {
		return g, err
	}
	if err := s.spareGroup(by, c.Partition, c.Name); err != nil {
		return g, err
	}
	id, err := uuid.NewRandomFromReader(s.deps.Random)
	if err != nil {
		return g, err
	}
	ev, err := s.groupEvents(by, groupCreated, len(c.Add))
	if err != nil {
		return g, err
	}
	ev[0].Partition = c.Partition
	now := s.deps.Now()
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		rec := groupRecord{
			Name: c.Name, Partition: stored(c.Partition), ExternalID: c.ExternalID, Permissions: c.Permissions,
			CreatedAt: now, UpdatedAt: now,
		}
		if err := createGroup(tx, id.String(), rec); err != nil {
			return err
		}
		if err := s.addMembers(tx, id.String(), &rec, &c, ev[1:], now); err != nil {
			return err
		}
		if rec, err = groups.Get(tx, id.String()); err != nil {
			return err
		}
		g = rec.group(id.String())
		ev[0].Reason = c.Name
		return s.deps.Events.Append(tx, ev[0])
	})
	return g, err
}

// groupEvents makes the event of a change of a group, and one for each member that changes.
func (s *Service) groupEvents(by audit.Actor, kind audit.Type, members int) ([]audit.Event, error) {
	kinds := append([]audit.Type{kind}, slices.Repeat([]audit.Type{EventUpdated}, members)...)
	ev, err := s.NewEvents(by.Origin, kinds...)
	if err != nil {
		return nil, err
	}
	for i := range ev {
		ev[i] = by.Fill(ev[i], "", "")
	}
	return ev, nil
}

func createGroup(tx storage.Tx, id string, rec groupRecord) error {
	if err := createGroupName(tx, rec.Partition, rec.Name, id); err != nil {
		return err
	}
	return groups.Create(tx, id, rec, time.Time{})
}

func (c *GroupChange) check() error {
	if err := checkGroupName(c.Name); err != nil {
		return &ValidationError{"name", "of a group must have 1 to 256 characters, none of them a control character"}
	}
	if !IsText(c.ExternalID, MaxLine) {
		return &ValidationError{"externalId", "is too long or has control characters"}
	}
	if len(c.Permissions) > maxPermissions {
		return &ValidationError{"permissions", fmt.Sprintf("are more than %d", maxPermissions)}
	}
	for _, p := range c.Permissions {
		if p == "" || !IsText(p, MaxLine) {
			return &ValidationError{"permissions", "must be texts of 1 to 256 characters, none of them a control character"}
		}
	}
	if n := len(c.Add) + len(c.Remove); n > maxMemberChanges {
		return &TooManyError{"members", maxMemberChanges}
	}
	return nil
}

// UpdateGroup lets fn change a group. An error of fn undoes everything and is returned. Errors: ErrNoGroup,
// ErrGroupTaken, ErrNoPerson for a member, *ValidationError, *TooManyError.
func (s *Service) UpdateGroup(ctx context.Context, id string, by audit.Actor,
	fn func(tx storage.Tx, now Group, c *GroupChange) error,
) (g Group, err error) {
	ev, err := s.groupEvents(by, groupUpdated, maxMemberChanges)
	if err != nil {
		return g, err
	}
	now := s.deps.Now()
	renamed := false
	err = s.changeSettled(ctx, id, func(tx storage.Tx) error {
		rec, err := readGroup(tx, id)
		if err != nil {
			return err
		}
		g = rec.group(id)
		c := GroupChange{Name: rec.Name, Partition: rec.partitionName(), ExternalID: rec.ExternalID, Permissions: slices.Clone(rec.Permissions)}
		if err := fn(tx, g, &c); err != nil {
			return err
		}
		if c.Clear {
			if c.Remove, err = membersBeside(tx, id, &c); err != nil {
				return err
			}
		}
		if c.Add, err = newMembers(tx, id, c.Add); err != nil {
			return err
		}
		if err := c.check(); err != nil {
			return err
		}
		same := c.Name == rec.Name && c.ExternalID == rec.ExternalID && slices.Equal(c.Permissions, rec.Permissions)
		if !same || len(c.Add)+len(c.Remove) > 0 {
			if err := s.spareGroup(by, rec.partitionName(), rec.Name, c.Name); err != nil {
				return err
			}
		}
		if err := s.changeMembers(tx, id, &rec, &c, ev[1:], now); err != nil {
			return err
		}
		after, err := groups.Get(tx, id) // joins and leaves have counted
		if err != nil {
			return err
		}
		renamed = c.Name != rec.Name
		if same && after.Version == rec.Version {
			return nil
		}
		if renamed {
			if err := createGroupName(tx, rec.Partition, c.Name, id); err != nil {
				return err
			}
			after.Former = rec.Name
			if err := unfinishedGroups.Put(tx, id, now, time.Time{}); err != nil {
				return err
			}
		}
		after.Name, after.ExternalID, after.Permissions = c.Name, c.ExternalID, c.Permissions
		after.UpdatedAt = now
		after.Version++
		g = after.group(id)
		e := ev[0]
		e.Reason, e.Partition = c.Name, rec.partitionName()
		if err := groups.Put(tx, id, after, time.Time{}); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, e)
	})
	if err != nil || !renamed {
		return g, err
	}
	rest, stop := finishing(ctx)
	defer stop()
	return g, s.settle(rest, id)
}

// readGroup returns a group that is not being removed, or ErrNoGroup.
func readGroup(tx storage.Tx, id string) (groupRecord, error) {
	rec, err := groups.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.Removing {
		return rec, ErrNoGroup
	}
	return rec, err
}

// GroupByID returns the group of an id, or ErrNoGroup.
func (s *Service) GroupByID(tx storage.Tx, id string) (Group, error) {
	rec, err := readGroup(tx, id)
	return rec.group(id), err
}

// GroupID returns the id of the group of a name in a partition, or "" if there is no such group.
func (s *Service) GroupID(tx storage.Tx, partition, name string) (string, error) {
	id, _, err := findGroupName(tx, partition, name)
	return id, err
}

// Group returns the group of a name in a partition, or of an id in any, or ErrNoGroup.
func (s *Service) Group(tx storage.Tx, partition, nameOrID string) (Group, error) {
	rec, err := readGroup(tx, nameOrID)
	if err == nil || !errors.Is(err, ErrNoGroup) {
		return rec.group(nameOrID), err
	}
	if len(nameOrID) > maxFolded {
		return Group{}, ErrNoGroup
	}
	id, found, err := findGroupName(tx, partition, nameOrID)
	if err == nil && !found {
		err = ErrNoGroup
	}
	if err != nil {
		return Group{}, err
	}
	rec, err = readGroup(tx, id)
	return rec.group(id), err
}

// Groups returns at most limit groups (0: all) of a partition by name, beginning after the name after.
func (s *Service) Groups(tx storage.Tx, partition, after string, limit int) (list []Group, err error) {
	err = scanGroupNames(tx, partition, after, func(name, id string) (bool, error) {
		rec, err := groups.Get(tx, id)
		if err != nil {
			return false, err
		}
		if !rec.Removing && rec.Name == name {
			list = append(list, rec.group(id))
		}
		return limit <= 0 || len(list) < limit, nil
	})
	return list, err
}

// Permissions returns the permissions of groups of a partition by the names of the groups, as Get returns them. A name
// without a record has no permissions.
func (s *Service) Permissions(tx storage.Tx, partition string, names []string) (map[string][]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	out := make(map[string][]string, len(names))
	for _, n := range names {
		out[n] = []string{}
		id, found, err := findGroupName(tx, partition, s.cfg.Partitions.inside(partition, n))
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		rec, err := groups.Get(tx, id)
		if err != nil {
			return nil, err
		}
		if !rec.Removing && len(rec.Permissions) > 0 {
			out[n] = rec.Permissions
		}
	}
	return out, nil
}

func (r *groupRecord) group(id string) Group {
	return Group{
		ID: id, Name: r.Name, Partition: r.Partition, ExternalID: r.ExternalID, Permissions: slices.Concat([]string{}, r.Permissions),
		Members:   r.Members,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Version: r.Version,
	}
}
