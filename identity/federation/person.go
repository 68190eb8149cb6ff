package federation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	xlanguage "golang.org/x/text/language"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Why an identity does not sign its person in by itself.
var (
	// ErrAsk says that somebody may have an account already: only their password tells.
	ErrAsk = errors.New("identity: the person has to be asked")
	// errSeveral and errUnbelieved are reasons to ask that whoever configures this could take away.
	errSeveral    = fmt.Errorf("%w: several persons have the address", ErrAsk)
	errUnbelieved = fmt.Errorf("%w: another provider of theirs is not believed", ErrAsk)
	// errRegister says that the person is new and is asked for more before there is one.
	errRegister = errors.New("identity: the person has to register")
	// ErrUsed says that the answer of the provider has been used meanwhile.
	ErrUsed = errors.New("identity: the answer was used before")
)

// Couple lets an identity of a provider sign a person in, within tx. An empty issuer is any of the provider. Errors: person.ErrCoupled,
// person.ErrCoupledOther, ErrNoProvider. That the provider is there and switched on is what Providers says.
func (s *Service) Couple(tx storage.Tx, personID, providerID, issuer, subject string, now time.Time) error {
	if p := s.fixed.byID[providerID]; (p != nil && p.redirector == nil) || providerID == session.LocalProvider || subject == "" {
		return ErrNoProvider // who reads requests knows people by their usernames
	}
	id := &idp.Identity{Issuer: issuer, Subject: subject}
	known, err := person.Identities.Has(tx, person.CoupledKey(providerID, id))
	if err != nil {
		return err
	}
	if err := s.person.CoupleIdentity(tx, providerID, id, personID, now); err != nil || known {
		return err
	}
	rec, err := person.Records.Get(tx, personID)
	if err != nil {
		return err
	}
	return s.person.TellCoupled(tx, personID, &rec, providerID, now)
}

// Newcomer is the person that an identity would become.
type Newcomer struct {
	id     string
	Person person.NewPerson
	Rec    person.Record
	Prof   person.ProfileRecord
	Folded string
	// asked: the person is asked for more first. named: they choose a username and a password.
	Asked, Named bool
}

// PrepareNewcomer prepares a person for an identity. What the provider says that no profile can hold is left out.
func (s *Service) PrepareNewcomer(a *Answer) (*Newcomer, error) {
	id, err := uuid.NewRandomFromReader(s.random)
	if err != nil {
		return nil, err
	}
	out := &Newcomer{id: id.String(), Person: PersonFrom(a.Identity)}
	if out.Rec, out.Prof, out.Folded, err = out.Person.Records(); err != nil {
		// A name that nobody could type is as good as another.
		sum := sha256.Sum256([]byte(a.Key()))
		out.Person.Username = a.Provider.ID + "-" + hex.EncodeToString(sum[:8])
		if out.Rec, out.Prof, out.Folded, err = out.Person.Records(); err != nil {
			out.Person = person.NewPerson{Username: out.Person.Username, EmailVerified: new(bool)}
			if out.Rec, out.Prof, out.Folded, err = out.Person.Records(); err != nil {
				return nil, err
			}
		}
	}
	now := s.now()
	out.Rec.CreatedAt, out.Rec.UpdatedAt = now, now
	return out, nil
}

// PersonFrom reads a person out of an identity and its details.
func PersonFrom(id *idp.Identity) person.NewPerson {
	email, verified := person.VerifiedEmail(id)
	n := person.NewPerson{
		Username: id.Username, Email: email, EmailVerified: &verified,
		Name: person.FirstValue(id.Details, "name", "displayName", "display_name"), GivenName: person.FirstValue(id.Details, "given_name", "firstName", "first_name"),
		FamilyName: person.FirstValue(id.Details, "family_name", "lastName", "last_name"), Locale: person.FirstValue(id.Details, "locale", "preferred_locale"),
	}
	if _, err := xlanguage.Parse(n.Locale); err != nil {
		n.Locale = ""
	}
	for _, name := range []*string{&n.Name, &n.GivenName, &n.FamilyName} {
		if !person.IsText(*name, person.MaxName) {
			*name = ""
		}
	}
	switch {
	case n.Username != "":
	case verified:
		n.Username = email
	default:
		n.Username = id.Subject
	}
	return n
}

