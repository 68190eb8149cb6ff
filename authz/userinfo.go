package authz

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
)

// claimsSupported are the claims of ID tokens and the userinfo endpoint.
func claimsSupported() []string {
	claims := []string{"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "acr", "amr", "azp", "at_hash", "sid"}
	for _, scope := range slices.Sorted(maps.Keys(client.ScopeClaims)) {
		claims = append(claims, client.ScopeClaims[scope]...)
	}
	return claims
}

// userinfoRealm begins each challenge of the endpoint.
const userinfoRealm = `Bearer realm="gatehouse"`

// handleUserinfo serves GET and POST /oauth/userinfo (OpenID Connect Core 5.3; RFC 6750).
func (s *Server) handleUserinfo(w http.ResponseWriter, r *http.Request) error {
	text, byProof, err := sentToken(r)
	if err != nil {
		return err
	}
	in, err := s.tokens.Introspect(r.Context(), text)
	if err != nil {
		return oauth.StorageError(err)
	}
	// RFC 9068 4: the audience must be checked. A token that is for other resources tells no one who its person is.
	if !in.Active || !in.MeantFor(s.cfg.Issuer, s.cfg.Issuer+"/oauth/userinfo") {
		return challenge(byProof, &oauth.Error{
			Status: http.StatusUnauthorized, Code: "invalid_token",
			Description: "the access token is not valid",
		})
	}
	if err := s.proveHolder(w, r, text, byProof, in); err != nil {
		return challenge(byProof, err)
	}
	if in.Person == nil || !slices.Contains(in.Scope, client.ScopeOpenID) {
		return &oauth.Error{
			Status: http.StatusForbidden, Code: "insufficient_scope", Description: "the access token lacks the scope openid",
			Challenge: userinfoRealm + `, error="insufficient_scope", scope="openid"`, // RFC 6750 3.1
		}
	}
	c, err := s.clients.Get(r.Context(), in.ClientID)
	if err != nil {
		return oauth.StorageError(err)
	}
	claims, err := s.userinfo(r.Context(), c, in)
	if err != nil {
		return err
	}
	if c.UserinfoAlg == "" {
		s.json(w, r, http.StatusOK, claims)
		return nil
	}
	signed, err := s.envelopes.Userinfo(r.Context(), s.clients, c, claims) // OpenID Connect Core 5.3.2
	if err != nil {
		return err
	}
	jsonresponse.WriteJWT(w, "application/jwt", signed)
	return nil
}

// sentToken returns the one token of a request: in the header or, with POST, in the form. (RFC 6750 2.1, 2.2) One in
// the query (2.3) is not accepted, since URLs are logged. byProof says that it came by the scheme DPoP.
func sentToken(r *http.Request) (token string, byProof bool, err error) {
	none := &oauth.Error{
		Status: http.StatusUnauthorized, Code: "invalid_token", Description: "an access token is required",
		Challenge: userinfoRealm + ", " + dpop.Challenge(""),
	}
	headers := r.Header.Values("Authorization")
	if len(headers) > 1 {
		return "", false, twoTokens()
	}
	if len(headers) == 1 {
		scheme, rest, _ := strings.Cut(headers[0], " ")
		if byProof = strings.EqualFold(scheme, dpop.Scheme); !byProof && !strings.EqualFold(scheme, "Bearer") {
			return "", false, none
		}
		token = strings.TrimLeft(rest, " ")
	}
	query, err := oauth.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", false, err
	}
	if _, sent := query.Values["access_token"]; sent {
		if token != "" {
			return "", false, twoTokens()
		}
		return "", false, none
	}
	if r.Method == http.MethodPost && r.ContentLength != 0 && r.Header.Get("Content-Type") != "" {
		f, err := oauth.ParseForm(r)
		if err != nil {
			return "", false, err
		}
		if f.Has("access_token") {
			if token != "" {
				return "", false, twoTokens()
			}
			token = f.Get("access_token")
		}
	}
	if token == "" {
		return "", false, none
	}
	return token, byProof, nil
}

// twoTokens: RFC 6750 2: "Clients MUST NOT use more than one method".
func twoTokens() error {
	return &oauth.Error{
		Status: http.StatusBadRequest, Code: "invalid_request", Description: "more than one access token was sent",
		Challenge: userinfoRealm + `, error="invalid_request"`,
	}
}

// userinfo returns the claims of a person that the scopes and the claims parameter give.
func (s *Server) userinfo(ctx context.Context, c *client.Client, in *token.Introspection) (map[string]any, error) {
	claims, err := s.tokens.PersonClaims(ctx, in.Person, append(slices.Clone(in.Claims), client.ClaimsOf(in.Scope)...))
	if err != nil {
		return nil, err
	}
	if err := s.tokens.AddVerified(ctx, claims, in.Verified, c, in.Person, s.now()); err != nil {
		return nil, err
	}
	claims["sub"] = s.tokens.SubjectOf(in) // OpenID Connect Core 5.3.2: that of the ID token
	return claims, nil
}
