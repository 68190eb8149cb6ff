package identity

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

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// maxSameEmail bounds how many persons with one address are looked at. With more than one nobody is coupled anyway.
const maxSameEmail = 8

// Why an identity does not sign its person in by itself.
var (
	// errAsk says that somebody may have an account already: only their password tells.
	errAsk = errors.New("identity: the person has to be asked")
	// errSeveral and errUnbelieved are reasons to ask that whoever configures this could take away.
	errSeveral    = fmt.Errorf("%w: several persons have the address", errAsk)
	errUnbelieved = fmt.Errorf("%w: another provider of theirs is not believed", errAsk)
	// errRegister says that the person is new and is asked for more before there is one.
	errRegister = errors.New("identity: the person has to register")
	// errUsed says that the answer of the provider has been used meanwhile.
	errUsed = errors.New("identity: the answer was used before")
)

// Couple lets an identity of a provider sign a person in, within tx. An empty issuer is any of the provider. Errors: ErrCoupled,
// ErrCoupledOther, ErrNoProvider. That the provider is there and switched on is what Providers says.
func (s *Service) Couple(tx storage.Tx, personID, providerID, issuer, subject string, now time.Time) error {
	if p := s.fixed.byID[providerID]; (p != nil && p.redirector == nil) || providerID == provider || subject == "" {
		return ErrNoProvider // who reads requests knows people by their usernames
	}
	id := &idp.Identity{Issuer: issuer, Subject: subject}
	known, err := identities.Has(tx, coupledKey(providerID, id))
	if err != nil {
		return err
	}
	if err := s.couple(tx, providerID, id, personID, now); err != nil || known {
		return err
	}
	rec, err := persons.Get(tx, personID)
	if err != nil {
		return err
	}
	return s.tellCoupled(tx, personID, &rec, providerID, now)
}

func (s *Service) couple(tx storage.Tx, providerID string, id *idp.Identity, personID string, now time.Time) error {
	key := coupledKey(providerID, id)
	known, err := identities.Get(tx, key)
	switch {
	case err == nil && known.PersonID == personID:
		return nil
	case err == nil:
		return ErrCoupled
	case !errors.Is(err, storage.ErrNotFound):
		return err
	}
	if theirs, err := identities.Get(tx, anyIssuerKey(providerID, id.Subject)); err == nil && theirs.PersonID != personID {
		return ErrCoupled // whatever the issuer
	} else if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if occupied, err := s.isOccupied(tx, providerID, personID, id); err != nil || occupied {
		if occupied {
			err = ErrCoupledOther
		}
		return err
	}
	rec := identityRecord{PersonID: personID, Issuer: id.Issuer, Subject: id.Subject, Since: now}
	if err := identities.Put(tx, key, rec, time.Time{}); err != nil {
		return err
	}
	return identitiesOf.Put(tx, storage.Key(personID, providerID, key), struct{}{}, time.Time{})
}

// coupledKey is the key of an identity that may be known by its subject alone.
func coupledKey(providerID string, id *idp.Identity) string {
	if id.Issuer == "" {
		return anyIssuerKey(providerID, id.Subject)
	}
	return identityKey(providerID, id)
}

// anyIssuerKey is the key of an identity whose issuer was not said when it was coupled.
func anyIssuerKey(providerID, subject string) string {
	return storage.Key(providerID, secret.Hash("\x00"+subject))
}

// isOccupied tells whether a person has another identity at the provider already: an address that goes to a new owner there must not open
// the old owner's account.
func (s *Service) isOccupied(tx storage.Tx, providerID, personID string, id *idp.Identity) (bool, error) {
	for e, err := range identitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID, providerID)}) {
		if err != nil {
			return false, err
		}
		rec, err := identities.Get(tx, storage.Parts(e.Key)[2])
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		if rec.Subject != id.Subject || (rec.Issuer != id.Issuer && rec.Issuer != "" && id.Issuer != "") {
			return true, nil
		}
	}
	return false, nil
}

