package federation

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Reads returns the provider that a demand begins with if it is one that reads the request, otherwise nil. known is
// false when there is no such provider.
func (g *Registry) Reads(d authn.Demand) (r *Member, known bool) {
	first := d.Provider
	if first == "" && len(d.Providers) > 0 {
		first = d.Providers[0]
	}
	if first == "" || first == session.LocalProvider {
		return nil, true
	}
	p := g.Get(first)
	if p == nil || p.Reader == nil {
		return nil, p != nil
	}
	return p, true
}

// WithoutIdentity drops a provider that reads requests from a demand, for a request without an identity: the service
// itself signs in then, where it may.
func WithoutIdentity(d authn.Demand, id string) authn.Demand {
	if d.Provider == "" {
		return d
	}
	others := d.Providers
	d.Provider, d.Providers = "", []string{id}
	if len(others) == 0 || slices.Contains(others, session.LocalProvider) {
		d.Providers = append(d.Providers, session.LocalProvider)
	}
	return d
}

// ResultFor is the session's result for one demand, with the parameters of that demand.
func (s *Service) ResultFor(si *session.Current, d authn.Demand) *authn.Result {
	out := si.Result()
	p, ok := s.fixed.byID[out.Provider]
	if !ok || len(d.Params) == 0 {
		return out
	}
	out.Details = maps.Clone(out.Details)
	for _, name := range p.parameters {
		if values := d.Params[name]; len(values) > 0 {
			if out.Details == nil {
				out.Details = map[string][]string{}
			}
			out.Details[name] = values
		}
	}
	return out
}

// AuthenticateExternal answers a demand with the identity that the request carries: it decides who is signed in, even
// if another person was. A session of the same identity continues while it satisfies the demand; otherwise reading the
// identity is a new sign-in.
func (s *Service) AuthenticateExternal(q *webflow.Request, d authn.Demand, p *Member, id *idp.Identity) (*authn.Result, error) {
	folded, err := person.Fold(id.Subject)
	if err != nil {
		return nil, s.RefuseExternal(q, d, p, err)
	}
	if id.Level < d.Level {
		return nil, Unreachable(d)
	}
	d.Provider = p.ID
	if si := q.SignIn; si != nil && si.Person.External == person.ExternalKey(p.ID, folded) && si.Session.Level == id.Level &&
		maps.EqualFunc(si.Session.Details, id.Details, slices.Equal) && s.deps.Front.Satisfies(si, d) {
		s.deps.Session.Use(q.Request, si)
		return s.ResultFor(si, d), nil
	}
	si, err := s.signInExternal(q, d, p, id)
	if err != nil {
		return nil, s.RefuseExternal(q, d, p, err)
	}
	return s.ResultFor(si, d), nil
}

// RefuseExternal is the answer when a provider has not signed the person in: a page, or a refusal if the demand forbids
// pages. p is nil for the service itself. An unknown error is returned as it is.
func (s *Service) RefuseExternal(q *webflow.Request, d authn.Demand, p *Member, err error) error {
	key, reason := "", denial.IdentityRefused
	switch {
	case errors.Is(err, idp.ErrNoIdentity):
		key, reason = "error.no_idp", denial.ProviderNotOffered
	case errors.Is(err, ErrBlocked):
		key, reason = "error.denied", denial.PersonBlocked
	case errors.Is(err, errNameTaken), errors.As(err, new(*person.ValidationError)), errors.As(err, new(*idp.Rejection)):
		key = "error.identity"
	default:
		return err
	}
	id := session.LocalProvider
	if p != nil {
		id = p.ID
	}
	s.deps.Front.Refuse(q, denial.Refusal{Where: denial.SignIn, Reason: reason, By: "request", Provider: id, ClientID: d.Client.ID}, err)
	if d.Passive {
		return &authn.Refusal{Code: "login_required", Reason: "the identity provider has not signed anyone in"}
	}
	answer := &webflow.Answer{Status: http.StatusForbidden, Key: key}
	if key == "error.identity" { // the proxy can send another name the next time
		answer.Again = web.LocalPath(d.Return)
	}
	return answer
}

// externalSignIn is the data that a sign-in by a request needs before its transaction.
type externalSignIn struct {
	personID string // of a new person
	folded   string // username
	person   person.Record
	token    string
	id       string // of a new session
	old      string // hash of the browser's session cookie
	events   []audit.Event
	session  session.Record
}

