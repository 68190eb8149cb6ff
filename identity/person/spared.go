package person

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Spare returns ErrSpared for a person with a role in the admin console.
func (s *Service) Spare(tx storage.Tx, id string) error {
	rec, found, err := Records.Find(tx, id)
	if err == nil && found && s.HasRole(&rec) {
		err = ErrSpared
	}
	return err
}

// SpareNew returns ErrSpared if the actor must not make a person with a role.
func (s *Service) SpareNew(by audit.Actor, rec *Record) error {
	if by.BelowRoles && s.HasRole(rec) {
		return ErrSpared
	}
	return nil
}

// spare returns ErrSpared for a change that the actor must not make: of the groups that give a role, or of what a
// person with a role signs in with and is reached by. (docs/decisions/console.md#programs-and-roles)
func (u *updateTx) spare(was, rec *Record, old, now *Profile) error {
	switch {
	case !u.By.BelowRoles:
		return nil
	case !slices.Equal(u.s.roleGroups(was), u.s.roleGroups(rec)):
		return ErrSpared
	case !u.s.HasRole(was):
		return nil
	}
	sameEmails := slices.EqualFunc(old.EmailAddresses, now.EmailAddresses, func(a, b EmailAddress) bool {
		return FoldEmail(a.Value) == FoldEmail(b.Value) && a.Primary == b.Primary
	})
	sameNumbers := slices.EqualFunc(old.PhoneNumbers, now.PhoneNumbers, func(a, b PhoneNumber) bool {
		return a.Value == b.Value && a.Primary == b.Primary
	})
	if was.Username != rec.Username || u.phc != "" || was.State != Active && rec.State == Active || !sameEmails || !sameNumbers {
		return ErrSpared
	}
	return nil
}

// spareGroup returns ErrSpared if the actor must not change a group because one of its names gives a role.
func (s *Service) spareGroup(by audit.Actor, partition string, names ...string) error {
	if by.BelowRoles && slices.ContainsFunc(names, func(name string) bool { return s.givesRole(partition, name) }) {
		return ErrSpared
	}
	return nil
}

// roleGroups returns the groups of a person that give a role, in their order.
func (s *Service) roleGroups(rec *Record) []string {
	return slices.DeleteFunc(slices.Clone(rec.Groups), func(name string) bool { return !s.givesRole(rec.PartitionName(), name) })
}

// givesRole reports whether a group of a partition gives a role in the admin console.
func (s *Service) givesRole(partition, name string) bool {
	return s.cfg.HasRole != nil && s.cfg.HasRole(partition, []string{name})
}
