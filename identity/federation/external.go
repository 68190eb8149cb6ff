package federation

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Reads returns the provider that a demand begins with when it is one that reads the request, otherwise nil. It is not known when there is
// no such provider.
func (g *Registry) Reads(d login.Demand) (r *Member, known bool) {
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

// WithoutIdentity is the demand when the request carries no identity of the provider: then the service itself signs in, where it may.
func WithoutIdentity(d login.Demand, id string) login.Demand {
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

// ResultFor is the session's result for one demand, whose parameters belong to it alone.
func (s *Service) ResultFor(si *session.Current, d login.Demand) *login.Result {
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

// AuthenticateExternal answers a demand with the identity that the request carries: it decides who is signed in, whoever was before. A
// session of this very sign-in goes on while it is good enough; otherwise reading the identity is a new sign-in, now.
func (s *Service) AuthenticateExternal(w http.ResponseWriter, r *http.Request, d login.Demand, p *Member, id *idp.Identity, si *session.Current) (*login.Result, error) {
	folded, err := person.Fold(id.Subject)
	if err != nil {
		return nil, s.RefuseExternal(w, r, d, p, err)
	}
	if id.Level < d.Level {
		return nil, Unreachable(d)
	}
	d.Provider = p.ID
	if si != nil && si.Person.External == person.ExternalKey(p.ID, folded) && si.Session.Level == id.Level &&
		maps.EqualFunc(si.Session.Details, id.Details, slices.Equal) && s.front.Satisfies(si, d) {
		s.session.Use(r, si)
		return s.ResultFor(si, d), nil
	}
	si, err = s.signInExternal(w, r, d, p, id)
	if err != nil {
		return nil, s.RefuseExternal(w, r, d, p, err)
	}
	return s.ResultFor(si, d), nil
}

// Why an identity does not sign anybody in.
var (
	ErrBlocked      = errors.New("identity: the person is not active")
	errNameOccupied = errors.New("identity: the username of a new person is another person's")
)

// RefuseExternal is the answer when a provider has signed nobody in: a page, or for a silent demand a refusal. What we cannot tell stays
// an error.
func (s *Service) RefuseExternal(w http.ResponseWriter, r *http.Request, d login.Demand, p *Member, err error) error {
	key, invalid := "", new(person.ValidationError)
	switch {
	case errors.Is(err, idp.ErrNoIdentity):
		key = "error.no_idp"
	case errors.Is(err, ErrBlocked):
		key = "error.denied"
	case errors.Is(err, errNameOccupied), errors.As(err, &invalid), errors.As(err, new(*idp.Rejection)):
		key = "error.identity"
	default:
		return err
	}
	id := session.LocalProvider
	if p != nil {
		id = p.ID
	}
	s.log.Info("sign-in refused", zap.String("provider", id), zap.String("client_ip", s.origin(r).ClientIP), zap.NamedError("cause", err))
	if d.Passive {
		return &login.Refusal{Code: "login_required", Reason: "the identity provider has signed nobody in"}
	}
	s.pages.Error(w, r, http.StatusForbidden, key, "")
	return login.ErrResponded
}

// signInExternal opens a session for the person of an identity, who is created when there is none yet.
func (s *Service) signInExternal(w http.ResponseWriter, r *http.Request, d login.Demand, p *Member, id *idp.Identity) (*session.Current, error) {
	created, folded, err := person.NewPerson{Username: id.Subject, EmailVerified: new(bool)}.Record()
	if err != nil {
		return nil, err
	}
	personID, err := uuid.NewRandomFromReader(s.random)
	if err != nil {
		return nil, err
	}
	token, err := secret.NewToken(s.random, secret.Session)
	if err != nil {
		return nil, err
	}
	sessionID, err := secret.ID(s.random, 16)
	if err != nil {
		return nil, err
	}
	ev, err := s.person.NewEvents(s.origin(r), front.LoginSucceeded, front.SignedOut, person.EventCreated)
	if err != nil {
		return nil, err
	}
	now, old := s.now(), proof.Hashed(s.jar.Get(r, session.CookieSession))
	created.CreatedAt, created.UpdatedAt, created.External = now, now, person.ExternalKey(p.ID, folded)
	rec := session.Record{AuthTime: now, Seen: now, Level: id.Level, AMR: []string{"IMPLICIT"}, Provider: p.ID, Details: id.Details}
	rec.From(s.origin(r))
	if d.Return != "" {
		rec.SignedInFor = secret.Hash(d.Return)
	}
	var si *session.Current
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		who, person, isNew, err := externalPerson(tx, personID.String(), folded, created)
		if err != nil {
			return err
		}
		rec := rec
		rec.PersonID, rec.Epoch = who, person.Epoch
		sid, ended, err := s.session.Begin(tx, sessionID, token, old, rec)
		if err != nil {
			return err
		}
		rec.Cookie = secret.Hash(token)
		si = &session.Current{ID: sid, Session: rec, Person: person}
		if isNew {
			if err := s.events.Append(tx, si.OwnEvent(ev[2], "signed in by "+p.Name)); err != nil {
				return err
			}
		}
		if ended != nil {
			if err := s.events.Append(tx, ended.OwnEvent(ev[1], "another person signed in")); err != nil {
				return err
			}
		}
		e := si.OwnEvent(ev[0], "signed in by "+p.Name)
		e.ClientID = d.Client.ID
		return s.events.Append(tx, e)
	})
	if err != nil {
		return nil, err
	}
	s.jar.Set(w, session.CookieSession, token, 0)
	s.pages.Choose(w, r, si.Person.Locale)
	return si, nil
}

// externalPerson returns the person of an identity, or creates the one who is given. A username that somebody else has is never shared:
// who the provider means by it is not known.
func externalPerson(tx storage.Tx, id, folded string, created person.Record) (string, person.Record, bool, error) {
	known, err := person.Identities.Get(tx, created.External)
	if err == nil {
		rec, err := person.Records.Get(tx, known.PersonID)
		if err == nil && rec.State != person.Active {
			err = ErrBlocked
		}
		return known.PersonID, rec, false, err
	}
	if !errors.Is(err, storage.ErrNotFound) {
		return "", created, false, err
	}
	if err := person.CreatePerson(tx, id, created, nil, folded); err != nil {
		if errors.Is(err, person.ErrUsernameTaken) {
			err = errNameOccupied
		}
		return "", created, false, err
	}
	if err := person.Identities.Create(tx, created.External, person.IdentityRecord{PersonID: id}, time.Time{}); err != nil {
		return "", created, false, err
	}
	return id, created, true, nil
}

// Cleanse deletes from a request what a provider would read of it, unless it comes from whom the provider believes.
func (s *Service) Cleanse(r *http.Request) {
	for _, p := range s.readers {
		p.Reader.Cleanse(r)
	}
}
