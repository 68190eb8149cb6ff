package person

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ImportedPerson is a person of another system, with the hash of the password as that system has it.
type ImportedPerson struct {
	NewPerson

	// ExternalID is the person's id in the other system.
	ExternalID string `json:"external_id,omitempty"`
}

// Imported is the result of one person of an import.
type Imported struct {
	Status string `json:"status"` // created, updated, exists, failed
	ID     string `json:"id,omitempty"`
	Error  string `json:"error,omitempty"` // of a failed one; it repeats no value
}

// The values of Imported.Status.
const (
	ImportCreated = "created"
	ImportUpdated = "updated"
	ImportExists  = "exists"
	ImportFailed  = "failed"
)

const importers = 32 // persons that are written at the same time, so that they share syncs

// Import creates persons, each with its event, and returns a result for each. With update, existing persons get the
// profile of the import and its groups in addition to their own; their passwords stay. An error is a failure of storage
// or the end of ctx. Some persons can be written by then, and the import can be repeated.
func (s *Service) Import(ctx context.Context, list []ImportedPerson, update bool, by event.Actor) ([]Imported, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := make([]Imported, len(list))
	var (
		workers sync.WaitGroup
		hashing sync.Mutex // one slow hash at a time, so that sign-ins get their turn
		next    = make(chan int)
	)
	for range min(importers, len(list)) {
		workers.Go(func() {
			for i := range next {
				one, err := s.importOne(ctx, &list[i], update, by, &hashing)
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

// importOne returns the result of one person, or an error if the result is unknown.
func (s *Service) importOne(ctx context.Context, p *ImportedPerson, update bool, by event.Actor, hashing *sync.Mutex) (Imported, error) {
	if err := ctx.Err(); err != nil {
		return Imported{}, err
	}
	n, err := s.Place(p.NewPerson)
	if err != nil {
		return verdict(err)
	}
	if p.ExternalID != "" {
		n.Directory = &Directory{ExternalID: p.ExternalID}
	}
	if _, _, err := n.Record(); err != nil {
		return verdict(err) // before a hash costs anything
	}
	id, hasPassword, err := s.present(ctx, n)
	if err != nil {
		return verdict(err)
	}
	if id != "" && (hasPassword || !update) {
		n.Password, n.PasswordHash = secret.String{}, "" // the password stays
	}
	if err := s.hashImported(ctx, &n, hashing); err != nil {
		return verdict(err)
	}
	if id == "" {
		d, err := s.createAs(ctx, n, by, onMigration)
		if !errors.Is(err, ErrUsernameTaken) {
			if err != nil {
				return verdict(err)
			}
			return Imported{Status: ImportCreated, ID: d.ID}, nil
		}
		if id, hasPassword, err = s.present(ctx, n); err != nil { // another call was faster
			return verdict(err)
		}
	}
	if !update {
		return Imported{Status: ImportExists, ID: id}, nil
	}
	if hasPassword {
		n.PasswordHash = ""
	}
	return s.importAgain(ctx, id, n, by)
}

// present returns the id of the person with the username ("": none), and whether there is a password.
func (s *Service) present(ctx context.Context, n NewPerson) (id string, hasPassword bool, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) (err error) {
		id, err = s.ByUsername(tx, n.Partition, n.Username)
		if errors.Is(err, ErrNoPerson) {
			return nil
		}
		if err == nil {
			hasPassword, err = Passwords.Has(tx, id)
		}
		return err
	})
	return id, hasPassword, err
}

// hashImported replaces a plain password by its hash. It waits while sign-ins keep the hasher busy.
func (s *Service) hashImported(ctx context.Context, n *NewPerson, hashing *sync.Mutex) error {
	if n.Password.IsZero() || n.PasswordHash != "" {
		return nil
	}
	hashing.Lock()
	defer hashing.Unlock()
	for {
		phc, err := s.HashNew(ctx, n.Password.Reveal())
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

// importAgain updates an existing person.
func (s *Service) importAgain(ctx context.Context, id string, n NewPerson, by event.Actor) (Imported, error) {
	_, said, _, err := n.Records()
	if err != nil {
		return verdict(err)
	}
	// Members that were derived from others are not part of the import.
	given := n.Profile
	if given == nil {
		given = new(Profile)
	}
	if n.Name == "" && given.Name.DisplayName == "" {
		said.Profile.Name.DisplayName = ""
	}
	if n.Email == "" && len(given.EmailAddresses) == 0 {
		said.Profile.EmailAddresses = nil
	}
	changed := false
	e := Edit{By: by, Verified: true, PasswordHash: n.PasswordHash}
	_, err = s.UpdatePerson(ctx, id, e, func(_ storage.Tx, d *Details) error {
		was := *d
		was.Profile, was.Groups = d.Profile.Clone(), slices.Clone(d.Groups)
		d.Profile.merge(&said.Profile)
		if said.Directory.ExternalID != "" {
			d.Directory.ExternalID = said.Directory.ExternalID
		}
		for _, g := range n.Groups {
			if !slices.Contains(d.Groups, g) {
				d.Groups = append(d.Groups, g)
			}
		}
		changed = e.PasswordHash != "" || !sameDetails(&was, d)
		return nil
	})
	if err != nil {
		return verdict(err)
	}
	if !changed {
		return Imported{Status: ImportExists, ID: id}, nil
	}
	return Imported{Status: ImportUpdated, ID: id}, nil
}

// merge copies what other has. Everything else stays.
func (p *Profile) merge(other *Profile) {
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
		i := slices.IndexFunc(p.CustomAttributes, func(o CustomAttribute) bool { return o.Name == c.Name })
		if i < 0 {
			p.CustomAttributes = append(p.CustomAttributes, c)
		} else {
			p.CustomAttributes[i] = c
		}
	}
}

// verdict separates errors of the person from failures of the service.
func verdict(err error) (Imported, error) {
	invalid := new(ValidationError)
	switch {
	case errors.As(err, &invalid):
		return Imported{Status: ImportFailed, Error: invalid.Field + " " + invalid.Problem}, nil
	case errors.Is(err, ErrNoPerson): // removed in this moment
		return Imported{Status: ImportFailed, Error: "the person was removed meanwhile"}, nil
	case errors.Is(err, storage.ErrTooLarge):
		return Imported{Status: ImportFailed, Error: "the person has more than can be stored"}, nil
	}
	return Imported{}, err
}