// forgetIdentities removes what leads from providers to a person.
func forgetIdentities(tx storage.Tx, personID string) error {
	for e, err := range identitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return err
		}
		if err := identities.Delete(tx, storage.Parts(e.Key)[2]); err != nil {
			return err
		}
		if err := identitiesOf.Delete(tx, e.Key); err != nil {
			return err
		}
	}
	return nil
}

// newcomer is the person that an identity would become.
type newcomer struct {
	id     string
	person NewPerson
	rec    personRecord
	prof   profileRecord
	folded string
	// asked: the person is asked for more first. named: they choose a username and a password.
	asked, named bool
}

// prepareNewcomer prepares a person for an identity. What the provider says that no profile can hold is left out.
func (s *Service) prepareNewcomer(a *answered) (*newcomer, error) {
	id, err := uuid.NewRandomFromReader(s.Random)
	if err != nil {
		return nil, err
	}
	out := &newcomer{id: id.String(), person: personFrom(a.identity)}
	if out.rec, out.prof, out.folded, err = out.person.records(); err != nil {
		// A name that nobody could type is as good as another.
		sum := sha256.Sum256([]byte(a.key()))
		out.person.Username = a.provider.ID + "-" + hex.EncodeToString(sum[:8])
		if out.rec, out.prof, out.folded, err = out.person.records(); err != nil {
			out.person = NewPerson{Username: out.person.Username, EmailVerified: new(bool)}
			if out.rec, out.prof, out.folded, err = out.person.records(); err != nil {
				return nil, err
			}
		}
	}
	now := s.Now()
	out.rec.CreatedAt, out.rec.UpdatedAt = now, now
	return out, nil
}

