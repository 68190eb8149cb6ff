package protect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
)

// The matcher of the directive decides which requests are guarded. It is part of the handler, and not of a route around
// it, since every other request of the site needs the handler too: what goes upstream unguarded must not carry identity
// headers that the client made up, nor the cookies of the sessions here. (docs/decisions.md#matchers-of-protect)

// loadMatchers prepares the matchers of the handler.
func (p *Protect) loadMatchers(ctx caddy.Context) error {
	if len(p.Match) == 0 {
		return nil
	}
	p.byPath = slices.ContainsFunc(p.Match, asksForPath) // LoadModule empties the field
	found, err := ctx.LoadModule(p, "Match")
	if err != nil {
		return fmt.Errorf("protect: matcher: %w", err)
	}
	if err := p.matchers.FromInterface(found); err != nil {
		return fmt.Errorf("protect: matcher: %w", err)
	}
	return nil
}

// pathless are the matchers of Caddy whose answer does not depend on the path.
var pathless = []string{"client_ip", "header", "header_regexp", "host", "method", "protocol", "query", "remote_ip", "tls"}

// asksForPath tells whether a set of matchers can depend on the path. A matcher that is unknown here can.
func asksForPath(set caddy.ModuleMap) bool {
	for name, raw := range set {
		switch {
		case slices.Contains(pathless, name):
		case name == "not":
			var inner []caddy.ModuleMap
			if json.Unmarshal(raw, &inner) != nil || slices.ContainsFunc(inner, asksForPath) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// guards tells whether the matcher of the directive, if it has one, selects a request.
func (p *Protect) guards(r *http.Request) (bool, error) {
	if len(p.matchers) == 0 {
		return true, nil
	}
	return p.matchers.AnyMatchWithError(r)
}

// isPreflight tells whether a browser asks, on behalf of a script of another origin, whether the script can call this
// site. Such a request carries no credentials and only says what the script wants to send.
// (Fetch Standard, "CORS-preflight fetch"; docs/decisions.md#preflights)
func isPreflight(r *http.Request) bool {
	if r.Method != http.MethodOptions || len(r.Header["Origin"]) != 1 || len(r.Header["Access-Control-Request-Method"]) != 1 {
		return false
	}
	if r.ContentLength != 0 || len(r.TransferEncoding) > 0 || len(r.Header["Authorization"]) > 0 {
		return false
	}
	// Some frameworks take another method than the request's from these.
	return !slices.ContainsFunc([]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}, func(h string) bool { return len(r.Header[h]) > 0 })
}
