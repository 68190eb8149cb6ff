package protect

import (
	"context"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// credential lets a request in: a bearer token, or the session cookie of a site.
type credential struct {
	site  *site // nil: a bearer token
	token string
}

// String keeps the token out of logs that print the variables of a request.
func (credential) String() string { return "[redacted]" }

// usedVar holds the credential that a protect has counted a use of for this request.
const usedVar = "gatehouse.used"

func (c credential) used(r *http.Request) bool {
	counted, _ := caddyhttp.GetVar(r.Context(), usedVar).(credential)
	return counted == c
}

// ask looks the credential of a request up. An unknown, expired, revoked or used-up one is inactive; an error means
// that the lookup failed.
func (c credential) ask(r *http.Request, auth authority) (*token.Introspection, error) {
	if c.site == nil && !c.used(r) {
		return auth.Introspect(r.Context(), c.token)
	}
	return c.recheck(r.Context(), auth)
}

// recheck is ask for a request that has already passed.
func (c credential) recheck(ctx context.Context, auth authority) (*token.Introspection, error) {
	if c.site == nil {
		return auth.Recheck(ctx, c.token)
	}
	if !secret.IsToken(secret.SiteSession, c.token) {
		return &token.Introspection{}, nil
	}
	return auth.SiteSession(ctx, c.site.origin, c.token)
}
