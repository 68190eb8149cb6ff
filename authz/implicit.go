package authz

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The response types, and the grant that each one takes. (RFC 6749 3.1.1)
const (
	responseCode  = "code"
	responseToken = "token"
)

var responseTypes = map[string]string{responseCode: client.GrantCode, responseToken: client.GrantImplicit}

// issueImplicit stores an access token that the browser carries to the client. (RFC 6749 4.2.2; token server document,
// "Authorization endpoint") There is no refresh token, even if the client has that grant.
func (s *Server) issueImplicit(ctx context.Context, a *agreement) (url.Values, error) {
	scope := a.rec.Scope
	// Once more: the client can have changed while the request waited for the person.
	if err := s.clients.May(a.client, registry.Permission{Grant: client.GrantImplicit, Scope: scope, Provider: a.result.Provider, Resources: a.rec.Resources}); err != nil {
		return nil, err
	}
	id, err := s.tokens.NewGrantID(a.now)
	if err != nil {
		return nil, err
	}
	g := token.Grant{
		SignIn: token.NewSignIn(a.result), ClientID: a.client.ID, Scope: scope, Resources: a.rec.Resources, CreatedAt: a.now,
		ExpiresAt: a.now.Add(a.client.Lifetimes.AccessToken), Claims: a.claims(),
	}
	access, err := s.tokens.DraftGrantAccess(a.client, id, &g, scope, g.Resources, eventAccessIssued, a.from, a.now)
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
		"expires_in": {strconv.FormatInt(seconds(access.Rec.ExpiresAt.Sub(a.now)), 10)},
	}, nil
}
