package protect

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
)

// The matcher of the directive decides which requests are guarded. It is part of the handler, and not of a route around
// it, since every other request of the site needs the handler too: what goes upstream unguarded must not carry identity
// headers that the client made up, nor the cookies of the sessions here.
// (docs/decisions/gateway.md#matchers-of-protect)

// loadMatchers prepares the matchers of the handler.
func (p *Protect) loadMatchers(ctx caddy.Context) error {
	if len(p.Match) == 0 {
		return nil
	}
	for _, set := range p.Match {
		if err := policy.CheckMatch(set); err != nil {
			return fmt.Errorf("protect: matcher: %w: nothing would be guarded", err)
		}
	}
	p.parts = policy.PartsOfAll(p.Match) // LoadModule empties the field
	p.open = p.parts.Path
	found, err := ctx.LoadModule(p, "Match")
	if err != nil {
		return fmt.Errorf("protect: matcher: %w", err)
	}
	if err := p.matchers.FromInterface(found); err != nil {
		return fmt.Errorf("protect: matcher: %w", err)
	}
	return nil
}

// guards reports whether the matcher of the directive, if it has one, selects a request.
func (p *Protect) guards(r *http.Request) (bool, error) {
	if len(p.matchers) == 0 {
		return true, nil
	}
	return p.matchers.AnyMatchWithError(asUpstream(r))
}

// isPreflight reports whether a browser asks, on behalf of a script of another origin, whether the script can call this
// site. Such a request carries no credentials and only says what the script wants to send. (Fetch Standard,
// "CORS-preflight fetch"; docs/decisions/gateway.md#preflights)
func isPreflight(r *http.Request) bool {
	if r.Method != http.MethodOptions || len(r.Header["Origin"]) != 1 || len(r.Header["Access-Control-Request-Method"]) != 1 {
		return false
	}
	if r.ContentLength != 0 || len(r.TransferEncoding) > 0 || len(r.Header["Authorization"]) > 0 {
		return false
	}
	return plainMethod(r)
}
