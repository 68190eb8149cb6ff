// Package merge combines two accounts of the same human: what can move goes to the account that stays, and the other
// one is removed. (docs/decisions/console.md#merging-accounts)
package merge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Errors of accounts that cannot be merged.
var (
	ErrSame      = errors.New("it is the same account")
	ErrPartition = errors.New("the accounts are of different partitions")
	ErrState     = errors.New("one of the accounts is not active")
)

// Plan are the things that move to the account that stays, and those that cannot.
type Plan struct {
	Providers, Groups, Addresses, Numbers []string
	// Left are the providers at which both accounts are linked, or whose proxy has made the account: that link ends.
	Left []string

	links []person.Identity
}

// Look returns what would go over.
func Look(tx storage.Tx, persons *person.Service, stays, goes string) (p Plan, err error) {
	if stays == goes {
		return p, ErrSame
	}
	keep, err := persons.Details(tx, stays)
	if err != nil {
		return p, err
	}
	other, err := persons.Details(tx, goes)
	if err != nil {
		return p, err
	}
	return look(tx, &keep, &other)
}

func look(tx storage.Tx, keep, other *person.Details) (p Plan, err error) {
	switch {
	case keep.ID == other.ID:
		return p, ErrSame
	case keep.Partition != other.Partition:
		return p, ErrPartition
	case keep.State != person.Active || other.State != person.Active:
		return p, ErrState
	}
	linked, err := person.CoupledIdentities(tx, keep.ID)
	if err != nil {
		return p, err
	}
	theirs, err := person.CoupledIdentities(tx, other.ID)
	if err != nil {
		return p, err
	}
	rec, err := person.Records.Get(tx, other.ID)
	if err != nil {
		return p, err
	}
	at := func(provider string) func(person.Identity) bool {
		return func(l person.Identity) bool { return l.Provider == provider }
	}
	for _, l := range theirs {
		// A person has one account at a provider: a second one would open the account of the next holder of the
		// name. What a proxy has made ends with the record that names it.
		if l.Key == rec.External || slices.ContainsFunc(linked, at(l.Provider)) || slices.ContainsFunc(p.links, at(l.Provider)) {
			p.Left = append(p.Left, l.Provider)
			continue
		}
		p.links, p.Providers = append(p.links, l), append(p.Providers, l.Provider)
	}
	for _, g := range other.Groups {
		if !slices.Contains(keep.Groups, g) {
			p.Groups = append(p.Groups, g)
		}
	}
	for _, e := range other.Profile.EmailAddresses {
		if !slices.ContainsFunc(keep.Profile.EmailAddresses,
			func(k person.EmailAddress) bool { return person.FoldEmail(k.Value) == person.FoldEmail(e.Value) }) {
			p.Addresses = append(p.Addresses, e.Value)
		}
	}
	for _, n := range other.Profile.PhoneNumbers {
		if !slices.ContainsFunc(keep.Profile.PhoneNumbers, func(k person.PhoneNumber) bool { return k.Value == n.Value }) {
			p.Numbers = append(p.Numbers, n.Value)
		}
	}
	return p, nil
}

// Service merges accounts. It has no state.
type Service struct {
	Persons *person.Service
	Store   storage.Store
	Events  *audit.Recorder
}

// Merge gives the account stays what can follow from the account goes, and removes that one, in one transaction: there
// is no moment at which both or neither has a link. allow can refuse it for the accounts as the transaction sees them.
// Sessions, tokens, consents, app passwords, the password and the other sign-in methods of the removed account end with
// it. Errors: ErrSame, ErrPartition, ErrState, person.ErrNoPerson, *person.ValidationError.
func (s *Service) Merge(ctx context.Context, stays, goes string, by audit.Actor,
	allow func(tx storage.Tx, keep, other *person.Details) error,
) error {
	if stays == goes {
		return ErrSame
	}
	own := by
	own.BelowOwner = false // addresses only move from one account of the same human to the other, with their marks
	update, err := s.Persons.NewUpdate(ctx, person.Edit{By: own, Verified: true})
	if err != nil {
		return err
	}
	e, err := s.Events.New(merged, by.Origin)
	if err != nil {
		return err
	}
	return s.Persons.RemovePerson(ctx, goes, by, func(tx storage.Tx, other *person.Details) error {
		_, err := update.Apply(tx, stays, func(tx storage.Tx, keep *person.Details) error {
			if allow != nil {
				if err := allow(tx, keep, other); err != nil {
					return err
				}
			}
			plan, err := look(tx, keep, other)
			if err != nil {
				return err
			}
			if err := plan.move(tx, keep.ID, other.ID, by); err != nil {
				return err
			}
			plan.fill(keep, other, by)
			return nil
		})
		if err != nil {
			return err
		}
		e := by.Fill(e, stays, other.Username+" "+other.ID)
		e.Partition = cmp.Or(other.Partition, audit.DefaultPartition)
		return s.Events.Append(tx, e)
	})
}

// move gives the links to the account that stays. That an untrusted actor says so shows nothing of its person.
func (p *Plan) move(tx storage.Tx, stays, goes string, by audit.Actor) error {
	for _, l := range p.links {
		l.Record.PersonID = stays
		if who := by.Untrusted(); who != "" && !l.Record.Vouched {
			l.Record.Vouched, l.Record.SetBy = true, who
		}
		if err := person.Identities.Put(tx, l.Key, l.Record, time.Time{}); err != nil {
			return err
		}
		if err := person.IdentitiesOf.Delete(tx, storage.Key(goes, l.Provider, l.Key)); err != nil {
			return err
		}
		if err := person.IdentitiesOf.Put(tx, storage.Key(stays, l.Provider, l.Key), struct{}{}, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// fill adds groups, addresses and numbers. What the account has stays as it is, and its primary ones stay primary. What
// comes by the word of an untrusted actor is marked by that.
func (p *Plan) fill(keep, other *person.Details, by audit.Actor) {
	keep.Groups = append(slices.Clone(keep.Groups), p.Groups...)
	for _, e := range other.Profile.EmailAddresses {
		if slices.Contains(p.Addresses, e.Value) {
			e.Primary, e.SetBy = len(keep.Profile.EmailAddresses) == 0, cmp.Or(e.SetBy, by.Untrusted())
			keep.Profile.EmailAddresses = append(keep.Profile.EmailAddresses, e)
		}
	}
	for _, n := range other.Profile.PhoneNumbers {
		if slices.Contains(p.Numbers, n.Value) {
			n.Primary, n.SetBy = len(keep.Profile.PhoneNumbers) == 0, cmp.Or(n.SetBy, by.Untrusted())
			keep.Profile.PhoneNumbers = append(keep.Profile.PhoneNumbers, n)
		}
	}
}
