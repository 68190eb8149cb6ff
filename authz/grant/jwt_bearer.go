package grant

import (
	"context"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
)

// typeJWTBearer is the grant_type of a workload that shows the token of a trusted issuer. (RFC 7523 2.1)
const typeJWTBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer" //nolint:gosec // a name, no credentials

// ServeIdentity sets what answers a client with credentials that shows an assertion. It must not be called later than
// New's caller.
func (s *Grants) ServeIdentity(answer Answer) { s.identity = answer }

// grantJWTBearer gives a workload a token of its client, which the token of the workload has authenticated. There is no
// refresh token: the workload can show another token.
func (s *Grants) grantJWTBearer(ctx context.Context, q *Request) (jsonresponse.Body, error) {
	if q.Workload == nil && s.identity != nil {
		return s.identity(ctx, q)
	}
	if q.Workload == nil {
		return nil, oauth.InvalidRequest(nil, "the assertion of a workload cannot be combined with other credentials of a client")
	}
	scope, err := s.clients.ScopesFor(q.Client, q.Form, client.GrantJWTBearer)
	if err != nil {
		return nil, err
	}
	asked, err := s.clients.DetailsFor(q.Form)
	if err != nil {
		return nil, err
	}
	i, err := s.issueOwn(ctx, q, ownToken{
		grant: client.GrantJWTBearer, scope: scope, details: asked, resources: q.Client.OwnResources(q.Form.All("resource")),
		lifetime: q.Client.Lifetimes.AccessToken,
		reason:   q.Workload.String(),
	})
	if err != nil {
		return nil, err
	}
	return s.respond(q.Client, i, q.Now), nil
}