// believe takes the address of an identity as verified: the operator vouches for what the provider says.
func believe(id *idp.Identity) {
	if email, _ := person.VerifiedEmail(id); email != "" {
		id.Email, id.EmailVerified = email, true
	}
}

// Match is whose an identity is.
type Match struct {
	ID       string
	Person   person.Record
	Created  bool
	NewlyOne bool // coupled with somebody who was there
	awakened bool // has waited for the account to be activated, which this sign-in does
}

// admits tells whether a person may sign in at the provider, and whether that activates the account. ErrBlocked: they may not.
func (p *Provider) admits(rec *person.Record) (awakened bool, err error) {
	if awakened = p.Activates && rec.AwaitsNow(); rec.State != person.Active && !awakened {
		err = ErrBlocked
	}
	return awakened, err
}

// PersonOf returns the person of an identity: who is known by it, else who has its verified address where the operator couples by that,
// else a new one. ErrAsk when somebody who is there may be meant.
func (s *Service) PersonOf(tx storage.Tx, a *Answer, n *Newcomer, now time.Time) (*Match, error) {
	for _, key := range []string{a.Key(), person.AnyIssuerKey(a.Provider.ID, a.Identity.Subject)} {
		known, err := person.Identities.Get(tx, key)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rec, err := person.Records.Get(tx, known.PersonID)
		if err != nil {
			return nil, err
		}
		awakened, err := a.Provider.admits(&rec)
		return &Match{ID: known.PersonID, Person: rec, awakened: awakened}, err
	}
	if email, verified := person.VerifiedEmail(a.Identity); verified {
		same, err := person.ByVerifiedEmail(tx, email)
		if err != nil {
			return nil, err
		}
		if len(same) > 0 {
			if !a.Provider.CoupleEmail {
				return nil, ErrAsk
			}
			if len(same) > 1 {
				return nil, errSeveral
			}
			return s.coupleByEmail(tx, a, same[0], now)
		}
	}
	if n.Asked && n.Named {
		return nil, errRegister
	}
	err := person.CreatePerson(tx, n.id, n.Rec, &n.Prof, n.Folded)
	switch {
	case errors.Is(err, person.ErrUsernameTaken) && !n.Named:
		return nil, ErrAsk
	case err == nil && n.Asked:
		err = errRegister
	case err == nil:
		err = s.person.CoupleIdentity(tx, a.Provider.ID, a.Identity, n.id, now)
	}
	return &Match{ID: n.id, Person: n.Rec, Created: true}, err
}

func (s *Service) coupleByEmail(tx storage.Tx, a *Answer, personID string, now time.Time) (*Match, error) {
	rec, err := person.Records.Get(tx, personID)
	if err != nil {
		return nil, err
	}
	awakened, err := a.Provider.admits(&rec)
	if err != nil {
		return nil, err
	}
	if believed, err := a.Known.believes(tx, personID); err != nil || !believed {
		if err == nil {
			err = errUnbelieved
		}
		return nil, err
	}
	if err := s.person.CoupleIdentity(tx, a.Provider.ID, a.Identity, personID, now); err != nil {
		if errors.Is(err, person.ErrCoupledOther) {
			err = ErrAsk
		}
		return nil, err
	}
	return &Match{ID: personID, Person: rec, NewlyOne: true, awakened: awakened}, nil
}

