package exchange

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/consent"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/storage"
)

var (
	errInactive = denial.New(denial.SubjectToken, "subject_token is unknown, expired or revoked, or of another type than it says")
	errLimited  = denial.New(denial.SubjectToken, "subject_token has a usage limit, which an exchange would lift")
	errIssuer   = denial.New(denial.SubjectToken, "no issuer elsewhere is trusted")
	errActor    = denial.New(denial.SubjectToken, "actor_token is not a valid access token of the client itself")
	errForeign  = denial.New(denial.SubjectToken, "subject_token was issued to another client")
	errChain    = denial.New(denial.SubjectToken, "the token was exchanged too often, or by the same actor before")
	errWeak     = denial.New(denial.SecondFactorNeeded, "the sign-in of the token is too weak for the client that exchanges it")
	errConsent  = denial.New(denial.SubjectToken, "the person has not allowed the client of the ID token to know who they are, or not any more")
	errUnproved = denial.New(denial.KeyUnproved, "the token is bound to a key or certificate that the sender has not proved to have")
)

// refuse is the answer for a token that cannot be exchanged. (RFC 8693 2.2.2)
func refuse(cause error) error {
	if errors.As(cause, new(*oauth.Error)) {
		return cause
	}
	return oauth.InvalidRequest(cause, "subject_token or actor_token is invalid or expired, or cannot be exchanged")
}

// subject is the content of the token that is exchanged.
type subject struct {
	from  string // the client that it was issued to
	scope []string
	// details are the authorization details of the token.
	details string
	ends    time.Time
	access  token.Access // what the new token takes over
	grant   *token.Grant // that is made for it. nil: it has one, or needs none
}

// judge reads the tokens of a request and says what comes of them. It writes nothing.
func (s *service) judge(tx storage.Tx, x *request) (sub *subject, err error) {
	switch x.kind {
	case typeAccess:
		sub, err = s.ofAccess(tx, x)
	case typeRefresh:
		sub, err = s.ofRefresh(tx, x)
	case typeID:
		sub, err = s.ofIDToken(tx, x)
	case TypeTransaction:
		sub, err = s.ofTransaction(tx, x)
	default:
		sub, err = s.ofWorkload(tx, x)
	}
	if err != nil {
		return nil, err
	}
	if x.transaction == nil { // a transaction token names workloads in a way of its own
		if err := s.act(tx, x, sub); err != nil {
			return nil, err
		}
	}
	st, ok, err := s.deps.Tokens.CheckStanding(tx, x.Client.ID, sub.access.Subject)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, refuse(cmp.Or(st.Refused, errInactive))
	}
	if err := s.admit(tx, x, sub); err != nil {
		return nil, err
	}
	if sub.access.Epochs = st.Epochs; sub.grant != nil {
		sub.grant.Epochs = st.Epochs
	}
	if len(sub.access.Sources) > maxSources || len(sub.access.Actors) > maxActors {
		return nil, refuse(errChain)
	}
	return sub, nil
}

// admit refuses the token of a person whose sign-in is too weak for the client. A token of the client itself has passed
// its sign-in.
func (s *service) admit(tx storage.Tx, x *request, sub *subject) error {
	if sub.access.Subject == "" || sub.from == x.Client.ID {
		return nil
	}
	need, err := s.deps.Subjects.Needs(tx, x.Client.ID, x.Client.SecondFactor, sub.access.Subject, x.Now)
	switch {
	case errors.As(err, new(*authn.Refusal)):
		return refuse(err)
	case err == nil && need > sub.access.Level:
		return oauth.InvalidRequest(errWeak, "sign-ins of the person for the client need a second step or a higher level than the token has")
	}
	return err
}

func (s *service) ofAccess(tx storage.Tx, x *request) (*subject, error) {
	rec, in, active, err := s.deps.Tokens.FindActive(tx, x.key, x.Now)
	switch {
	case err != nil:
		return nil, err
	case !active:
		return nil, refuse(errInactive)
	case in.UsageLimit > 0:
		return nil, refuse(errLimited)
	case !in.Confirmation.MetBy(x.Proved):
		return nil, refuse(errUnproved)
	}
	source := token.Source{Key: x.key, ClientID: rec.ClientID, Epoch: rec.Epochs.Client}
	return &subject{from: rec.ClientID, scope: in.Scope, details: in.AuthorizationDetails, ends: rec.ExpiresAt, access: token.Access{
		GrantID: rec.GrantID, Subject: rec.Subject, Level: rec.Level, AMR: rec.AMR, AuthTime: rec.AuthTime, SessionID: rec.SessionID,
		Provider: rec.Provider, References: rec.References, Actors: rec.Actors, Sources: append([]token.Source{source}, rec.Sources...),
	}}, nil
}

// ofRefresh: a client can exchange refresh tokens of its own. They are not used up.
func (s *service) ofRefresh(tx storage.Tx, x *request) (*subject, error) {
	id, g, scope, usable, err := s.deps.Grants.FindRefresh(tx, x.key, x.Request)
	if err != nil {
		return nil, err
	}
	if !usable {
		return nil, refuse(errInactive)
	}
	return &subject{
		from: x.Client.ID, scope: s.unlimited(scope), details: s.deps.Clients.StillDetailed(x.Client, g.AuthorizationDetails),
		ends: g.ExpiresAt, access: token.Access{
			GrantID: id, Subject: g.Subject, Level: g.Level, AMR: g.AMR, AuthTime: g.AuthTime, SessionID: g.SessionID, Provider: g.Provider,
			References: g.References,
		},
	}, nil
}

