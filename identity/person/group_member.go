package person

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// addMembers adds persons to a group. To a group a person of another partition is an unknown one.
func (s *Service) addMembers(tx storage.Tx, group string, g *groupRecord, c *GroupChange, ev []audit.Event, now time.Time) error {
	name := g.Name
	var unknown []string
	for i, id := range c.Add {
		err := s.setMember(tx, id, ev[i], now, func(rec *Record) (bool, error) {
			if rec.Partition != g.Partition {
				return false, ErrNoPerson
			}
			if slices.Contains(rec.Groups, name) {
				return false, nil
			}
			rec.Groups = append(slices.Clone(rec.Groups), name)
			if len(rec.Groups) > maxGroups {
				return false, &ValidationError{"groups", fmt.Sprintf("of a member are more than %d", maxGroups)}
			}
			return true, joinGroup(tx, g.Partition, name, id, now)
		})
		if errors.Is(err, ErrNoPerson) {
			unknown = append(unknown, id)
			continue
		}
		if err != nil {
			return fmt.Errorf("member of group %s: %w", group, err)
		}
	}
	if len(unknown) > 0 {
		return &UnknownMembersError{unknown}
	}
	return nil
}

// setMember changes the groups of one person, with the event.
func (s *Service) setMember(tx storage.Tx, id string, e audit.Event, now time.Time, fn func(*Record) (bool, error)) error {
	rec, err := Records.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.State == Removed {
		return ErrNoPerson
	}
	if err != nil {
		return err
	}
	changed, err := fn(&rec)
	if err != nil || !changed {
		return err
	}
	rec.UpdatedAt = now
	if err := Records.Put(tx, id, rec, time.Time{}); err != nil {
		return err
	}
	e.PersonID, e.Reason, e.Partition = id, "groups", rec.PartitionName()
	return s.deps.Events.Append(tx, e)
}

func (s *Service) changeMembers(tx storage.Tx, id string, g *groupRecord, c *GroupChange, ev []audit.Event, now time.Time) error {
	name := g.Name
	for i, who := range c.Remove {
		err := s.setMember(tx, who, ev[i], now, func(rec *Record) (bool, error) {
			if !slices.Contains(rec.Groups, name) || rec.Partition != g.Partition {
				return false, nil
			}
			rec.Groups = slices.DeleteFunc(slices.Clone(rec.Groups), func(g string) bool { return g == name })
			return true, leaveGroup(tx, g.Partition, name, who, now)
		})
		if err != nil && !errors.Is(err, ErrNoPerson) { // an unknown person is no member
			return err
		}
	}
	return s.addMembers(tx, id, g, c, ev[len(c.Remove):], now)
}

// membersBeside returns the members to remove so that only those of Add stay.
func membersBeside(tx storage.Tx, id string, c *GroupChange) ([]string, error) {
	keep := make(map[string]bool, len(c.Add))
	for _, k := range c.Add {
		keep[k] = true
	}
	out := slices.Clone(c.Remove)
	for e, err := range groupMembers.Scan(tx, storage.Range{Prefix: storage.Prefix(id)}) {
		if err != nil {
			return nil, err
		}
		if who := storage.Parts(e.Key)[1]; !keep[who] && !slices.Contains(c.Remove, who) {
			if out = append(out, who); len(out) > maxMemberChanges {
				return nil, &TooManyError{"members", maxMemberChanges}
			}
		}
	}
	return out, nil
}

// newMembers returns the ids of persons who are not members yet, each once.
func newMembers(tx storage.Tx, id string, add []string) (out []string, err error) {
	seen := make(map[string]bool, len(add))
	for _, who := range add {
		if seen[who] || len(who) > MaxTag {
			continue
		}
		seen[who] = true
		in, err := groupMembers.Has(tx, storage.Key(id, who))
		if err != nil {
			return nil, err
		}
		if !in {
			out = append(out, who)
		}
	}
	return out, nil
}

func someMembers(tx storage.Tx, id, after string, limit int) (out []string, err error) {
	r := storage.Range{Prefix: storage.Prefix(id), Limit: limit}
	if after != "" {
		r.After = []byte(storage.Key(id, after))
	}
	for e, err := range groupMembers.Scan(tx, r) {
		if err != nil {
			return nil, err
		}
		out = append(out, storage.Parts(e.Key)[1])
	}
	return out, nil
}

// joinGroup records that a person of a partition is in a group of it, and makes the group if it does not exist.
func joinGroup(tx storage.Tx, partition, name, person string, now time.Time) error {
	id, found, err := findGroupName(tx, partition, name)
	if err == nil && !found {
		var space uuid.UUID
		if space, err = uuid.Parse(person); err != nil {
			return err
		}
		id = uuid.NewSHA1(space, []byte(now.String()+name)).String() // unique, since a person's id is random
		err = createGroup(tx, id, groupRecord{Name: name, Partition: stored(partition), CreatedAt: now})
	}
	if err != nil {
		return err
	}
	rec, err := groups.Get(tx, id)
	if err != nil {
		return err
	}
	if rec.Removing || rec.Name != name {
		return &ValidationError{"groups", "name a group that is being renamed or removed"}
	}
	err = groupMembers.Create(tx, storage.Key(id, person), struct{}{}, time.Time{})
	if errors.Is(err, storage.ErrExists) {
		return nil
	}
	if err != nil {
		return err
	}
	rec.Members++
	rec.Version++
	rec.UpdatedAt = now
	return groups.Put(tx, id, rec, time.Time{})
}

// leaveGroup records that a person of a partition is no longer in a group.
func leaveGroup(tx storage.Tx, partition, name, person string, now time.Time) error {
	id, found, err := findGroupName(tx, partition, name)
	if err != nil || !found {
		return err
	}
	rec, err := groups.Get(tx, id)
	if err != nil {
		return err
	}
	in, err := groupMembers.Has(tx, storage.Key(id, person))
	if err != nil || !in {
		return err
	}
	rec.Members--
	rec.Version++
	rec.UpdatedAt = now
	if err := groups.Put(tx, id, rec, time.Time{}); err != nil {
		return err
	}
	return groupMembers.Delete(tx, storage.Key(id, person))
}

// Members returns the ids of at most limit members of a group (0: all) in order, beginning after the id after.
func (s *Service) Members(tx storage.Tx, group, after string, limit int) ([]string, error) {
	return someMembers(tx, group, after, limit)
}

// MemberKey is the stored key that a person has as a member of a group, for GetMany.
func MemberKey(group, person string) []byte { return groupMembers.Key(storage.Key(group, person)) }
