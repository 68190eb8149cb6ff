package authz

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/event"
)

// tokenRequest is a request of the token endpoint, its client authenticated.
type tokenRequest struct {
	client *Client
	form   form
	from   event.Origin
	now    time.Time // of the whole request
}

// tokenResponse is the answer. (RFC 6749 5.1; token server document, "Token response")
type tokenResponse struct {
	TokenType    string `json:"token_type"`
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token,omitempty"`
	ExpiresIn    int64  `json:"expires_in"` // seconds
	Scope        string `json:"scope,omitempty"`
	IDToken      string `json:"id_token,omitempty"`
	ProfileID    string `json:"profile_id,omitempty"`
}

// profileStatic is the profile_id of a web client. (docs/decisions.md, "profile_id") A client's own token is of no profile.
const profileStatic = "static"

// grantHandler returns the answer to a request whose client may use the grant.
type grantHandler[T any] func(*Server, context.Context, *tokenRequest) (*T, error)

// tokenGrants is every grant_type that is served, with the grant that the client must have and what answers.
var tokenGrants = map[string]struct {
	grant  string
	answer func(*Server, context.Context, *tokenRequest) (any, error)
}{
	grantCode:              {grantCode, ofPerson((*Server).grantAuthorizationCode)},
	grantRefreshToken:      {grantRefreshToken, ofPerson((*Server).grantRefresh)},
	grantClientCredentials: {grantClientCredentials, ofClient((*Server).grantClientCredentials)},
	grantPassword:          {grantPassword, ofPerson((*Server).grantPassword)},
	typeValidateBearer:     {grantValidateBearer, ofPerson((*Server).validateBearer)},
}

// ofClient is for a grant that concerns the client alone.
func ofClient[T any](grant grantHandler[T]) func(*Server, context.Context, *tokenRequest) (any, error) {
	return func(s *Server, ctx context.Context, q *tokenRequest) (any, error) { return grant(s, ctx, q) }
}

// ofPerson is for a grant that concerns a person, so a provider that has gone since must be known.
func ofPerson[T any](grant grantHandler[T]) func(*Server, context.Context, *tokenRequest) (any, error) {
	return func(s *Server, ctx context.Context, q *tokenRequest) (any, error) {
		if err := s.clients.refreshProviders(ctx); err != nil {
			return nil, err
		}
		return grant(s, ctx, q)
	}
}

// grantTypes are the grant types served, for the metadata.
func grantTypes() []string {
	out := make([]string, 0, len(tokenGrants)+1)
	out = append(out, grantImplicit) // of the authorization endpoint
	for name := range tokenGrants {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// handleToken serves POST /oauth/token (RFC 6749 3.2; token server document, "Token endpoint"). The order is: one reading of the
// request, who is it, may it use this grant, the grant. Nothing is answered before it is durable.
func (s *Server) handleToken(w http.ResponseWriter, r *http.Request) error {
	f, err := parseForm(r)
	if err != nil {
		return err
	}
	r.PostForm = url.Values(f.values) // as ParseForm leaves it; errorCode reads it
	c, err := s.clients.authenticateClient(r, f)
	if err != nil {
		return err
	}
	name := f.get("grant_type")
	if name == "" {
		return invalidRequest(nil, "grant_type is missing")
	}
	served, ok := tokenGrants[name]
	if !ok {
		return unsupportedGrantType(nil)
	}
	if err := s.clients.may(c, ask{Grant: served.grant}); err != nil {
		return err
	}
	answer, err := served.answer(s, r.Context(), &tokenRequest{client: c, form: f, from: s.deps.Origin(r), now: s.now()})
	if err != nil {
		return err
	}
	s.json(w, r, http.StatusOK, answer)
	return nil
}

// respond makes the answer that gives an access token.
func (s *Server) respond(c *Client, i *issue, now time.Time) *tokenResponse {
	t := &tokenResponse{
		TokenType: typeBearer, AccessToken: i.token, ExpiresIn: seconds(i.rec.ExpiresAt.Sub(now)), Scope: strings.Join(i.rec.Scope, " "),
	}
	if i.rec.Subject != "" {
		t.ProfileID = s.tokens.profileID(c, i.rec.Subject)
	}
	return t
}

func seconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }

// audience returns the resources of a token: those asked for, which must be among those that the authorization named, if it named
// any; none asked: all of them. (RFC 8707 2.2)
func audience(asked, granted []string) ([]string, error) {
	if len(asked) == 0 {
		return granted, nil
	}
	if len(granted) > 0 && !isSubset(asked, granted) {
		return nil, invalidTarget(nil)
	}
	slices.Sort(asked)
	return slices.Compact(asked), nil
}
