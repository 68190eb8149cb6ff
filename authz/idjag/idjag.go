// Package idjag gives a client an access token for an identity assertion (ID-JAG): a statement of a trusted identity
// provider about the person that the client acts for. Assertions for our own clients are issued by package exchange.
// (draft-ietf-oauth-identity-assertion-authz-grant; docs/decisions/token-endpoint.md#identity-assertions)
package idjag

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/authz/workload"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Profile is the name of the profile in the metadata of servers that take identity assertions.
const Profile = "urn:ietf:params:oauth:grant-profile:id-jag"

// level is the authentication level of a person in an assertion of another server.
const level = 1

var (
	errReplayed = denial.New(denial.AssertionReplayed, "the assertion was used before")
	errPerson   = denial.New(denial.AssertionUntrusted,
		"no person is linked to the identity that the assertion names, or the person is blocked")
	errWeak     = denial.New(denial.SecondFactorNeeded, "an identity assertion is not a second step")
	errUnproved = denial.New(denial.KeyUnproved, "the assertion is bound to a key that the sender has not proved to have")
)

// Subjects reads people inside a transaction.
type Subjects interface {
	// Linked returns the person of an identity at a provider, or storage.ErrNotFound. vouched is as in authn.Result.
	Linked(tx storage.Tx, provider, issuer, subject string) (person string, vouched bool, err error)
	// Needs returns the level that a sign-in of a person needs for a client, including that of a required second step,
	// since no page can ask for one here. asks is the second_factor of the client. A *authn.Refusal means that no sign-in
	// suffices.
	Needs(tx storage.Tx, client, asks, subject string, now time.Time) (level int, err error)
}

// Deps are the dependencies of taking identity assertions. All are required.
type Deps struct {
	Store    storage.Store
	Clients  *clientstore.Registry
	Tokens   *token.Ledger
	Grants   *grant.Grants
	Subjects Subjects
}

// Serve takes identity assertions at the token endpoint.
func Serve(deps Deps) {
	s := &service{deps}
	deps.Grants.ServeIdentity(s.answer)
}

type service struct{ deps Deps }

// answer gives an access token of the person. There is no refresh token: the client can show another assertion, and the
// identity provider decides each time.
func (s *service) answer(ctx context.Context, q *grant.Request) (jsonresponse.Body, error) {
	raw := q.Form.Get("assertion")
	if raw == "" {
		return nil, oauth.InvalidRequest(nil, "assertion is missing")
	}
	if q.Form.Has("authorization_details") {
		return nil, oauth.InvalidDetails(nil, "an identity assertion gives no authorization_details")
	}
	who, err := s.deps.Clients.VerifyIdentity(ctx, q.Client, raw)
	if err != nil {
		return nil, err
	}
	if who.JKT != "" && who.JKT != q.Proved.JKT {
		return nil, refuse(errUnproved)
	}
	scope, err := s.scope(q, who)
	if err != nil {
		return nil, err
	}
	resources := q.Client.OwnResources(q.Form.All("resource"))
	if named := q.Client.OwnResources(who.Resources); len(named) > 0 { // otherwise the issuer leaves the choice to the client
		if resources, err = clientstore.NarrowAudience(q.Client, resources, named); err != nil {
			return nil, err
		}
	}
	if err := s.deps.Clients.May(q.Client, clientstore.Permission{Scope: scope, Provider: who.Provider, Resources: resources}); err != nil {
		return nil, err
	}
	if s.deps.Clients.ScopeLevel(scope) > level {
		return nil, oauth.InvalidScope(nil, "a scope needs a higher authentication level than an identity assertion has")
	}
	in, epoch, err := s.find(ctx, q, who)
	if err != nil {
		return nil, err
	}
	return s.deps.Grants.IssueGrant(ctx, q, &grant.Issuance{
		Grant: token.Grant{SignIn: in, Scope: scope, Resources: resources},
		Epoch: epoch, Whole: true, Alone: true, Reason: "identity assertion of " + who.Issuer,
		Spend: func(tx storage.Tx) error {
			linked, vouched, err := s.deps.Subjects.Linked(tx, who.Provider, who.Issuer, who.Subject)
			if errors.Is(err, storage.ErrNotFound) || err == nil && (linked != in.Subject || vouched != in.Vouched) {
				return refuse(errPerson) // unlinked since
			}
			if err != nil {
				return err
			}
			if err := who.Spend(tx); errors.Is(err, storage.ErrExists) {
				return refuse(errReplayed)
			} else if err != nil {
				return err
			}
			return nil
		},
	})
}

func refuse(cause error) error {
	return oauth.InvalidGrant(cause, "assertion is invalid, expired or was used before")
}

// scope returns the scopes of the token: those asked for, which the assertion and the operator must allow, or all that
// they and the client have in common.
func (s *service) scope(q *grant.Request, who *workload.Identity) ([]string, error) {
	allowed := func(name string) bool {
		return (who.Scope == nil || slices.Contains(who.Scope, name)) && (who.Most == nil || slices.Contains(who.Most, name)) &&
			q.Client.HasScope(name)
	}
	if !q.Form.Has("scope") && who.Scope != nil {
		scope := slices.DeleteFunc(slices.Clone(who.Scope), func(name string) bool { return !allowed(name) })
		if len(scope) == 0 {
			return nil, oauth.InvalidScope(nil, "the client may have none of the scopes of the assertion")
		}
		return scope, nil
	}
	scope, err := s.deps.Clients.ScopesFor(q.Client, q.Form, "")
	if err != nil {
		return nil, err
	}
	if !q.Form.Has("scope") { // the scopes of named sites can be more than is allowed
		own := q.Client.DefaultScopes
		scope = slices.DeleteFunc(scope, func(name string) bool { return !allowed(name) && !slices.Contains(own, name) })
	}
	if slices.ContainsFunc(scope, func(name string) bool { return !allowed(name) }) {
		return nil, oauth.InvalidScope(nil, "scope is more than the assertion, the operator or the client allows")
	}
	return scope, nil
}

// find returns the sign-in that the assertion proves. It finds the person by the linked identity alone, never by an
// e-mail address in the assertion.
func (s *service) find(ctx context.Context, q *grant.Request, who *workload.Identity) (in token.SignIn, epoch int64, err error) {
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		person, vouched, err := s.deps.Subjects.Linked(tx, who.Provider, who.Issuer, who.Subject)
		if errors.Is(err, storage.ErrNotFound) {
			return refuse(errPerson)
		}
		if err != nil {
			return err
		}
		in = token.SignIn{Subject: person, AuthTime: who.AuthTime, Level: level, Provider: who.Provider, Vouched: vouched}
		st, ok, err := s.deps.Tokens.CheckStanding(tx, q.Client.ID, person)
		if err != nil {
			return err
		}
		if !ok {
			return refuse(cmp.Or(st.Refused, errPerson))
		}
		epoch = st.Subject.Epoch
		need, err := s.deps.Subjects.Needs(tx, q.Client.ID, q.Client.SecondFactor, person, q.Now)
		if errors.As(err, new(*authn.Refusal)) {
			return refuse(err)
		}
		if err == nil && need > level {
			err = oauth.InvalidGrant(errWeak, "sign-ins of the person for the client need a second step, which an identity assertion does not have")
		}
		return err
	})
	return in, epoch, oauth.StorageError(err)
}