// believes tells whether every provider that signs the person in may couple by address. Another one may have put somebody's address there
// before they came themselves, and would share the account that they are coupled with.
func (g *Registry) believes(tx storage.Tx, personID string) (bool, error) {
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

// synchronise writes what the provider says into the profile of a person who is known.
func (s *Service) synchronise(tx storage.Tx, f *Match, p *Member, id *idp.Identity, now time.Time) error {
	prof, err := person.ReadProfile(tx, f.ID, &f.Person)
	if err != nil {
		return err
	}
	before, rec, known := person.PlacesOf(&f.Person, &prof), f.Person, prof.Profile
	n := PersonFrom(id)
	if n.Email == "" || !*n.EmailVerified {
		n.Email, n.EmailVerified = "", nil // an address that nobody vouches for takes no other's place
	}
	p.leave(&n, &f.Person)
	prof.Profile.EmailAddresses = slices.Clone(prof.Profile.EmailAddresses)
	n.Complete(&prof.Profile, "")
	if err := prof.Check(); err != nil {
		return nil //nolint:nilerr // what cannot be stored is not worth a sign-in
	}
	rec.Take(&prof)
	if rec.Name == f.Person.Name && rec.GivenName == f.Person.GivenName && rec.FamilyName == f.Person.FamilyName && rec.Email == f.Person.Email &&
		rec.EmailVerified == f.Person.EmailVerified && rec.Locale == f.Person.Locale {
		return nil
	}
	if err := s.person.TellChanges(tx, f.ID, &f.Person, &known, &prof.Profile, false, now); err != nil {
		return err
	}
	rec.UpdatedAt = now
	if err := person.Reindex(tx, f.ID, before, person.PlacesOf(&rec, &prof), now); err != nil {
		return err
	}
	f.Person = rec
	if err := person.Records.Put(tx, f.ID, rec, time.Time{}); err != nil {
		return err
	}
	return person.Profiles.Put(tx, f.ID, prof, time.Time{})
}

// leave takes out of what the provider says what the person may change and has already.
func (p *Provider) leave(n *person.NewPerson, has *person.Record) {
	for _, part := range []struct {
		name, has string
		says      *string
	}{
		{"name", has.Name, &n.Name},
		{"given_name", has.GivenName, &n.GivenName},
		{"family_name", has.FamilyName, &n.FamilyName},
		{"locale", has.Locale, &n.Locale},
	} {
		if part.has != "" && !p.Writes(part.name) {
			*part.says = ""
		}
	}
	if has.Email != "" && !p.Writes("email") {
		n.Email, n.EmailVerified = "", nil
	}
}

// arrival is what an answer of a provider can be for, other than a sign-in.
type arrival struct {
	is   func(a *Answer) bool // tells whether the answer is for it
	take func(w http.ResponseWriter, r *http.Request, a *Answer)
}

// OnArrival adds what an answer can be for. New calls it before the service is used.
func (s *Service) OnArrival(is func(*Answer) bool, take func(http.ResponseWriter, *http.Request, *Answer)) {
	s.arrivals = append(s.arrivals, arrival{is, take})
}

// Registration is how somebody whom a provider names for the first time becomes a person.
type Registration struct {
	// ask says, of somebody who may be new, what they are asked first.
	Ask func(ctx context.Context, a *Answer, n *Newcomer) error
	URL func(answer string) string // of the page that asks, for an answer by name
}

// RegisterBy sets how newcomers register. New calls it before the service is used.
func (s *Service) RegisterBy(r Registration) { s.registration = r }

// showProviderDone serves GET /sign-in/provider/done?flow=…: the browser comes back with a verified identity and its cookies.
func (s *Service) showProviderDone(w http.ResponseWriter, r *http.Request) {
	a, ok := s.ReadAnswered(w, r)
	if !ok {
		return
	}
	for _, other := range s.arrivals {
		if other.is(a) {
			other.take(w, r, a)
			return
		}
	}
	err := s.signIn(w, r, a)
	if errors.Is(err, ErrAsk) {
		s.warnUncoupled(r, a, err)
	}
	switch {
	case err == nil:
		s.front.Enter(w, r, a.SignIn, a.Flow)
	case (errors.Is(err, ErrAsk) || errors.Is(err, errRegister)) && a.SignIn == "":
		s.askAgain(w, r, a.Provider)
	case (errors.Is(err, ErrAsk) || errors.Is(err, errRegister)) && a.Flow.Demand.Passive: // OpenID Connect Core 3.1.2.1: no page
		s.refuseFlow(w, r, a.Flow, &login.Refusal{Code: "interaction_required", Reason: "the person has not signed in here by the provider yet"})
	case errors.Is(err, errRegister):
		s.front.Redirect(w, r, s.registration.URL(a.Name))
	case errors.Is(err, ErrAsk):
		s.front.Redirect(w, r, ConnectURL(a.Name))
	case errors.Is(err, ErrBlocked):
		s.RecordFailure(r, a.Flow.Demand.Client.ID, "", a.Provider.Name+": the person is not active")
		if a.Flow.Demand.Passive {
			s.refuseFlow(w, r, a.Flow, &login.Refusal{Code: "login_required", Reason: "nobody is signed in"})
			return
		}
		s.pages.Error(w, r, http.StatusForbidden, "error.denied", "")
	case errors.Is(err, ErrUsed):
		s.pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
	default:
		s.front.Fail(w, r, err, "")
	}
}