// prepareExternal makes what does not belong into the transaction: tokens, ids, events and records.
func (s *Service) prepareExternal(q *webflow.Request, d authn.Demand, p *Member, id *idp.Identity) (*externalSignIn, error) {
	x := &externalSignIn{old: challenge.Hashed(s.deps.Jar.Get(q.Request, session.CookieSession))}
	var err error
	if x.person, x.folded, err = (person.NewPerson{Username: id.Subject, EmailVerified: new(bool)}).Record(); err != nil {
		return nil, err
	}
	personID, err := uuid.NewRandomFromReader(s.deps.Random)
	if err != nil {
		return nil, err
	}
	x.personID = personID.String()
	if x.token, err = secret.NewToken(s.deps.Random, secret.Session); err != nil {
		return nil, err
	}
	if x.id, err = secret.ID(s.deps.Random, 16); err != nil {
		return nil, err
	}
	from, now := s.deps.Origin(q.Request), s.deps.Now()
	if x.events, err = s.deps.Person.NewEvents(from, webflow.LoginSucceeded, person.EventCreated, webflow.SignedOut,
		webflow.SignedOut); err != nil {
		return nil, err
	}
	x.person.CreatedAt, x.person.UpdatedAt, x.person.External = now, now, person.ExternalKey(p.ID, x.folded)
	x.session = session.Record{AuthTime: now, Seen: now, Level: id.Level, AMR: []string{"IMPLICIT"}, Provider: p.ID, Details: id.Details}
	x.session.From(from)
	if d.Return != "" {
		x.session.SignedInFor = secret.Hash(d.Return)
	}
	return x, nil
}

// signInExternal opens a session for the person of an identity, and creates the person at the first sign-in.
func (s *Service) signInExternal(q *webflow.Request, d authn.Demand, p *Member, id *idp.Identity) (*session.Current, error) {
	x, err := s.prepareExternal(q, d, p, id)
	if err != nil {
		return nil, err
	}
	si, err := s.enterExternal(q, d, p, x)
	if errors.As(err, new(*alongError)) { // of which nothing is kept
		d.Along = nil
		si, err = s.enterExternal(q, d, p, x)
	}
	if err != nil {
		return nil, err
	}
	s.deps.Front.Entered(q.Context(), denial.Entry{
		PersonID: si.Session.PersonID, Username: si.Person.Username, ClientID: d.Client.ID, By: "request",
		Provider: p.ID, Level: si.Session.Level,
	})
	s.deps.Session.SetNewCookie(q.W, x.token)
	s.deps.Pages.Choose(q.W, q.Request, si.Person.Locale)
	return si, nil
}

// alongError says that what a demand wanted done along with a sign-in has failed.
type alongError struct{ error }

// enterExternal is the transaction of signInExternal, with what the demand wants done along with it.
func (s *Service) enterExternal(q *webflow.Request, d authn.Demand, p *Member, x *externalSignIn) (si *session.Current, err error) {
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		m, err := x.match(tx)
		if err != nil {
			return err
		}
		rec := x.session
		rec.PersonID, rec.Epoch = m.ID, m.Person.Epoch
		sid, ended, err := s.deps.Session.Begin(tx, x.id, x.token, x.old, rec)
		if err != nil {
			return err
		}
		rec.Cookie = secret.Hash(x.token)
		si = &session.Current{ID: sid, Session: rec, Person: m.Person}
		var happened []audit.Event
		if m.Created {
			happened = append(happened, si.OwnEvent(x.events[1], webflow.SignedInBy+p.Name))
		}
		for i, o := range ended {
			happened = append(happened, o.OwnEvent(x.events[2+i], o.Reason))
		}
		e := si.OwnEvent(x.events[0], webflow.SignedInBy+p.Name)
		e.ClientID = d.Client.ID
		if err := s.appendAll(tx, append(happened, e)); err != nil || d.Along == nil {
			return err
		}
		if err := d.Along(tx, s.ResultFor(si, d)); err != nil {
			return &alongError{err}
		}
		return nil
	})
	return si, err
}

// match returns the person of an identity, or creates one. A username that another person has is never shared: whom the
// provider means by it is unknown.
func (x *externalSignIn) match(tx storage.Tx) (*Match, error) {
	known, ok, err := person.Identities.Find(tx, x.person.External)
	if err != nil {
		return nil, err
	}
	if ok {
		rec, err := person.Records.Get(tx, known.PersonID)
		if err == nil && rec.State != person.Active {
			err = ErrBlocked
		}
		return &Match{ID: known.PersonID, Person: rec}, err
	}
	if err := person.CreatePerson(tx, x.personID, x.person, nil, x.folded); err != nil {
		if errors.Is(err, person.ErrUsernameTaken) {
			err = errNameTaken
		}
		return nil, err
	}
	err = person.Identities.Create(tx, x.person.External, person.IdentityRecord{PersonID: x.personID}, time.Time{})
	return &Match{ID: x.personID, Person: x.person, Created: true}, err
}

// Trusts reports whether a session of a provider is accepted from the sender of a request. That is so unless the
// provider reads requests and does not trust the sender: then the proxy that vouches for the person would be bypassed.
func (s *Service) Trusts(r *http.Request, provider string) bool {
	for _, p := range s.readers {
		if p.ID == provider {
			return p.Reader.Trusts(r)
		}
	}
	return true
}

// Cleanse deletes from a request what a provider would read of it, unless it comes from a sender that the provider
// trusts.
func (s *Service) Cleanse(r *http.Request) {
	for _, p := range s.readers {
		p.Reader.Cleanse(r)
	}
}