// unlimited are the scopes without a usage limit. A token of a person that can be exchanged again and again would have
// the number of uses each time.
func (s *service) unlimited(scope []string) []string {
	return slices.DeleteFunc(slices.Clone(scope), func(name string) bool { return s.deps.Clients.UsageLimit([]string{name}) > 0 })
}

// ofIDToken: an ID token says who signed in, and no scopes. It is worth something while that session lives, and no more
// than the person has allowed its client.
func (s *service) ofIDToken(tx storage.Tx, x *request) (*subject, error) {
	ends := time.Unix(x.id.Expires, 0).UTC()
	if !ends.After(x.Now) {
		return nil, refuse(errInactive)
	}
	session, err := s.deps.Subjects.Session(tx, x.id.Session, x.Now)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, refuse(errInactive)
	}
	if err != nil {
		return nil, err
	}
	st, ok, err := s.deps.Tokens.CheckStanding(tx, x.id.Audience, session.Subject)
	if err != nil {
		return nil, err
	}
	if !ok || st.Subject.Epoch != session.Epoch || s.deps.Tokens.SubjectFor(st.Client, session.Subject) != x.id.Subject {
		return nil, refuse(errInactive)
	}
	scope, err := s.allowed(tx, st.Client, st.Client.Scopes, session.Subject)
	if err != nil {
		return nil, err
	}
	si := token.NewSignIn(&session.Result)
	si.Level = min(si.Level, token.ACRLevel(x.id.ACR)) // the session may have become stronger since
	return &subject{
		from: x.id.Audience, scope: s.unlimited(s.deps.Clients.StillGiven(st.Client, scope, &st.Subject, x.Now)), ends: ends,
		access: token.Access{
			Subject: si.Subject, Level: si.Level, AMR: si.AMR, AuthTime: si.AuthTime, SessionID: si.SessionID, Provider: si.Provider,
			References: si.References,
			Sources:    []token.Source{{ClientID: x.id.Audience, Epoch: st.Epochs.Client}},
		},
		grant: &token.Grant{
			SignIn: si, ClientID: x.Client.ID, From: x.id.Audience, CreatedAt: x.Now, ExpiresAt: ends, Confirmation: x.Proved,
		},
	}, nil
}

// allowed returns those of the scopes that a person has allowed a client, if it asks.
func (s *service) allowed(tx storage.Tx, c *client.Client, scopes []string, person string) ([]string, error) {
	if !c.AsksConsent() {
		return scopes, nil
	}
	given, err := consent.Scopes(tx, person, c.ID)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(given, client.ScopeOpenID) { // taken back since
		return nil, refuse(errConsent)
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(name string) bool { return !slices.Contains(given, name) }), nil
}

// ofWorkload: the token of a trusted issuer stands for a client, not for a person.
func (s *service) ofWorkload(tx storage.Tx, x *request) (*subject, error) {
	c := x.workload.Client
	st, ok, err := s.deps.Tokens.CheckStanding(tx, c.ID, "")
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, refuse(errInactive)
	}
	return &subject{
		from: c.ID, scope: s.deps.Clients.StillGiven(c, c.Scopes, nil, x.Now),
		ends: x.workload.Statement.Expires, access: token.Access{
			Sources: []token.Source{{ClientID: c.ID, Epoch: st.Epochs.Client}},
		},
	}, nil
}

// act puts who acts before those who acted already: the holder of the actor's token, or the client. (RFC 8693 4.1)
func (s *service) act(tx storage.Tx, x *request, sub *subject) error {
	actor := token.Actor{Subject: x.Client.ID, ClientID: x.Client.ID}
	if x.actor != "" {
		rec, in, active, err := s.deps.Tokens.FindActive(tx, x.actor, x.Now)
		if err != nil {
			return err
		}
		if !active || rec.ClientID != x.Client.ID || len(rec.Sources) > 0 || in.UsageLimit > 0 {
			return refuse(errActor)
		}
		if !in.Confirmation.MetBy(x.Proved) {
			return refuse(errUnproved)
		}
		if actor.Subject = in.Subject; rec.ExpiresAt.Before(sub.ends) {
			sub.ends = rec.ExpiresAt
		}
		sub.access.Sources = append(sub.access.Sources, token.Source{
			Key: x.actor, ClientID: rec.ClientID, Epoch: rec.Epochs.Client, GrantID: rec.GrantID, Person: rec.Subject,
			PersonEpoch: rec.Epochs.Person,
		})
	}
	have := sub.access.Actors
	switch {
	case len(have) > 0 && have[0] == actor: // it exchanges its own token again
		return nil
	case slices.Contains(have, actor):
		return refuse(errChain)
	case sub.access.Subject == "" && sub.from == x.Client.ID && actor.Subject == x.Client.ID:
		return nil // it acts for itself
	}
	sub.access.Actors = append([]token.Actor{actor}, have...)
	return nil
}
