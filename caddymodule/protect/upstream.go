package protect

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// failed handles an error of the handlers behind protect. If the upstream cannot be reached, there is a line in the
// log, and a person gets a page, unless the site has an error page of its own.
// (docs/decisions/gateway.md#upstream-errors)
func (g *requestState) failed(err error) error {
	p, r := g.protect, g.r
	// Error routes begin with the request as it is now. What was meant for the upstream is not for an error page, which
	// another server may write.
	p.guarded.DeleteFrom(r.Header)
	delete(r.Header, "Authorization")

	cause := caddyhttp.HandlerError{}
	if !errors.As(err, &cause) {
		return err
	}
	switch cause.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return err
	}
	ref := refusals.NewRef(p.random)
	p.log.Error("upstream not reached", zap.Int("status", cause.StatusCode), zap.String("site", r.Host), zap.String("method", r.Method),
		zap.String("path", original(r).Path),
		zap.String("ref", ref), zap.Error(cause.Err))
	if g.wrote || !p.Login || !isNavigation(r) || hasErrorRoute(r) {
		return err
	}
	site := p.siteOf(r)
	in, unready := p.enter(r.Context())
	if unready != nil || site == nil {
		return err
	}
	defer in.Leave()
	p.pages(in, site).Fail(g.ResponseWriter, asSent(r), cause.StatusCode, web.Failure{
		Key: "error.upstream", Again: requestURI(r), AgainLabel: "error.upstream.again", Ref: ref,
	})
	return nil
}

// hasErrorRoute reports whether the server has error routes for a request: handle_errors in the Caddyfile.
func hasErrorRoute(r *http.Request) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server.Errors == nil {
		return false
	}
	for _, route := range server.Errors.Routes {
		if match, err := route.MatcherSets.AnyMatchWithError(r); match || err != nil {
			return true
		}
	}
	return false
}

// sharedCacheFields are read by caches between here and the browser in place of Cache-Control. (RFC 9213)
var sharedCacheFields = []string{"Cdn-Cache-Control", "Surrogate-Control"}

// keepPrivate keeps an answer for one person out of caches that others are served from. RFC 9111 3.5 keeps only those
// to requests with Authorization out of them, and a session comes in a cookie.
func keepPrivate(h http.Header) {
	for _, name := range sharedCacheFields {
		delete(h, name)
	}
	var kept []string
	for directive := range strings.SplitSeq(strings.Join(h["Cache-Control"], ","), ",") {
		directive = strings.TrimSpace(directive)
		name, _, qualified := strings.Cut(strings.ToLower(directive), "=")
		switch strings.TrimSpace(name) {
		case "no-store":
			return
		case "private":
			if !qualified { // private="field" is about one field alone
				return
			}
		case "public", "s-maxage", "":
			continue
		}
		kept = append(kept, directive)
	}
	h["Cache-Control"] = []string{strings.Join(append([]string{"private"}, kept...), ", ")}
}
