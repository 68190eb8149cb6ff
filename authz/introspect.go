package authz

import (
	"context"

	"github.com/gatehouse-id/gatehouse/authz/apppassword"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Introspect tells what an access token or app password says. See token.Ledger.Introspect.
func (s *Server) Introspect(ctx context.Context, text string) (*token.Introspection, error) {
	if isAppPassword(text) {
		return s.personal.Introspect(ctx, text)
	}
	return s.tokens.Introspect(ctx, text)
}

// Recheck is Introspect for a request that has been let in already. See token.Ledger.Recheck.
func (s *Server) Recheck(ctx context.Context, text string) (*token.Introspection, error) {
	if isAppPassword(text) {
		return s.personal.Recheck(ctx, text)
	}
	return s.tokens.Recheck(ctx, text)
}

// Observe is Recheck, and returns what the answer rests on. See token.Ledger.Observe.
func (s *Server) Observe(ctx context.Context, text string) (*token.Introspection, recheck.Basis, error) {
	if isAppPassword(text) {
		return s.personal.Observe(ctx, text)
	}
	return s.tokens.Observe(ctx, text)
}

// KeysVersion is another one whenever a signing key has come or gone.
func (s *Server) KeysVersion() uint64 { return s.tokens.KeysVersion() }

// Use is Introspect that counts as a use. See token.Ledger.Use. An app password is used by UseAt.
func (s *Server) Use(ctx context.Context, text string) (*token.Introspection, error) {
	return s.tokens.Use(ctx, text)
}

// UseAt is Use of an app password at a site. See apppassword.Passwords.Use.
func (s *Server) UseAt(ctx context.Context, text, site string, from audit.Origin) (*token.Introspection, error) {
	return s.personal.Use(ctx, text, site, from)
}

// AppPasswords are those of all persons.
func (s *Server) AppPasswords() *apppassword.Passwords { return s.personal }

func isAppPassword(text string) bool { return secret.IsToken(secret.AppPassword, text) }

// UpstreamToken returns a token for the upstream of a site. See exchange.Upstream.
func (s *Server) UpstreamToken(ctx context.Context, token, audience, site string, from audit.Origin) (string, error) {
	return s.upstream.Token(ctx, token, audience, site, from)
}
