package signup

import (
	"cmp"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// newAccount is a person that a sign-up is about to create.
type newAccount struct {
	*Service

	id       string
	inactive bool
	rec      person.Record
	prof     person.ProfileRecord
	folded   string // username
	pending  *pendingSignUp
	by       audit.Actor
	happened []audit.Event // created, signed up
	spend    func(storage.Tx) (bool, error)
}

// prepareAccount makes the records and events of the person, before the transaction.
func (s *Service) prepareAccount(
	q *webflow.Request, p *pendingSignUp, inactive bool, spend func(storage.Tx) (bool, error),
) (*newAccount, error) {
	id, err := uuid.NewRandomFromReader(s.deps.Random)
	if err != nil {
		return nil, err
	}
	by := audit.Actor{ID: id.String(), Name: p.typed.Email, Origin: s.deps.Origin(q.Request)}
	c := &newAccount{Service: s, id: id.String(), inactive: inactive, pending: p, spend: spend, by: by}
	n, err := s.deps.Person.Place(p.typed.newPerson())
	if err != nil {
		return nil, err
	}
	if c.rec, c.prof, c.folded, err = n.Records(); err != nil {
		return nil, err
	}
	c.happened, err = s.deps.Person.NewEvents(by.Origin, person.EventCreated, personSignedUp)
	return c, err
}

// create stores the person in the transaction that uses up the code. Errors: person.ErrUsernameTaken,
// person.ErrMismatch, *person.ValidationError.
func (c *newAccount) create(tx storage.Tx, now time.Time) (person.Record, error) {
	if c.spend != nil {
		if ok, err := c.spend(tx); err != nil || !ok {
			return c.rec, cmp.Or(err, person.ErrMismatch)
		}
	}
	owner, err := c.findOwner(tx, c.pending.typed.Email)
	if err != nil {
		return c.rec, err
	}
	if owner != nil {
		return c.rec, person.ErrUsernameTaken
	}
	if c.pending.hash != "" {
		if err := signUps.Delete(tx, c.pending.hash); err != nil {
			return c.rec, err
		}
	}
	if err := c.deps.Person.CheckConfigured(tx, &c.prof, nil, now); err != nil {
		return c.rec, err
	}
	c.rec.CreatedAt, c.rec.UpdatedAt = now, now
	if c.inactive {
		if err := c.deps.Person.MakeAwait(tx, &c.rec, person.ReasonWeb); err != nil {
			return c.rec, err
		}
	}
	if err := person.CreatePerson(tx, c.id, c.rec, &c.prof, c.folded); err != nil {
		return c.rec, err
	}
	password := person.PasswordRecord{PHC: c.pending.typed.PHC, ChangedAt: now}
	if err := person.Passwords.Create(tx, c.id, password, time.Time{}); err != nil {
		return c.rec, err
	}
	for _, e := range c.happened {
		e.Provider = session.LocalProvider
		if err := c.deps.Events.Append(tx, c.by.Fill(e, c.id, "")); err != nil {
			return c.rec, err
		}
	}
	t := person.Recipient{ID: c.id, Record: &c.rec, Profile: &c.prof.Profile}
	return c.rec, c.deps.Person.Greet(tx, t, person.ReasonWeb, now)
}

// findOwner returns the person who has an address as username or as verified address, or nil.
func (s *Service) findOwner(tx storage.Tx, address string) (*person.Recipient, error) {
	folded, err := person.Fold(address)
	if err != nil {
		return nil, err
	}
	name, err := person.ReadName(tx, audit.DefaultPartition, folded)
	id := name.PersonID
	if errors.Is(err, storage.ErrNotFound) {
		ids, err := person.ByVerifiedEmail(tx, address)
		if err != nil || len(ids) == 0 {
			return nil, err
		}
		id = ids[0]
	} else if err != nil {
		return nil, err
	}
	rec, err := person.Records.Get(tx, id)
	if err != nil {
		return nil, err
	}
	t, err := s.deps.Proof.LinkReached(tx, id, &rec)
	return &t, err
}
