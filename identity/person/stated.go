package person

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// RefuseOthers refuses an address that is verified for another person, as an address or as a username, from an
// administrator below owner: applications know people by it. id is the person ("": a new one), before and was are the
// profile and username until now (nil and "": none). ErrEmailTaken. (docs/decisions/persons.md#verified-marks)
func RefuseOthers(tx storage.Tx, by audit.Actor, id string, rec *Record, now, before *Profile, was string) error {
	if !by.BelowOwner || rec.PartitionName() != audit.DefaultPartition {
		return nil
	}
	var fresh []string
	for _, e := range now.EmailAddresses {
		kept := before != nil && slices.ContainsFunc(before.EmailAddresses, func(o EmailAddress) bool {
			return FoldEmail(o.Value) == FoldEmail(e.Value) && (o.Verified || !e.Verified)
		})
		if !kept {
			fresh = append(fresh, e.Value)
		}
	}
	if IsEmail(rec.Username) && rec.Username != was {
		fresh = append(fresh, rec.Username)
	}
	for _, address := range fresh {
		ids, err := byEmail(tx, address, func(e EmailAddress) bool { return e.Verified })
		if err != nil {
			return err
		}
		if slices.ContainsFunc(ids, func(other string) bool { return other != id }) {
			return ErrEmailTaken
		}
	}
	return nil
}

// markStated marks the addresses that are verified by the word of an administrator below owner alone.
func (p *Profile) markStated(by audit.Actor, before *Profile) {
	for i := range p.EmailAddresses {
		e := &p.EmailAddresses[i]
		e.Stated = e.Stated && e.Verified
		if !e.Verified || !by.BelowOwner {
			continue
		}
		shown := before != nil && slices.ContainsFunc(before.EmailAddresses, func(o EmailAddress) bool {
			return o.Verified && !o.Stated && FoldEmail(o.Value) == FoldEmail(e.Value)
		})
		e.Stated = !shown
	}
}
