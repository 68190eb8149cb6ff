package identity

import (
	"context"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Current returns the browser's sign-in, or nil if it is not signed in. It shows no page.
func (s *Service) Current(r *http.Request) (*authn.Result, error) { return s.Session.CurrentOf(r) }

// account returns the name of the person who is signed in, for pages of errors. "": no one is, or it cannot be read.
func (s *Service) account(r *http.Request) (name string) {
	now := s.now()
	err := s.store.View(r.Context(), func(tx storage.Tx) error {
		si, err := s.Session.ReadIn(tx, r, now)
		if err == nil && si != nil {
			name = si.Person.Username
		}
		return err
	})
	if err != nil {
		return ""
	}
	return name
}

// Subjects answers the questions of authz about people and their sessions.
type Subjects struct{ s *Service }

// Subjects returns the answers for authz.
func (s *Service) Subjects() Subjects { return Subjects{s} }

// Get returns the state of a person, or storage.ErrNotFound.
func (x Subjects) Get(tx storage.Tx, subject string) (authn.Subject, error) {
	return x.s.Person.Get(tx, subject)
}

// Linked returns the person of an identity at a provider, or storage.ErrNotFound, also if the identity does not sign in
// the person because of a role. vouched is that of authn.Result, for a sign-in by the identity.
func (x Subjects) Linked(tx storage.Tx, provider, issuer, subject string) (personID string, vouched bool, err error) {
	known, err := person.Identities.Get(tx, person.IdentityKey(provider, &idp.Identity{Issuer: issuer, Subject: subject}))
	if err != nil {
		return "", false, err
	}
	rec, err := person.Records.Get(tx, known.PersonID)
	if err != nil {
		return "", false, err
	}
	admits, err := x.s.Federation.AdmitsRoles(tx, provider)
	if err != nil {
		return "", false, err
	}
	if vouched = known.Vouched || !admits; vouched && x.s.Person.HasRole(&rec) {
		return "", false, storage.ErrNotFound
	}
	return known.PersonID, vouched, nil
}

// GroupExists reports whether there is a group of a name, as Get names them.
func (x Subjects) GroupExists(tx storage.Tx, name string) (bool, error) {
	return x.s.Person.GroupExists(tx, name)
}

// SignsIn reports whether people can sign in by a provider: it exists and is not disabled.
func (x Subjects) SignsIn(tx storage.Tx, provider string) (bool, error) {
	return x.s.Federation.SignsIn(tx, provider)
}

// Needs returns the level that a sign-in of a person needs for a client which no page asks for it: that of the second
// step and of the organisations of the client. asks is the second_factor of the client itself. A *authn.Refusal: no
// sign-in of the person does.
func (x Subjects) Needs(tx storage.Tx, client, asks, subject string, now time.Time) (level int, err error) {
	s := x.s
	u, err := s.units(tx)
	if err != nil {
		return 0, err
	}
	rec, err := person.Records.Get(tx, subject)
	switch {
	case err != nil:
		return 0, err
	case !u.SignsInBy(client, settings.ProtocolOpenID):
		return 0, refuseProtocol()
	case rec.Assurance.Level(now) < u.RequiredAssurance(client):
		return 0, &authn.Refusal{Code: "access_denied", Reason: "the identity of the person is not assured as the application requires"}
	}
	second := s.secondFactor(u, client, asks) == authn.SecondFactorAlways
	if s.secondFactor(u, client, asks) == authn.SecondFactorWhenSetUp {
		second, err = s.StepUp.Protects(tx, &session.Current{Session: session.Record{PersonID: subject}, Person: rec}, u)
	}
	if level = u.RequiredLevel(client); second {
		level = max(level, mfa.SecondFactorLevel)
	}
	return level, err
}

// Permissions returns the permissions of groups of a partition by the groups' names.
func (x Subjects) Permissions(tx storage.Tx, partition string, groups []string) (map[string][]string, error) {
	return x.s.Person.Permissions(tx, partition, groups)
}

// Session returns a live session, or storage.ErrNotFound if it has ended, has expired or never existed.
func (x Subjects) Session(tx storage.Tx, id string, now time.Time) (authn.Session, error) {
	return x.s.Session.Get(tx, id, now)
}

// Sessions returns the live sessions of a person, the oldest first.
func (x Subjects) Sessions(tx storage.Tx, subject string, now time.Time) ([]authn.Session, error) {
	return x.s.Session.List(tx, subject, now)
}

// StoredSessions returns the ids of the sessions of a person, those included that do not count now.
func (x Subjects) StoredSessions(tx storage.Tx, subject string) (ids []string, err error) {
	stored, err := session.Stored(tx, subject)
	for _, one := range stored {
		ids = append(ids, one.ID)
	}
	return ids, err
}

// Touch marks a session as used now. It writes at most once a minute.
func (x Subjects) Touch(ctx context.Context, id string) error { return x.s.Session.Touch(ctx, id) }

// CloseSession ends a session of a person, or returns storage.ErrNotFound if the person has no session with this id.
func (x Subjects) CloseSession(tx storage.Tx, subject, id string) error {
	return x.s.Session.CloseSession(tx, subject, id)
}

// RefreshDetails asks the identity provider of a session for the details of its person again, until ctx ends. nil: it
// cannot be asked, or the person has signed in by another provider since.
func (x Subjects) RefreshDetails(ctx context.Context, subject, session, provider string) (map[string][]string, error) {
	return x.s.Federation.RefreshDetails(ctx, subject, session, provider)
}
