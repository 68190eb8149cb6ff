// Package exchange implements token exchange (RFC 8693): a client gets a token with another audience, fewer scopes, or
// the name of the acting party, for one that it was sent. (docs/decisions/token-endpoint.md#token-exchange)
package exchange

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/authz/transaction"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// grantType is the grant_type of an exchange.
const grantType = "urn:ietf:params:oauth:grant-type:token-exchange"

// The types of tokens. (RFC 8693 3)
const (
	typeAccess  = "urn:ietf:params:oauth:token-type:access_token"
	typeRefresh = "urn:ietf:params:oauth:token-type:refresh_token"
	typeID      = "urn:ietf:params:oauth:token-type:id_token"
	typeJWT     = "urn:ietf:params:oauth:token-type:jwt"
)

const (
	maxActors  = 3
	maxSources = 6  // tokens that one came from
	maxTargets = 16 // audiences of a request
	tooMany    = "there are too many audiences or resources"
)

// Subjects reads people and sessions inside a transaction.
type Subjects interface {
	// Session returns a live session, or storage.ErrNotFound when it has ended, has expired or never was.
	Session(tx storage.Tx, id string, now time.Time) (authn.Session, error)
	// Needs returns the level that a sign-in of a person needs for a client, where no page can ask for more: that of the
	// second step, asks being second_factor of the client, and of its organisations. A *authn.Refusal: no sign-in does.
	Needs(tx storage.Tx, client, asks, subject string, now time.Time) (level int, err error)
}

// Deps are the dependencies of exchanges. All are required.
type Deps struct {
	Issuer string
	Keys   *keys.Keys
	// Transactions signs transaction tokens.
	Transactions *transaction.Signer
	Events       *audit.Recorder
	Store        storage.Store
	Clients      *clientstore.Registry
	Tokens       *token.Ledger
	Grants       *grant.Grants
	Subjects     Subjects
}

// Serve adds the grant to those of the token endpoint.
func Serve(deps Deps) {
	s := &service{deps}
	deps.Grants.Serve(grantType, client.GrantTokenExchange, s.exchange)
}

type service struct{ deps Deps }

// request is a request for an exchange whose form was read.
type request struct {
	*grant.Request

	kind     string
	key      string                // of an access or refresh token
	id       token.HintClaims      // of an ID token
	workload *clientstore.Workload // of a token of a trusted issuer
	actor    string                // key of the actor's access token. Empty: the client itself acts
	scope    []string              // asked; empty: all that can be given
	targets  []string              // audiences of the new token
	details  string                // asked; empty: all that can be given
	// assertTo is the issuer that an identity assertion is for. Empty: an access token is wanted.
	assertTo string
	// transaction has the parameters of a request for a transaction token. nil: another kind of token is wanted.
	transaction *transactionRequest
}

// exchange gives a token for another one. (RFC 8693 2) There is no refresh token: the client can exchange again as long
// as the token that it was sent is valid.
func (s *service) exchange(ctx context.Context, q *grant.Request) (jsonresponse.Body, error) {
	if err := s.deps.Clients.RefreshProviders(ctx); err != nil {
		return nil, err
	}
	x, err := s.read(ctx, q)
	if err != nil {
		return nil, err
	}
	var sub *subject
	err = s.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		sub, err = s.judge(tx, x)
		return err
	})
	if err != nil {
		return nil, oauth.StorageError(err)
	}
	if x.assertTo != "" {
		return s.assert(ctx, x, sub)
	}
	if x.transaction != nil {
		return s.transact(ctx, x, sub)
	}
	err = s.deps.Clients.May(q.Client, clientstore.Permission{Grant: client.GrantTokenExchange, From: sub.from, To: x.targets})
	if err != nil { // before scopes, which the client can lack
		return nil, err
	}
	scope, err := s.narrow(x, sub)
	if err != nil {
		return nil, err
	}
	details, err := s.deps.Clients.NarrowDetails(x.details, s.deps.Clients.StillDetailed(q.Client, sub.details))
	if err != nil {
		return nil, err
	}
	if len(scope) == 0 && details == "" {
		return nil, oauth.InvalidScope(nil, "the client may have none of the scopes of the token")
	}
	err = s.deps.Clients.May(q.Client, clientstore.Permission{
		Grant: client.GrantTokenExchange, Scope: scope, Details: details, Provider: sub.access.Provider,
	})
	if err != nil {
		return nil, err
	}
	rec := sub.access
	if sub.grant != nil {
		if rec.GrantID, err = s.deps.Tokens.NewGrantID(q.Now); err != nil {
			return nil, err
		}
		sub.grant.Scope, sub.grant.Resources, sub.grant.AuthorizationDetails = scope, x.targets, details
	}
	rec.ClientID, rec.Scope, rec.Audience, rec.CreatedAt, rec.ExpiresAt, rec.Confirmation = q.Client.ID, scope, x.targets, q.Now,
		q.Now.Add(q.Client.Lifetimes.AccessToken), q.Proved
	rec.AuthorizationDetails = details
	if sub.ends.Before(rec.ExpiresAt) {
		rec.ExpiresAt = sub.ends
	}
	draft, err := s.deps.Tokens.DraftAccess(q.Client, rec, eventExchanged, q.From)
	if err != nil {
		return nil, err
	}
	draft.Explain(q.Client.ID, explain(sub, x))
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		again, err := s.judge(tx, x)
		if err != nil {
			return err
		}
		if again.access.Epochs != rec.Epochs {
			return refuse(errInactive)
		}
		if err := q.Spend(tx); err != nil {
			return err
		}
		if sub.grant != nil {
			if err := s.deps.Tokens.StoreGrant(tx, rec.GrantID, *sub.grant, q.Client.MaxSessions); err != nil {
				return err
			}
		}
		return s.deps.Tokens.Issue(tx, draft)
	})
	if err != nil {
		return nil, oauth.StorageError(err)
	}
	return &jsonresponse.Token{
		TokenType: rec.Confirmation.TokenType(), AccessToken: draft.Token, IssuedType: typeAccess,
		ExpiresIn: jsonresponse.Seconds(rec.ExpiresAt.Sub(q.Now)), Scope: strings.Join(scope, " "),
		AuthorizationDetails: jsonresponse.Written(details),
	}, nil
}