// personFrom reads a person out of an identity and its details.
func personFrom(id *idp.Identity) NewPerson {
	email, verified := verifiedEmail(id)
	n := NewPerson{
		Username: id.Username, Email: email, EmailVerified: &verified,
		Name: first(id.Details, "name", "displayName", "display_name"), GivenName: first(id.Details, "given_name", "firstName", "first_name"),
		FamilyName: first(id.Details, "family_name", "lastName", "last_name"), Locale: first(id.Details, "locale", "preferred_locale"),
	}
	if _, err := xlanguage.Parse(n.Locale); err != nil {
		n.Locale = ""
	}
	for _, name := range []*string{&n.Name, &n.GivenName, &n.FamilyName} {
		if !isText(*name, maxName) {
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

// verifiedEmail returns the address of an identity and whether the provider says, or the operator for it, that it is the person's own.
func verifiedEmail(id *idp.Identity) (email string, verified bool) {
	email, verified = id.Email, id.EmailVerified
	if email == "" {
		email, verified = first(id.Details, "email", "mail"), hasTrue(id.Details, "email_verified")
	} else if !verified && email == first(id.Details, "email") {
		verified = hasTrue(id.Details, "email_verified")
	}
	if !isEmail(email) {
		return "", false
	}
	return email, verified
}

// believe takes the address of an identity as verified: the operator vouches for what the provider says.
func believe(id *idp.Identity) {
	if email, _ := verifiedEmail(id); email != "" {
		id.Email, id.EmailVerified = email, true
	}
}

// found is whose an identity is.
type found struct {
	id       string
	person   personRecord
	created  bool
	newlyOne bool // coupled with somebody who was there
	awakened bool // has waited for the account to be activated, which this sign-in does
}

// admits tells whether a person may sign in at the provider, and whether that activates the account. errBlocked: they may not.
func (p *Provider) admits(rec *personRecord) (awakened bool, err error) {
	if awakened = p.Activates && rec.awaits(); rec.State != Active && !awakened {
		err = errBlocked
	}
	return awakened, err
}

// personOf returns the person of an identity: who is known by it, else who has its verified address where the operator couples by that,
// else a new one. errAsk when somebody who is there may be meant.
func (s *Service) personOf(tx storage.Tx, a *answered, n *newcomer, now time.Time) (*found, error) {
	for _, key := range []string{a.key(), anyIssuerKey(a.provider.ID, a.identity.Subject)} {
		known, err := identities.Get(tx, key)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rec, err := persons.Get(tx, known.PersonID)
		if err != nil {
			return nil, err
		}
		awakened, err := a.provider.admits(&rec)
		return &found{id: known.PersonID, person: rec, awakened: awakened}, err
	}
	if email, verified := verifiedEmail(a.identity); verified {
		same, err := personsWithEmail(tx, email)
		if err != nil {
			return nil, err
		}
		if len(same) > 0 {
			if !a.provider.CoupleEmail {
				return nil, errAsk
			}
			if len(same) > 1 {
				return nil, errSeveral
			}
			return s.coupleByEmail(tx, a, same[0], now)
		}
	}
	if n.asked && n.named {
		return nil, errRegister
	}
	err := createPerson(tx, n.id, n.rec, &n.prof, n.folded)
	switch {
	case errors.Is(err, ErrUsernameTaken) && !n.named:
		return nil, errAsk
	case err == nil && n.asked:
		err = errRegister
	case err == nil:
		err = s.couple(tx, a.provider.ID, a.identity, n.id, now)
	}
	return &found{id: n.id, person: n.rec, created: true}, err
}

func (s *Service) coupleByEmail(tx storage.Tx, a *answered, personID string, now time.Time) (*found, error) {
	rec, err := persons.Get(tx, personID)
	if err != nil {
		return nil, err
	}
	awakened, err := a.provider.admits(&rec)
	if err != nil {
		return nil, err
	}
	if believed, err := a.known.believes(tx, personID); err != nil || !believed {
		if err == nil {
			err = errUnbelieved
		}
		return nil, err
	}
	if err := s.couple(tx, a.provider.ID, a.identity, personID, now); err != nil {
		if errors.Is(err, ErrCoupledOther) {
			err = errAsk
		}
		return nil, err
	}
	return &found{id: personID, person: rec, newlyOne: true, awakened: awakened}, nil
}

// believes tells whether every provider that signs the person in may couple by address. Another one may have put somebody's address there
// before they came themselves, and would share the account that they are coupled with.
func (g *registry) believes(tx storage.Tx, personID string) (bool, error) {
	for e, err := range identitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return false, err
		}
		if p := g.byID[storage.Parts(e.Key)[1]]; p == nil || !p.CoupleEmail {
			return false, nil
		}
	}
	return true, nil
}

// personsWithEmail returns the persons of the default partition whose verified address this is.
func personsWithEmail(tx storage.Tx, email string) (ids []string, err error) {
	folded := foldEmail(email)
	candidates := []string{}
	for e, err := range personsByEmail.Scan(tx, storage.Range{Prefix: storage.Prefix(event.DefaultPartition, folded), Limit: maxSameEmail}) {
		if err != nil {
			return nil, err
		}
		parts := storage.Parts(e.Key)
		candidates = append(candidates, parts[len(parts)-1])
	}
	if name, err := fold(email); err == nil { // persons from before there was an index are found by their username
		rec, err := readName(tx, event.DefaultPartition, name)
		if err == nil && !slices.Contains(candidates, rec.PersonID) {
			candidates = append(candidates, rec.PersonID)
		} else if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
	}
	for _, id := range candidates {
		rec, err := persons.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		prof, err := readProfile(tx, id, &rec)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(prof.Profile.EmailAddresses, func(e EmailAddress) bool { return e.Verified && foldEmail(e.Value) == folded }) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// synchronise writes what the provider says into the profile of a person who is known.
func (s *Service) synchronise(tx storage.Tx, f *found, p *registered, id *idp.Identity, now time.Time) error {
	prof, err := readProfile(tx, f.id, &f.person)
	if err != nil {
		return err
	}
	before, rec, known := placesOf(&f.person, &prof), f.person, prof.Profile
	n := personFrom(id)
	if n.Email == "" || !*n.EmailVerified {
		n.Email, n.EmailVerified = "", nil // an address that nobody vouches for takes no other's place
	}
	p.leave(&n, &f.person)
	prof.Profile.EmailAddresses = slices.Clone(prof.Profile.EmailAddresses)
	n.complete(&prof.Profile, "")
	if err := prof.check(); err != nil {
		return nil //nolint:nilerr // what cannot be stored is not worth a sign-in
	}
	rec.take(&prof)
	if rec.Name == f.person.Name && rec.GivenName == f.person.GivenName && rec.FamilyName == f.person.FamilyName && rec.Email == f.person.Email &&
		rec.EmailVerified == f.person.EmailVerified && rec.Locale == f.person.Locale {
		return nil
	}
	if err := s.tellChanges(tx, f.id, &f.person, &known, &prof.Profile, false, now); err != nil {
		return err
	}
	rec.UpdatedAt = now
	if err := reindex(tx, f.id, before, placesOf(&rec, &prof), now); err != nil {
		return err
	}
	f.person = rec
	if err := persons.Put(tx, f.id, rec, time.Time{}); err != nil {
		return err
	}
	return profiles.Put(tx, f.id, prof, time.Time{})
}

// leave takes out of what the provider says what the person may change and has already.
func (p *Provider) leave(n *NewPerson, has *personRecord) {
	for _, part := range []struct {
		name, has string
		says      *string
	}{
		{"name", has.Name, &n.Name},
		{"given_name", has.GivenName, &n.GivenName},
		{"family_name", has.FamilyName, &n.FamilyName},
		{"locale", has.Locale, &n.Locale},
	} {
		if part.has != "" && !p.writes(part.name) {
			*part.says = ""
		}
	}
	if has.Email != "" && !p.writes("email") {
		n.Email, n.EmailVerified = "", nil
	}
}

// arrival is what an answer of a provider can be for, other than a sign-in.
type arrival struct {
	is   func(a *answered) bool // tells whether the answer is for it
	take func(w http.ResponseWriter, r *http.Request, a *answered)
}

// onArrival adds what an answer can be for. New calls it before the service is used.
func (s *Service) onArrival(is func(*answered) bool, take func(http.ResponseWriter, *http.Request, *answered)) {
	s.arrivals = append(s.arrivals, arrival{is, take})
}

// registration is how somebody whom a provider names for the first time becomes a person.
type registration struct {
	// ask says, of somebody who may be new, what they are asked first.
	ask func(ctx context.Context, a *answered, n *newcomer) error
	url func(answer string) string // of the page that asks, for an answer by name
}

// registerBy sets how newcomers register. New calls it before the service is used.
func (s *Service) registerBy(r registration) { s.registration = r }

// showProviderDone serves GET /sign-in/provider/done?flow=…: the browser comes back with a verified identity and its cookies.
func (s *Service) showProviderDone(w http.ResponseWriter, r *http.Request) {
	a, ok := s.readAnswered(w, r)
	if !ok {
		return
	}
	for _, other := range s.arrivals {
		if other.is(a) {
			other.take(w, r, a)
			return
		}
	}
	err := s.enter(w, r, a)
	if errors.Is(err, errAsk) {
		s.warnUncoupled(r, a, err)
	}
	switch {
	case err == nil:
		s.goIn(w, r, a.signIn, a.flow)
	case (errors.Is(err, errAsk) || errors.Is(err, errRegister)) && a.signIn == "":
		s.askAgain(w, r, a.provider)
	case (errors.Is(err, errAsk) || errors.Is(err, errRegister)) && a.flow.Demand.Passive: // OpenID Connect Core 3.1.2.1: no page
		s.refuseFlow(w, r, a.flow, &login.Refusal{Code: "interaction_required", Reason: "the person has not signed in here by the provider yet"})
	case errors.Is(err, errRegister):
		s.redirect(w, r, s.registration.url(a.name))
	case errors.Is(err, errAsk):
		s.redirect(w, r, connectURL(a.name))
	case errors.Is(err, errBlocked):
		s.recordFailure(r, a.flow.Demand.Client.ID, "", a.provider.Name+": the person is not active")
		if a.flow.Demand.Passive {
			s.refuseFlow(w, r, a.flow, &login.Refusal{Code: "login_required", Reason: "nobody is signed in"})
			return
		}
		s.Pages.Error(w, r, http.StatusForbidden, "error.denied", "")
	case errors.Is(err, errUsed):
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
	default:
		s.fail(w, r, err, "")
	}
}
