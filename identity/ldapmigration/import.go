// Package ldapmigration creates people who come from another system, with their password hashes and, if these are
// UUIDs, their ids. Package importer reads the files of such systems.
package ldapmigration

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Person is a person of another system, with the hash of the password as that system has it.
type Person struct {
	person.NewPerson

	// ID is the id that the person keeps, which applications know as sub: a UUID in lower case. Default: a new one.
	ID string `json:"id,omitempty"`
	// ExternalID is the person's id in the other system.
	ExternalID string `json:"external_id,omitempty"`
}

// Result is the outcome for one person of an import.
type Result struct {
	Status string `json:"status"` // created, updated, exists, failed
	ID     string `json:"id,omitempty"`
	Error  string `json:"error,omitempty"` // of a failed one; it repeats no value
	// Notes say what of the person cannot be kept here. They repeat no value.
	Notes []string `json:"notes,omitempty"`
}

// The values of Result.Status.
const (
	Created = "created"
	Updated = "updated"
	Exists  = "exists"
	Failed  = "failed"
)

const importers = 32 // persons that are written at the same time, so they share syncs

// Service takes persons over.
type Service struct {
	Store   storage.Store
	Persons *person.Service
}

// How says what an import does. The zero value leaves persons who exist alone.
type How struct {
	// Update gives existing persons the profile of the import, and its groups in addition to their own. Their passwords
	// stay.
	Update bool
	// Check writes nothing: the results say what would become of each person, as far as that does not depend on others
	// of the same import.
	Check bool
	// Allow is asked in the transaction of each change, and before an existing person is changed, and refuses with a
	// *RefusedError. id is "" for a person who is new, groups are what the person gets. Any other error ends the
	// import. nil: everything is allowed
	Allow func(tx storage.Tx, id string, groups []string) error
	// KeepSignIn gives existing persons no password, also if they have none.
	KeepSignIn bool
}

// RefusedError is why a person is left out, for a reason of the caller's.
type RefusedError struct{ Problem string }

func (e *RefusedError) Error() string { return "refused: " + e.Problem }

