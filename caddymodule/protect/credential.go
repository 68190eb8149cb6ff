package protect

import (
	"context"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// credential lets a request in: a bearer token, or the session cookie of a site.
type credential struct {
	site  *site // nil: a bearer token
	token string
	// second is the second cookie of a session that is bound to a device. (package dbsc)
	second string
	at     string // origin of the site where an app password is used; empty: no such site, or another credential
	// granted says that a grant has let the request in. (docs/decisions/gateway.md#requested-access)
	granted bool
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
		who, err := auth.Introspect(r.Context(), c.token)
		return c.here(who), err
	}
	return c.recheck(r.Context(), auth)
}

// recheck is ask for a request that has already passed.
func (c credential) recheck(ctx context.Context, auth authority) (*token.Introspection, error) {
	if c.site == nil {
		who, err := auth.Recheck(ctx, c.token)
		return c.here(who), err
	}
	if !secret.IsToken(secret.SiteSession, c.token) {
		return &token.Introspection{}, nil
	}
	return auth.SiteSession(ctx, c.site.origin, c.token, c.second)
}

// use is ask for a request that counts as one use.
func (c credential) use(r *http.Request, auth authority, origin func(*http.Request) audit.Origin) (*token.Introspection, error) {
	if c.at == "" {
		return auth.Use(r.Context(), c.token)
	}
	who, err := auth.UseAt(r.Context(), c.token, c.at, origin(r))
	return c.here(who), err
}

// here leaves an app password the one site of its audience where it is used. It has no other right, and none elsewhere.
func (c credential) here(who *token.Introspection) *token.Introspection {
	if who == nil || who.AppPassword == "" {
		return who
	}
	if who.At(c.at) {
		who.Audience = []string{c.at}
	} else {
		who.Audience = nil
	}
	return who
}
