package federation

import (
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Moving says how people that a provider names for the first time get at an account that they have here already.
// (identity service document, FeaturesConfiguration; docs/decisions/configuration.md#accounts-that-newcomers-have)
type Moving struct {
	// Ask asks newcomers for the account that they have, before they get a new one.
	Ask bool
	// Trust links an account that no one has signed in to yet without asking, if the provider names it.
	Trust bool
	// Named asks only newcomers for whom the provider names an account.
	Named bool
}

// detailPerson is the detail by which a provider names an account here: its id, or its external id.
const detailPerson = "person_identifier"

// moves reports whether a newcomer can be asked for an account.
func (a *Answer) moves() bool {
	return a.Provider.Moving.Ask && !a.Known.NoPassword && !a.Rec.New && a.SignIn != "" && a.Flow.Invited == "" && a.Flow.Couple == ""
}

// existing returns the account that a newcomer has here, or nil. ErrAsk: they are asked for it.
func (s *Service) existing(tx storage.Tx, a *Answer, now time.Time) (*Match, error) {
	if !a.moves() {
		return nil, nil //nolint:nilnil // none
	}
	name := person.FirstValue(a.Identity.Details, detailPerson)
	if name == "" {
		if a.Provider.Moving.Named {
			return nil, nil //nolint:nilnil // none
		}
		return nil, ErrAsk
	}
	id, err := s.accountOf(tx, name)
	if err != nil || id == "" {
		return nil, err
	}
	rec, err := person.Records.Get(tx, id)
	if err != nil {
		return nil, err
	}
	activates, err := a.Provider.admits(&rec)
	if err != nil {
		return nil, err
	}
	fresh, err := untouched(tx, id, &rec)
	if err != nil {
		return nil, err
	}
	if !fresh || !a.Provider.Moving.Trust || s.deps.Person.HasRole(&rec) {
		return nil, ErrAsk
	}
	if err := s.deps.Person.CoupleIdentity(tx, a.Provider.ID, a.Identity, id, now); err != nil {
		return nil, err
	}
	if err := noteExternal(tx, a, id, &rec, name); err != nil {
		return nil, err
	}
	return &Match{ID: id, Person: rec, NewlyOne: true, activates: activates}, nil
}

// accountOf returns the person that a provider names, by the id or the external id, or "".
func (s *Service) accountOf(tx storage.Tx, name string) (string, error) {
	if person.IsID(name) {
		rec, found, err := person.Records.Find(tx, name)
		if err != nil || found && rec.State != person.Removed && rec.Partition == "" {
			return name, err
		}
	}
	ids, err := s.deps.Person.ByExternalID(tx, audit.DefaultPartition, name)
	if err != nil || len(ids) != 1 { // several: no one is named
		return "", err
	}
	return ids[0], nil
}

// noteExternal marks an identity that was linked by an external id which an untrusted actor has entered.
func noteExternal(tx storage.Tx, a *Answer, id string, rec *person.Record, name string) error {
	prof, err := person.ReadProfile(tx, id, rec)
	if err != nil {
		return err
	}
	return person.NoteVouched(tx, a.Provider.ID, a.Identity, name != id && prof.Directory.SetBy != "")
}

// untouched reports whether no one has a way into an account yet, and no one has signed in to it.
func untouched(tx storage.Tx, id string, rec *person.Record) (bool, error) {
	if rec.External != "" {
		return false, nil
	}
	if found, err := person.Passwords.Has(tx, id); err != nil || found {
		return false, err
	}
	if found, err := session.FirstSignIns.Has(tx, id); err != nil || found {
		return false, err
	}
	linked, err := person.CoupledIdentities(tx, id)
	return len(linked) == 0, err
}

// offersNew reports whether a newcomer who is asked for an account can say that they have none. Where the provider's
// verified address is someone's, they cannot.
func (s *Service) offersNew(q *webflow.Request, a *Answer) (offer bool, err error) {
	if !a.moves() {
		return false, nil
	}
	email, verified := person.VerifiedEmail(a.Identity)
	if !verified {
		return true, nil
	}
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		same, err := person.ByVerifiedEmail(tx, email)
		offer = len(same) == 0
		return err
	})
	return offer, err
}

// declineAccount notes that a newcomer has no account here.
func (s *Service) declineAccount(q *webflow.Request, a *Answer) error {
	key := a.key()
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		rec, _, err := ProviderFlows.Find(tx, key)
		if err != nil {
			return err
		}
		if rec.Identity == nil {
			return ErrUsed
		}
		rec.New = true
		return ProviderFlows.Put(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
}
