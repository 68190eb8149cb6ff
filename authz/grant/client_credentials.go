package grant

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/storage"
)

// grantClientCredentials gives a client a token of its own. (RFC 6749 4.4) There is no refresh token: the client can
// ask again.
func (s *Grants) grantClientCredentials(ctx context.Context, q *Request) (*jsonresponse.Token, error) {
	scope, err := s.clients.ScopesFor(q.Client, q.Form, client.GrantClientCredentials)
	if err != nil {
		return nil, err
	}
	asked, err := s.clients.DetailsFor(q.Form)
	if err != nil {
		return nil, err
	}
	i, err := s.issueOwn(ctx, q, ownToken{
		grant: client.GrantClientCredentials, scope: scope, details: asked, resources: q.Client.OwnResources(q.Form.All("resource")),
		lifetime: q.Client.Lifetimes.AccessToken,
	})
	if err != nil {
		return nil, err
	}
	return s.respond(q.Client, i, q.Now), nil
}

// IssueOwn stores an access token of the client itself.
func (s *Grants) IssueOwn(ctx context.Context, q *Request, scope, resources []string, lifetime time.Duration) (*token.Draft, error) {
	return s.issueOwn(ctx, q, ownToken{grant: client.GrantClientCredentials, scope: scope, resources: resources, lifetime: lifetime})
}

// ownToken is an access token of a client itself that is to be made.
type ownToken struct {
	grant            string
	scope, resources []string
	details          string
	lifetime         time.Duration
	reason           string // for its event
}

func (s *Grants) issueOwn(ctx context.Context, q *Request, t ownToken) (*token.Draft, error) {
	c := q.Client
	if err := s.clients.May(c, clientstore.Permission{
		Grant: t.grant, Scope: t.scope, Resources: t.resources,
		Details: t.details,
	}); err != nil {
		return nil, err
	}
	i, err := s.tokens.DraftAccess(c, token.Access{
		ClientID: c.ID, Scope: t.scope, Audience: t.resources, CreatedAt: q.Now, ExpiresAt: q.Now.Add(t.lifetime), Confirmation: q.Proved,
		AuthorizationDetails: t.details,
	}, EventAccessIssued, q.From)
	if err != nil {
		return nil, err
	}
	i.Explain("", t.reason)
	alive := false
	err = s.update(ctx, func(tx storage.Tx) error {
		st, ok, err := s.tokens.CheckStanding(tx, c.ID, "")
		if alive = ok; err != nil || !ok {
			return err
		}
		if err := q.Spend(tx); err != nil {
			return err
		}
		i.Rec.Epochs = st.Epochs
		return s.tokens.Issue(tx, i)
	})
	if err != nil {
		return nil, err
	}
	if !alive {
		return nil, oauth.InvalidClient(errClientGone)
	}
	return i, nil
}

var errClientGone = errors.New("the client has been removed since it was authenticated")
