package grant

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
)

// typeValidateBearer is the grant_type of the deprecated validation. (token server document, "Custom token validation")
const typeValidateBearer = "urn:service:oauth2:grant_type:validate_bearer" //nolint:gosec // a name, no credentials

// ErrorCode returns the spelling of an error code for this request: an unexpected error of a validation has a code of
// its own. (token server document, "Errors": internal_server_error)
func ErrorCode(r *http.Request, code string) string {
	if code == "server_error" && r.PostForm.Get("grant_type") == typeValidateBearer {
		return "internal_server_error"
	}
	return code
}

var errInvalidAccessToken = errors.New("the access token is unknown, expired, revoked or used up")

// validateBearer tells a resource server what an access token says, and counts it as a use. (token server document,
// "Custom token validation") It is deprecated there in favour of introspection.
func (s *Grants) validateBearer(ctx context.Context, q *Request) (*jsonresponse.Validation, error) {
	text := q.Form.Get("token")
	if text == "" {
		return nil, oauth.InvalidRequest(nil, "token is missing")
	}
	in, err := s.tokens.Introspect(ctx, text)
	if err != nil {
		return nil, err
	}
	in = in.For(token.Confirmation{}) // the answer cannot say that the token is bound to a key
	if len(in.Audience) > 0 && !slices.ContainsFunc(in.Audience, func(a string) bool { return client.HasResource(q.Client.Audiences, a) }) {
		in = &token.Introspection{} // nor its audience
	}
	if stands, err := s.providerStands(ctx, in); err != nil {
		return nil, err
	} else if !stands { // no use
		return nil, &oauth.Error{
			Status: http.StatusForbidden, Code: "Unable to determine identity provider", Cause: clientstore.ErrProvider,
			Description: "the identity provider is disabled, does not exist or is not configured for the client",
		}
	}
	if in.UsageLimit > 0 {
		if in, err = s.tokens.Use(ctx, text); err != nil {
			return nil, err
		}
	}
	if !in.Active {
		return nil, oauth.InvalidGrant(errInvalidAccessToken, "access token is invalid or expired")
	}
	v := &jsonresponse.Validation{
		TokenType: token.TypeBearer, ClientID: in.ClientID, ExpiresIn: jsonresponse.Seconds(in.ExpiresAt.Sub(q.Now)),
		Scope:      strings.Join(in.Scope, " "),
		UsageLimit: in.UsageLimit, UsageCount: in.UsageCount,
	}
	if in.App != nil {
		v.AppIdentifier, v.AppVersion, v.AppPlatform = in.App.Identifier, in.App.Version, in.App.Platform
	}
	if p := in.Person; p != nil {
		v.ReferenceID = s.tokens.SubjectOf(in)
		v.UserAttributes = map[string]string{}
		for name, values := range p.Details {
			v.UserAttributes[name] = strings.Join(values, ",") // the document allows one string per name
		}
	}
	return v, nil
}

// providerStands reports whether the client of a token is still allowed the provider of its sign-in: one that was
// removed, disabled or taken from the client makes a token inactive. (token server document, "Errors", 403;
// docs/decisions/providers.md#providers-that-are-disabled)
func (s *Grants) providerStands(ctx context.Context, in *token.Introspection) (bool, error) {
	if !in.Active || in.Provider == "" {
		return !in.Barred, nil
	}
	if err := s.clients.RefreshProvider(ctx, in.Provider); err != nil {
		return false, err
	}
	return s.clients.May(in.Client, clientstore.Permission{Provider: in.Provider}) == nil, nil
}
