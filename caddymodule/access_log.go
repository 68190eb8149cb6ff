package caddymodule

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/device"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
)

// secretParams are the query parameters whose values give access, or identify a person. A signed response has a code or
// an ID token inside, and a signed request an ID token hint. Some belong in a body, and come in a query by mistake.
var secretParams = []string{
	"code", authz.SiteCodeParam, "response", "request", "id_token_hint", "id_token", "access_token", "refresh_token", "token",
	actiontoken.TicketParam, device.UserCodeParam, "device_code", "client_secret", "client_assertion", "assertion",
	"subject_token", "actor_token", "logout_token", "password", "code_verifier",
	"SAMLRequest", "SAMLResponse", "SAMLart",
}

// keepFromAccessLog leaves a request out of Caddy's access log when its address, that of the page it came from or the
// Location of its answer holds a secret: that log writes all three as they are. A line without it takes its place, so
// a client cannot hide a request by adding such a parameter. (docs/decisions/gateway.md#access-logs)
func (h *Handler) keepFromAccessLog(w *statusWriter, r *http.Request) {
	if !hasSecret(r.URL.RawQuery) && !forwardauth.HasSecret(r) && !slices.ContainsFunc(r.Header["Referer"], addressHasSecret) &&
		!addressHasSecret(w.Header().Get("Location")) {
		return
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	h.log.Info("handled request, kept out of the access log", zap.String("method", r.Method), zap.String("host", r.Host),
		zap.String("path", r.URL.Path),
		zap.Int("status", w.status), zap.String("client_ip", h.app.Origin(r).ClientIP))
}

func addressHasSecret(address string) bool {
	if address == "" {
		return false
	}
	u, err := url.Parse(address)
	return err != nil || hasSecret(u.RawQuery) || hasSecret(u.Fragment)
}

// hasSecret reports whether a query names a secret parameter. A query that cannot be parsed counts as secret.
func hasSecret(rawQuery string) bool {
	if rawQuery == "" {
		return false
	}
	q, err := url.ParseQuery(rawQuery)
	if err != nil {
		return true
	}
	for _, name := range secretParams {
		if q.Has(name) {
			return true
		}
	}
	return false
}