// Import creates persons, each with its event, and returns a result for each. An error is a failure of storage or the
// end of ctx. Some persons can be written by then, and the import can be repeated.
func (s *Service) Import(ctx context.Context, list []Person, how How, by audit.Actor) ([]Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := make([]Result, len(list))
	var (
		workers sync.WaitGroup
		hashing sync.Mutex // one slow hash at a time, so sign-ins get their turn
		next    = make(chan int)
	)
	for range min(importers, len(list)) {
		workers.Go(func() {
			for i := range next {
				one, err := s.one(ctx, &list[i], how, by, &hashing)
				if err != nil {
					stop(err)
				}
				out[i] = one
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	workers.Wait()
	return out, context.Cause(ctx)
}

// one returns the result of one person, or an error if the result is unknown.
func (s *Service) one(ctx context.Context, p *Person, how How, by audit.Actor, hashing *sync.Mutex) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	n, err := s.Persons.Place(p.NewPerson)
	if err != nil {
		return verdict(err)
	}
	n.Foreign = true
	if n.ID = p.ID; p.ExternalID != "" {
		n.Directory = &person.Directory{ExternalID: p.ExternalID}
	}
	if over := secret.TooCostly(n.PasswordHash); over != "" {
		n.PasswordHash = ""
		n.LeftOut = append(n.LeftOut,
			person.LeftOut{Field: "password_hash", Problem: over + ". The person comes without a password and sets one by a reset link"})
	}
	given := n
	if n, err = s.Persons.Usable(ctx, n); err != nil {
		return Result{}, err
	}
	out, err := s.usable(ctx, given, n, how, by, hashing)
	for _, l := range n.LeftOut {
		if out.Status != Failed && out.Status != "" {
			out.Notes = append(out.Notes, l.Field+" "+l.Problem+": left out")
		}
	}
	return out, err
}

// usable is one for a person without what cannot be kept. given is the person as the other system has them.
func (s *Service) usable(ctx context.Context, given, n person.NewPerson, how How, by audit.Actor, hashing *sync.Mutex) (Result, error) {
	if _, _, err := n.Record(); err != nil {
		return verdict(err) // before a hash costs anything
	}
	if n.PasswordHash != "" {
		if err := person.CheckHash(n.PasswordHash); err != nil {
			return verdict(err)
		}
	}
	id, hasPassword, err := s.present(ctx, n)
	if err == nil && how.Allow != nil {
		n.AlsoWrite = func(tx storage.Tx, rec *person.Record, _ string) error { return how.Allow(tx, "", rec.Groups) }
		if id != "" && how.Update {
			err = s.Store.View(ctx, func(tx storage.Tx) error { return how.Allow(tx, id, n.Groups) })
		}
	}
	hasPassword = hasPassword || how.KeepSignIn
	switch {
	case err != nil:
		return verdict(err)
	case how.Check:
		return would(id, how), nil
	case id != "" && (hasPassword || !how.Update):
		n.Password, n.PasswordHash = secret.String{}, "" // the password stays
	}
	if err := s.hash(ctx, &n, hashing); err != nil {
		return verdict(err)
	}
	if id == "" {
		d, err := s.Persons.CreateAs(ctx, n, by, person.ReasonMigration)
		if !errors.Is(err, person.ErrUsernameTaken) {
			if err != nil {
				return verdict(err)
			}
			return Result{Status: Created, ID: d.ID}, nil
		}
		if id, hasPassword, err = s.present(ctx, n); err != nil { // another call was faster
			return verdict(err)
		}
	}
	if !how.Update {
		return Result{Status: Exists, ID: id}, nil
	}
	if hasPassword || how.KeepSignIn {
		n.PasswordHash = ""
	}
	return s.again(ctx, id, given, n, how, by)
}

// would is the result that a person has without being written. id is that of the username, or "".
func would(id string, how How) Result {
	switch {
	case id == "":
		return Result{Status: Created}
	case how.Update:
		return Result{Status: Updated, ID: id}
	}
	return Result{Status: Exists, ID: id}
}

// present returns the id of the person with the username ("": none), and whether there is a password.
func (s *Service) present(ctx context.Context, n person.NewPerson) (id string, hasPassword bool, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) (err error) {
		id, err = s.Persons.ByUsername(tx, n.Partition, n.Username)
		if errors.Is(err, person.ErrNoPerson) {
			return nil
		}
		if err == nil {
			hasPassword, err = person.Passwords.Has(tx, id)
		}
		return err
	})
	return id, hasPassword, err
}

// hash replaces a plain password by its hash. It waits while sign-ins keep the hasher busy.
func (s *Service) hash(ctx context.Context, n *person.NewPerson, hashing *sync.Mutex) error {
	if n.Password.IsZero() || n.PasswordHash != "" {
		return nil
	}
	hashing.Lock()
	defer hashing.Unlock()
	for {
		phc, err := s.Persons.HashNew(ctx, n.Password.Reveal(), n.Names()...)
		if !errors.Is(err, secret.ErrBusy) {
			n.Password, n.PasswordHash = secret.String{}, phc
			return err
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// again updates an existing person.
func (s *Service) again(ctx context.Context, id string, given, n person.NewPerson, how How, by audit.Actor) (Result, error) {
	_, said, _, err := n.Records()
	if err != nil {
		return verdict(err)
	}
	// Members that were derived from others are not part of the import.
	profile := given.Profile
	if profile == nil {
		profile = new(person.Profile)
	}
	if n.Name == "" && profile.Name.DisplayName == "" {
		said.Profile.Name.DisplayName = ""
	}
	if n.Email == "" && len(profile.EmailAddresses) == 0 {
		said.Profile.EmailAddresses = nil
	}
	changed := false
	e := person.Edit{By: by, Verified: true, PasswordHash: n.PasswordHash, Foreign: true}
	_, err = s.Persons.UpdatePerson(ctx, id, e, func(tx storage.Tx, d *person.Details) error {
		if how.Allow != nil {
			if err := how.Allow(tx, id, n.Groups); err != nil {
				return err
			}
		}
		was := *d
		was.Profile, was.Groups = d.Profile.Clone(), slices.Clone(d.Groups)
		merge(&d.Profile, &said.Profile)
		if said.Directory.ExternalID != "" {
			d.Directory.ExternalID = said.Directory.ExternalID
		}
		for _, g := range n.Groups {
			if !slices.Contains(d.Groups, g) {
				d.Groups = append(d.Groups, g)
			}
		}
		changed = e.PasswordHash != "" || !person.SameDetails(&was, d)
		d.LeftOut = n.LeftOut
		return nil
	})
	if err != nil {
		return verdict(err)
	}
	if !changed {
		return Result{Status: Exists, ID: id}, nil
	}
	return Result{Status: Updated, ID: id}, nil
}

// merge copies what other has into p. Everything else stays.
func merge(p, other *person.Profile) {
	set := func(to *string, v string) {
		if v != "" {
			*to = v
		}
	}
	set(&p.Gender, other.Gender)
	set(&p.DateOfBirth, other.DateOfBirth)
	set(&p.PreferredLocale, other.PreferredLocale)
	set(&p.ReferenceID, other.ReferenceID)
	set(&p.Name.FirstName, other.Name.FirstName)
	set(&p.Name.LastName, other.Name.LastName)
	set(&p.Name.Initials, other.Name.Initials)
	set(&p.Name.DisplayName, other.Name.DisplayName)
	if len(other.EmailAddresses) > 0 {
		p.EmailAddresses = other.EmailAddresses
	}
	if len(other.PhoneNumbers) > 0 {
		p.PhoneNumbers = other.PhoneNumbers
	}
	if len(other.Addresses) > 0 {
		p.Addresses = other.Addresses
	}
	for _, c := range other.CustomAttributes {
		i := slices.IndexFunc(p.CustomAttributes, func(o person.CustomAttribute) bool { return o.Name == c.Name })
		if i < 0 {
			p.CustomAttributes = append(p.CustomAttributes, c)
		} else {
			p.CustomAttributes[i] = c
		}
	}
}

// verdict separates errors of the person from failures of the service.
func verdict(err error) (Result, error) {
	invalid, refused := new(person.ValidationError), new(RefusedError)
	switch {
	case errors.As(err, &refused):
		return Result{Status: Failed, Error: refused.Problem}, nil
	case errors.As(err, &invalid):
		return Result{Status: Failed, Error: invalid.Field + " " + invalid.Problem}, nil
	case errors.Is(err, person.ErrNoPerson): // removed in this moment
		return Result{Status: Failed, Error: "the person was removed meanwhile"}, nil
	case errors.Is(err, storage.ErrTooLarge):
		return Result{Status: Failed, Error: "the person has more than can be stored"}, nil
	}
	return Result{}, err
}
