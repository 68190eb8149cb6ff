package federation

import (
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Match is the person that an identity belongs to.
type Match struct {
	ID        string
	Person    person.Record
	Created   bool // by this sign-in
	NewlyOne  bool // an existing person, coupled with the identity by this sign-in
	Renamed   bool // the provider named the person otherwise until this sign-in
	activates bool // this sign-in activates the account
	// linked says that the person has just linked the identity here. Then the session has only what they have shown
	// here: a password, and what has raised shown, their session until now (nil: none).
	linked bool
	shown  *session.Record
}

// lower takes from a session what the person has not shown here. If that is too little for what asked, the next step is
// a sign-in at the provider.
func (m *Match) lower(rec *session.Record, level int) {
	if !m.linked {
		return
	}
	if rec.Level = min(rec.Level, session.PasswordLevel); m.shown != nil {
		rec.Base, rec.Raised = &session.BaseRecord{Level: rec.Level, AMR: rec.AMR}, m.shown.Raised
		rec.SettleLevel()
	}
	if rec.Level < level {
		rec.SignedInFor = ""
	}
}

// admits reports whether a person may sign in at the provider, and whether that activates the account. ErrBlocked: the
// person must not sign in.
func (p *Provider) admits(rec *person.Record) (activates bool, err error) {
	if activates = p.Activates && rec.AwaitsNow(); rec.State != person.Active && !activates {
		err = ErrBlocked
	}
	return activates, err
}

// PersonOf returns the person of an identity: the one coupled with it, else the one that the provider has named
// otherwise before, else the one with its verified address where the operator couples by that, else a new one. ErrAsk:
// the identity can belong to an existing person.
func (s *Service) PersonOf(tx storage.Tx, a *Answer, n *Newcomer, now time.Time) (*Match, error) {
	for _, key := range []string{a.Key(), person.AnyIssuerKey(a.Provider.ID, a.Identity.Subject)} {
		known, ok, err := person.Identities.Find(tx, key)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		rec, err := person.Records.Get(tx, known.PersonID)
		if err != nil {
			return nil, err
		}
		activates, err := a.Provider.admits(&rec)
		if err == nil {
			err = person.NoteIdentity(tx, a.Provider.ID, key, known, a.Identity)
		}
		return &Match{ID: known.PersonID, Person: rec, activates: activates}, err
	}
	if old, found, err := person.ByStable(tx, a.Provider.ID, a.Identity); err != nil || found {
		if err != nil {
			return nil, err
		}
		return s.rename(tx, a, old, now)
	}
	if email, verified := person.VerifiedEmail(a.Identity); verified {
		same, err := person.ByVerifiedEmail(tx, email)
		switch {
		case err != nil:
			return nil, err
		case len(same) > 0 && (!a.Provider.CoupleEmail || a.Identity.EmailPrivate):
			return nil, ErrAsk
		case len(same) > 1:
			return nil, errSeveral
		case len(same) == 1:
			return s.coupleByEmail(tx, a, same[0], now)
		}
	}
	if m, err := s.existing(tx, a, now); err != nil || m != nil {
		return m, err
	}
	return s.createPerson(tx, a, n, now)
}

// createPerson makes a person for an identity. errRegister: there is a form to fill in first.
func (s *Service) createPerson(tx storage.Tx, a *Answer, n *Newcomer, now time.Time) (*Match, error) {
	if n.Asked && n.Named {
		return nil, errRegister
	}
	rec, folded := n.Rec, n.Folded
	n.Prof.MarkNew(audit.Actor{Vouched: a.Provider.Untrusted()})
	err := person.CreatePerson(tx, n.id, rec, &n.Prof, folded)
	if _, verified := person.VerifiedEmail(a.Identity); errors.Is(err, person.ErrUsernameTaken) && !n.Named && !verified {
		// Linking with the other account is not offered: the provider vouches for nothing that speaks for it.
		rec.Username = a.madeUpName()
		if folded, err = person.Fold(rec.Username); err == nil {
			err = person.CreatePerson(tx, n.id, rec, &n.Prof, folded)
		}
	}
	switch {
	case errors.Is(err, person.ErrUsernameTaken) && !n.Named:
		return nil, ErrAsk
	case err == nil && n.Asked:
		err = errRegister
	case err == nil:
		err = s.deps.Person.CoupleIdentity(tx, a.Provider.ID, a.Identity, n.id, now)
	}
	return &Match{ID: n.id, Person: rec, Created: true}, err
}

func (s *Service) coupleByEmail(tx storage.Tx, a *Answer, personID string, now time.Time) (*Match, error) {
	rec, err := person.Records.Get(tx, personID)
	if err != nil {
		return nil, err
	}
	activates, err := a.Provider.admits(&rec)
	if err != nil {
		return nil, err
	}
	if s.deps.Person.HasRole(&rec) {
		return nil, ErrAsk
	}
	trusted, err := a.Known.trustsEmail(tx, personID)
	if err != nil {
		return nil, err
	}
	if !trusted {
		return nil, errUntrusted
	}
	err = s.deps.Person.CoupleIdentity(tx, a.Provider.ID, a.Identity, personID, now)
	if errors.Is(err, person.ErrCoupledOther) {
		old, renamed, err := person.RenamedIdentity(tx, a.Provider.ID, personID, a.Identity)
		switch {
		case err != nil:
			return nil, err
		case !renamed:
			return nil, errLinked
		}
		return s.rename(tx, a, old, now)
	}
	if err == nil {
		err = s.noteAddress(tx, a, personID, &rec)
	}
	if err != nil {
		return nil, err
	}
	return &Match{ID: personID, Person: rec, NewlyOne: true, activates: activates}, nil
}

// noteAddress marks an identity that was linked by an address which an untrusted actor has entered.
func (s *Service) noteAddress(tx storage.Tx, a *Answer, personID string, rec *person.Record) error {
	prof, err := person.ReadProfile(tx, personID, rec)
	if err != nil {
		return err
	}
	email, _ := person.VerifiedEmail(a.Identity)
	by := person.Contact{Kind: person.ContactEmail, Value: email}.SetBy(&prof.Profile)
	return person.NoteVouched(tx, a.Provider.ID, a.Identity, by != "")
}

// rename links the person of an identity to the name that the provider gives them now. They are told, as of any link.
func (s *Service) rename(tx storage.Tx, a *Answer, old person.Identity, now time.Time) (*Match, error) {
	rec, err := person.Records.Get(tx, old.Record.PersonID)
	if err != nil {
		return nil, err
	}
	activates, err := a.Provider.admits(&rec)
	if err != nil {
		return nil, err
	}
	err = s.deps.Person.RenameIdentity(tx, old, a.Identity, now)
	if errors.Is(err, person.ErrCoupled) || errors.Is(err, person.ErrCoupledOther) {
		err = errLinked
	}
	if err != nil {
		return nil, err
	}
	return &Match{ID: old.Record.PersonID, Person: rec, NewlyOne: true, Renamed: true, activates: activates}, nil
}

// trustsEmail reports whether every provider that signs the person in may couple by address. Another one can have
// registered the address of a victim before the victim came, and would share the account that the victim is coupled
// with.
func (g *Registry) trustsEmail(tx storage.Tx, personID string) (bool, error) {
	for e, err := range person.IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return false, err
		}
		if p := g.byID[storage.Parts(e.Key)[1]]; p == nil || !p.CoupleEmail {
			return false, nil
		}
	}
	return true, nil
}

// Couple lets an identity of a provider sign a person in, within tx. An empty issuer means any issuer of the provider.
// It does not check that the provider exists and is switched on, which Providers tells. Errors: person.ErrCoupled,
// person.ErrCoupledOther, ErrNoProvider.
func (s *Service) Couple(tx storage.Tx, personID, providerID, issuer, subject string, now time.Time) error {
	if p := s.fixed.byID[providerID]; (p != nil && !p.links()) || providerID == session.LocalProvider || subject == "" {
		return ErrNoProvider // a provider that reads requests knows people by their usernames
	}
	id := &idp.Identity{Issuer: issuer, Subject: subject}
	known, err := person.Identities.Has(tx, person.CoupledKey(providerID, id))
	if err != nil {
		return err
	}
	if err := s.deps.Person.CoupleIdentity(tx, providerID, id, personID, now); err != nil || known {
		return err
	}
	rec, err := person.Records.Get(tx, personID)
	if err != nil {
		return err
	}
	return s.deps.Person.TellCoupled(tx, personID, &rec, providerID, id, now)
}
