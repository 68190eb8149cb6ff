package authz

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/authz/reply"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/refusal"
)

// tokenRequest is a request of the token endpoint, its client authenticated.
type tokenRequest struct {
	client *client.Client
	form   oauth.Form
	from   event.Origin
	now    time.Time // of the whole request
}

// grantHandler returns the answer to a request whose client is allowed the grant.
type grantHandler[B reply.Body] func(*Server, context.Context, *tokenRequest) (B, error)

// tokenGrants is every grant_type that is served, with the grant that the client must have and what answers.
var tokenGrants = map[string]struct {
	grant  string
	answer grantHandler[reply.Body]
}{
	client.GrantCode:              {client.GrantCode, ofPerson((*Server).grantAuthorizationCode)},
	client.GrantRefreshToken:      {client.GrantRefreshToken, ofPerson((*Server).grantRefresh)},
	client.GrantClientCredentials: {client.GrantClientCredentials, ofClient((*Server).grantClientCredentials)},
	client.GrantPassword:          {client.GrantPassword, ofPerson((*Server).grantPassword)},
	typeValidateBearer:            {client.GrantValidateBearer, ofPerson((*Server).validateBearer)},
}

// ofClient is for a grant that concerns the client alone.
func ofClient[B reply.Body](grant grantHandler[B]) grantHandler[reply.Body] {
	return func(s *Server, ctx context.Context, q *tokenRequest) (reply.Body, error) { return grant(s, ctx, q) }
}

// ofPerson is for a grant that concerns a person, so a provider that has gone since must be known.
func ofPerson[B reply.Body](grant grantHandler[B]) grantHandler[reply.Body] {
	return func(s *Server, ctx context.Context, q *tokenRequest) (reply.Body, error) {
		if err := s.clients.RefreshProviders(ctx); err != nil {
			return nil, err
		}
		return grant(s, ctx, q)
	}
}

// grantTypes are the grant types served, for the metadata.
func grantTypes() []string {
	out := make([]string, 0, len(tokenGrants)+1)
	out = append(out, client.GrantImplicit) // of the authorization endpoint
	for name := range tokenGrants {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// handleToken serves POST /oauth/token (RFC 6749 3.2; token server document, "Token endpoint"). The order is: read the
// request once, authenticate the client, check that it is allowed the grant, run the grant. Nothing is answered before
// it is durable.
func (s *Server) handleToken(w http.ResponseWriter, r *http.Request) error {
	f, err := oauth.ParseForm(r)
	if err != nil {
		return err
	}
	r.PostForm = url.Values(f.Values) // as ParseForm leaves it; errorCode reads it
	oauth.Learn(r.Context(), f.Get("client_id"), f.Get("redirect_uri"), f.Get("scope"))
	c, err := s.clients.Authenticate(r, f)
	if err != nil {
		return err
	}
	refusal.Learn(r.Context(), func(a *refusal.Refusal) { a.ClientID = c.ID })
	name := f.Get("grant_type")
	if name == "" {
		return oauth.InvalidRequest(nil, "grant_type is missing")
	}
	served, ok := tokenGrants[name]
	if !ok {
		return oauth.UnsupportedGrantType(nil)
	}
	if err := s.clients.May(c, registry.Permission{Grant: served.grant}); err != nil {
		return err
	}
	answer, err := served.answer(s, r.Context(), &tokenRequest{client: c, form: f, from: s.deps.Origin(r), now: s.now()})
	if err != nil {
		return err
	}
	reply.Write(w, http.StatusOK, answer)
	return nil
}

// respond makes the answer for an access token.
func (s *Server) respond(c *client.Client, i *token.Draft, now time.Time) *reply.Token {
	t := &reply.Token{
		TokenType: token.TypeBearer, AccessToken: i.Token, ExpiresIn: seconds(i.Rec.ExpiresAt.Sub(now)), Scope: strings.Join(i.Rec.Scope, " "),
	}
	if i.Rec.Subject != "" {
		t.ProfileID = s.tokens.ProfileID(c, i.Rec.Subject)
	}
	return t
}

func seconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }

// narrowAudience returns the resources of a token: the requested ones, or all granted ones if none was requested. If
// the authorization named resources, others are refused. (RFC 8707 2.2)
func narrowAudience(asked, granted []string) ([]string, error) {
	if len(asked) == 0 {
		return granted, nil
	}
	if len(granted) > 0 && !client.HasResources(granted, asked) {
		return nil, oauth.InvalidTarget(nil)
	}
	return asked, nil
}
