package identity

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// reads returns the provider that a demand begins with when it is one that reads the request, otherwise nil. It is not known when there is
// no such provider.
func (g *registry) reads(d login.Demand) (r *registered, known bool) {
	first := d.Provider
	if first == "" && len(d.Providers) > 0 {
		first = d.Providers[0]
	}
	if first == "" || first == provider {
		return nil, true
	}
	p := g.get(first)
	if p == nil || p.reader == nil {
		return nil, p != nil
	}
	return p, true
}

// withoutIdentity is the demand when the request carries no identity of the provider: then the service itself signs in, where it may.
func withoutIdentity(d login.Demand, id string) login.Demand {
	if d.Provider == "" {
		return d
	}
	others := d.Providers
	d.Provider, d.Providers = "", []string{id}
	if len(others) == 0 || slices.Contains(others, provider) {
		d.Providers = append(d.Providers, provider)
	}
	return d
}

// resultFor is the session's result for one demand, whose parameters belong to it alone.
func (s *Service) resultFor(si *signedIn, d login.Demand) *login.Result {
	out := si.result()
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

// authenticateExternal answers a demand with the identity that the request carries: it decides who is signed in, whoever was before. A
// session of this very sign-in goes on while it is good enough; otherwise reading the identity is a new sign-in, now.
func (s *Service) authenticateExternal(w http.ResponseWriter, r *http.Request, d login.Demand, p *registered, id *idp.Identity, si *signedIn) (*login.Result, error) {
	folded, err := fold(id.Subject)
	if err != nil {
		return nil, s.refuseExternal(w, r, d, p, err)
	}
	if id.Level < d.Level {
		return nil, unreachable(d)
	}
	d.Provider = p.ID
	if si != nil && si.person.External == externalKey(p.ID, folded) && si.session.Level == id.Level &&
		maps.EqualFunc(si.session.Details, id.Details, slices.Equal) && s.satisfies(si, d) {
		s.touch(r, si)
		return s.resultFor(si, d), nil
	}
	si, err = s.signInExternal(w, r, d, p, id)
	if err != nil {
		return nil, s.refuseExternal(w, r, d, p, err)
	}
	return s.resultFor(si, d), nil
}

// Why an identity does not sign anybody in.
var (
	errBlocked      = errors.New("identity: the person is not active")
	errNameOccupied = errors.New("identity: the username of a new person is another person's")
)

// refuseExternal is the answer when a provider has signed nobody in: a page, or for a silent demand a refusal. What we cannot tell stays
// an error.
func (s *Service) refuseExternal(w http.ResponseWriter, r *http.Request, d login.Demand, p *registered, err error) error {
	key, invalid := "", new(ValidationError)
	switch {
	case errors.Is(err, idp.ErrNoIdentity):
		key = "error.no_idp"
	case errors.Is(err, errBlocked):
		key = "error.denied"
	case errors.Is(err, errNameOccupied), errors.As(err, &invalid), errors.As(err, new(*idp.Rejection)):
		key = "error.identity"
	default:
		return err
	}
	id := provider
	if p != nil {
		id = p.ID
	}
	s.Log.Info("sign-in refused", zap.String("provider", id), zap.String("client_ip", s.Origin(r).ClientIP), zap.NamedError("cause", err))
	if d.Passive {
		return &login.Refusal{Code: "login_required", Reason: "the identity provider has signed nobody in"}
	}
	s.Pages.Error(w, r, http.StatusForbidden, key, "")
	return login.ErrResponded
}

// externalKey is the key of an identity, by the folded username: who comes in other case is the same person. Usernames may be longer than
// a part of a key should be.
func externalKey(provider, folded string) string { return storage.Key(provider, secret.Hash(folded)) }

// signInExternal opens a session for the person of an identity, who is created when there is none yet.
func (s *Service) signInExternal(w http.ResponseWriter, r *http.Request, d login.Demand, p *registered, id *idp.Identity) (*signedIn, error) {
	created, folded, err := NewPerson{Username: id.Subject, EmailVerified: new(bool)}.record()
	if err != nil {
		return nil, err
	}
	personID, err := uuid.NewRandomFromReader(s.Random)
	if err != nil {
		return nil, err
	}
	token, err := secret.NewToken(s.Random, secret.Session)
	if err != nil {
		return nil, err
	}
	sessionID, err := secret.ID(s.Random, 16)
	if err != nil {
		return nil, err
	}
	ev, err := s.newEvents(s.Origin(r), loginSucceeded, signedOut, personCreated)
	if err != nil {
		return nil, err
	}
	now, old := s.Now(), hashed(s.jar.Get(r, kindSession))
	created.CreatedAt, created.UpdatedAt, created.External = now, now, externalKey(p.ID, folded)
	rec := sessionRecord{AuthTime: now, Seen: now, Level: id.Level, AMR: []string{"IMPLICIT"}, Provider: p.ID, Details: id.Details}
	rec.from(s.Origin(r))
	if d.Return != "" {
		rec.SignedInFor = secret.Hash(d.Return)
	}
	var si *signedIn
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		who, person, isNew, err := externalPerson(tx, personID.String(), folded, created)
		if err != nil {
			return err
		}
		rec := rec
		rec.PersonID, rec.Epoch = who, person.Epoch
		sid, ended, err := s.begin(tx, sessionID, token, old, rec)
		if err != nil {
			return err
		}
		rec.Cookie = secret.Hash(token)
		si = &signedIn{id: sid, session: rec, person: person}
		if isNew {
			if err := s.Events.Append(tx, si.own(ev[2], "signed in by "+p.Name)); err != nil {
				return err
			}
		}
		if ended != nil {
			if err := s.Events.Append(tx, ended.own(ev[1], "another person signed in")); err != nil {
				return err
			}
		}
		e := si.own(ev[0], "signed in by "+p.Name)
		e.ClientID = d.Client.ID
		return s.Events.Append(tx, e)
	})
	if err != nil {
		return nil, err
	}
	s.jar.Set(w, kindSession, token, 0)
	s.Pages.Choose(w, r, si.person.Locale)
	return si, nil
}

// externalPerson returns the person of an identity, or creates the one who is given. A username that somebody else has is never shared:
// who the provider means by it is not known.
func externalPerson(tx storage.Tx, id, folded string, created personRecord) (string, personRecord, bool, error) {
	known, err := identities.Get(tx, created.External)
	if err == nil {
		rec, err := persons.Get(tx, known.PersonID)
		if err == nil && rec.State != Active {
			err = errBlocked
		}
		return known.PersonID, rec, false, err
	}
	if !errors.Is(err, storage.ErrNotFound) {
		return "", created, false, err
	}
	if err := createPerson(tx, id, created, nil, folded); err != nil {
		if errors.Is(err, ErrUsernameTaken) {
			err = errNameOccupied
		}
		return "", created, false, err
	}
	if err := identities.Create(tx, created.External, identityRecord{PersonID: id}, time.Time{}); err != nil {
		return "", created, false, err
	}
	return id, created, true, nil
}

// Cleanse deletes from a request what a provider would read of it, unless it comes from whom the provider believes.
func (s *Service) Cleanse(r *http.Request) {
	for _, p := range s.readers {
		p.reader.Cleanse(r)
	}
}
