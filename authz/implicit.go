package authz

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/storage"
)

// The response types, and the grant that each one takes. (RFC 6749 3.1.1)
const (
	responseCode  = "code"
	responseToken = "token"
)

var responseTypes = map[string]string{responseCode: grantCode, responseToken: grantImplicit}

// issueImplicit stores an access token that the browser carries to the client. (RFC 6749 4.2.2; token server document, "Authorization
// endpoint") There is no refresh token, whatever other grants the client has.
func (s *Server) issueImplicit(ctx context.Context, a *agreement) (url.Values, error) {
	scope := a.rec.Scope
	// Once more: the request may have waited for a person while the client was changed.
	if err := s.clients.may(a.client, ask{Grant: grantImplicit, Scope: scope, Provider: a.result.Provider, Resources: a.rec.Resources}); err != nil {
		return nil, err
	}
	id, err := s.tokens.newGrantID(a.now)
	if err != nil {
		return nil, err
	}
	g := grantRecord{
		signIn: newSignIn(a.result), ClientID: a.client.ID, Scope: scope, Resources: a.rec.Resources, CreatedAt: a.now,
		ExpiresAt: a.now.Add(a.client.Lifetimes.AccessToken), Claims: a.claims(),
	}
	access, err := s.tokens.accessOfGrant(a.client, id, &g, scope, g.Resources, eventAccessIssued, a.from, a.now)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, func(tx storage.Tx) error {
		st, err := s.settle(tx, a)
		if err != nil {
			return err
		}
		g.Epochs, access.rec.Epochs = st.Epochs, st.Epochs
		if err := s.tokens.storeGrant(tx, id, g, a.client.MaxSessions); err != nil {
			return err
		}
		return s.tokens.issueAccess(tx, access)
	})
	if err != nil {
		return nil, err
	}
	return url.Values{
		"access_token": {access.token}, "token_type": {typeBearer}, "scope": {strings.Join(scope, " ")},
		"expires_in": {strconv.FormatInt(seconds(access.rec.ExpiresAt.Sub(a.now)), 10)},
	}, nil
}
