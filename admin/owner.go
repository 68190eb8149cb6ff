package admin

import (
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// MakeOwner puts the person of a username into the group of the console's owners. If no one has the username, the
// person is created first, without a password: from then on no one else can sign up with it. made reports whether that
// happened.
func (s *Service) MakeOwner(ctx context.Context, name, group string, by audit.Actor) (made bool, err error) {
	persons := s.Identity.Person
	p, err := persons.Person(ctx, name)
	if errors.Is(err, person.ErrNoPerson) {
		_, err = persons.AddPerson(ctx, person.NewPerson{Username: name, Groups: []string{group}}, by)
		if errors.Is(err, person.ErrUsernameTaken) { // another node was faster
			return false, nil
		}
		return err == nil, err
	}
	if err != nil || slices.Contains(p.Groups, group) {
		return false, err
	}
	if p.Partition != "" {
		return false, &person.ValidationError{Field: "partition", Problem: "of an owner of the admin console must be the default one"}
	}
	var g person.Group
	err = s.Store.View(ctx, func(tx storage.Tx) (err error) {
		g, err = persons.Group(tx, audit.DefaultPartition, group)
		return err
	})
	if errors.Is(err, person.ErrNoGroup) {
		_, err = persons.AddGroup(ctx, person.GroupChange{Name: group, Add: []string{p.ID}}, by)
		return false, err
	}
	if err == nil {
		_, err = persons.UpdateGroup(ctx, g.ID, by, func(_ storage.Tx, _ person.Group, c *person.GroupChange) error {
			c.Add = []string{p.ID}
			return nil
		})
	}
	return false, err
}
