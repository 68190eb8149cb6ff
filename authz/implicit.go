package authz

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The response types, and the grant that each one takes. (RFC 6749 3.1.1)
const (
	responseCode    = "code"
	responseToken   = "token"
	responseIDToken = "id_token" // OpenID Connect Core 3.2
)

var responseTypes = map[string]string{
	responseCode: client.GrantCode, responseToken: client.GrantImplicit,
	responseIDToken: client.GrantIDToken,
}

// issueImplicit stores an access token that the browser carries to the client. (RFC 6749 4.2.2; token server document,
// "Authorization endpoint") There is no refresh token, even if the client has that grant.
func (s *Server) issueImplicit(ctx context.Context, a *agreement) (url.Values, error) {
	scope := a.rec.Scope
	// Once more: the client can have changed while the request waited for the person.
	if err := s.clients.May(a.client,
		clientstore.Permission{Grant: client.GrantImplicit, Scope: scope, Provider: a.result.Provider, Resources: a.rec.Resources}); err != nil {
		return nil, err
	}
	id, err := s.tokens.NewGrantID(a.now)
	if err != nil {
		return nil, err
	}
	g := token.Grant{
		SignIn: token.NewSignIn(a.result), ClientID: a.client.ID, Scope: scope, Resources: a.rec.Resources, CreatedAt: a.now,
		ExpiresAt: a.now.Add(a.client.Lifetimes.AccessToken), Claims: a.pendingRequest.claims(),
	}
	access, err := s.tokens.DraftGrantAccess(a.client, id, &g, scope, g.Resources, "", token.Confirmation{},
		grant.EventAccessIssued, a.from, a.now)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, func(tx storage.Tx) error {
		st, err := s.settle(tx, a)
		if err != nil {
			return err
		}
		g.Epochs, access.Rec.Epochs = st.Epochs, st.Epochs
		if err := s.tokens.StoreGrant(tx, id, g, a.client.MaxSessions); err != nil {
			return err
		}
		return s.tokens.Issue(tx, access)
	})
	if err != nil {
		return nil, err
	}
	return url.Values{
		"access_token": {access.Token}, "token_type": {token.TypeBearer}, "scope": {strings.Join(scope, " ")},
		"expires_in": {strconv.FormatInt(jsonresponse.Seconds(access.Rec.ExpiresAt.Sub(a.now)), 10)},
	}, nil
}

// issueIDToken answers with an ID token alone, for applications that only sign people in and keep no secret. It has the
// claims of the scopes, since there is no access token that could fetch them. (OpenID Connect Core 3.2, 5.4;
// docs/decisions/authorization.md#id-tokens-by-themselves)
func (s *Server) issueIDToken(ctx context.Context, a *agreement) (url.Values, error) {
	scope := a.client.StillAllowed(a.rec.Scope)
	if err := s.clients.May(a.client,
		clientstore.Permission{Grant: client.GrantIDToken, Scope: scope, Provider: a.result.Provider}); err != nil {
		return nil, err
	}
	e, err := s.deps.Events.New(eventIDTokenIssued, a.from)
	if err != nil {
		return nil, err
	}
	e.PersonID, e.Actor, e.ClientID, e.SessionID = a.result.Subject, a.result.Subject, a.client.ID, a.result.SessionID
	var st token.Standing
	err = s.view(ctx, func(tx storage.Tx) (err error) {
		st, err = s.checkSignedIn(tx, a.client.ID, a.result, a.now)
		return err
	})
	if err != nil {
		return nil, err
	}
	scope = s.clients.Assured(scope, &st.Subject, a.now)
	signIn := token.NewSignIn(a.result)
	id, err := s.tokens.SignIDToken(ctx, token.IDToken{
		Client: a.client, SignIn: signIn, Subject: st.Subject, Nonce: a.rec.Nonce, Scope: scope, Asked: a.pendingRequest.claims(),
	}, a.now)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, func(tx storage.Tx) error {
		if _, err := s.settle(tx, a); err != nil {
			return err
		}
		if err := s.visits.Remember(tx, a.client, &signIn, scope, a.now); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, e)
	})
	return url.Values{"id_token": {id}}, err
}
