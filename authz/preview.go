package authz

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Preview are the data of a person that a client would get by the authorization code flow.
type Preview struct {
	// Scope are the scopes that would be granted, Refused those that the client is not allowed.
	Scope, Refused []string
	// IDToken and Userinfo are the claims. nil: the client gets none, as without the scope openid.
	IDToken, Userinfo map[string]any
	// Asks says that the person is asked for consent at the first sign-in at least.
	Asks bool
	// Level is the level of a sign-in that the scopes need. 0: any
	Level int
	// Assurance is the identity assurance level that the scopes need. 0: any
	Assurance int
}

// previewedToken stands for the access token that would come with the ID token.
const previewedToken = "preview"

// Preview returns what a client would learn of a person who signs in there now at a level, with these scopes, or all of
// its own. Nothing is issued, and nothing is written.
func (s *Server) Preview(ctx context.Context, c *client.Client, person string, scope []string, level int) (p Preview, err error) {
	if len(scope) == 0 {
		scope = c.Scopes
	}
	for _, name := range scope {
		if c.HasScope(name) {
			p.Scope = append(p.Scope, name)
		} else {
			p.Refused = append(p.Refused, name)
		}
	}
	p.Asks, p.Level, p.Assurance = c.AsksConsent(), s.clients.ScopeLevel(p.Scope), s.clients.ScopeAssurance(p.Scope)
	if !slices.Contains(p.Scope, client.ScopeOpenID) {
		return p, nil
	}
	var subject authn.Subject
	if err := s.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		subject, err = s.deps.Subjects.Get(tx, person)
		return err
	}); err != nil {
		return p, err
	}
	now := s.now()
	raw, err := s.tokens.PreviewIDToken(ctx, token.IDToken{
		Client: c, Subject: subject, Scope: p.Scope, Access: previewedToken,
		SignIn: token.SignIn{Subject: person, AuthTime: now, Level: max(level, p.Level, 1)},
	}, now)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(raw, &p.IDToken); err != nil {
		return p, fmt.Errorf("authz: preview: %w", err)
	}
	for _, name := range []string{"at_hash", "iat", "exp", "auth_time"} { // of each sign-in
		delete(p.IDToken, name)
	}
	if p.Userinfo, err = s.tokens.PersonClaims(ctx, &subject, client.ClaimsOf(p.Scope)); err == nil {
		p.Userinfo["sub"] = s.tokens.SubjectFor(c, person)
	}
	return p, err
}