// explain names both clients for the event.
func explain(sub *subject, x *request) string {
	text := "a token of client " + sub.from + " for " + strings.Join(x.targets, " ")
	if len(sub.access.Actors) > 0 && sub.access.Actors[0].Subject != x.Client.ID {
		text += ", on behalf of " + sub.access.Actors[0].Subject
	}
	return text
}

// read reads the form and verifies what is signed. (RFC 8693 2.1)
func (s *service) read(ctx context.Context, q *grant.Request) (*request, error) {
	f := q.Form
	x := &request{Request: q, kind: f.Get("subject_token_type")}
	raw := f.Get("subject_token")
	if raw == "" || x.kind == "" {
		return nil, oauth.InvalidRequest(nil, "subject_token or subject_token_type is missing")
	}
	switch f.Get("requested_token_type") {
	case "", typeAccess:
	case typeJWT:
		if q.Client.TokenFormat != client.FormatJWT {
			return nil, oauth.InvalidRequest(nil, "requested_token_type is not supported")
		}
	case TypeIDJAG:
		if err := x.readAssertion(); err != nil {
			return nil, err
		}
		return x, s.readSubject(ctx, x, raw)
	case TypeTransaction:
		if err := x.readTransaction(); err != nil {
			return nil, err
		}
		return x, s.readSubject(ctx, x, raw)
	default:
		return nil, oauth.InvalidRequest(nil, "requested_token_type is not supported")
	}
	asked := slices.Concat(f.All("audience"), f.All("resource"))
	if x.targets = q.Client.ExchangeTargets(asked); len(x.targets) == 0 {
		return nil, oauth.InvalidRequest(nil, "audience or resource is missing")
	}
	if len(x.targets) > maxTargets {
		return nil, oauth.InvalidTarget(nil, tooMany)
	}
	var err error
	if x.scope, err = client.ParseScope(f.Get("scope")); err != nil {
		return nil, oauth.InvalidScope(err, "scope is malformed")
	}
	if x.details, err = s.deps.Clients.DetailsFor(f); err != nil {
		return nil, err
	}
	if err := s.readActor(x); err != nil {
		return nil, err
	}
	return x, s.readSubject(ctx, x, raw)
}

// readSubject reads the token that is exchanged.
func (s *service) readSubject(ctx context.Context, x *request, raw string) (err error) {
	good := true
	switch x.kind {
	case typeAccess:
		x.key, good = s.deps.Tokens.AccessKey(raw)
	case typeRefresh:
		good = secret.IsToken(secret.RefreshToken, raw)
		x.key = secret.Hash(raw)
	case TypeTransaction:
		if x.transaction == nil { // it opens nothing but the next step of its transaction
			return oauth.InvalidRequest(nil, "a transaction token is exchanged for another one alone")
		}
		x.transaction.replaces, err = s.deps.Transactions.Read(raw)
		good = err == nil
	case typeID:
		x.id, err = s.deps.Tokens.ReadIDToken(raw)
		good = err == nil && x.id.Session != ""
	case typeJWT:
		if !s.deps.Clients.TrustsIssuers() {
			return refuse(errIssuer)
		}
		if x.workload, err = s.deps.Clients.VerifyWorkload(ctx, raw); err != nil {
			return refuse(err)
		}
	default:
		return oauth.InvalidRequest(nil, "subject_token_type is not supported")
	}
	if !good {
		return refuse(errInactive)
	}
	return nil
}

// readActor reads the actor's token, which is an access token of the client.
func (s *service) readActor(x *request) error {
	raw, kind := x.Form.Get("actor_token"), x.Form.Get("actor_token_type")
	if raw == "" && kind == "" {
		return nil
	}
	if raw == "" || kind != typeAccess { // RFC 8693 2.1: both or none
		return oauth.InvalidRequest(nil, "actor_token and actor_token_type must be those of an access token")
	}
	key, good := s.deps.Tokens.AccessKey(raw)
	if !good {
		return refuse(errActor)
	}
	x.actor = key
	return nil
}

// narrow returns the scopes of the new token: never more than those of the token that is exchanged and of the client.
func (s *service) narrow(x *request, sub *subject) ([]string, error) {
	scope := x.scope
	if len(scope) == 0 {
		scope = slices.DeleteFunc(slices.Clone(sub.scope),
			func(name string) bool { return name == client.ScopeOffline || !x.Client.HasScope(name) })
	}
	switch {
	case len(scope) == 0 && sub.details != "":
		return nil, nil
	case len(scope) == 0:
		return nil, oauth.InvalidScope(nil, "the client may have none of the scopes of the token")
	case !client.IsSubset(scope, sub.scope):
		return nil, oauth.InvalidScope(nil, "scope is more than the token has")
	case s.deps.Clients.ScopeLevel(scope) > sub.access.Level:
		return nil, oauth.InvalidScope(nil, "a scope needs a higher authentication level than the token has")
	}
	return scope, nil
}
