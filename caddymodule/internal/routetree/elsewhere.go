package routetree

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// elsewhere is a matcher that never matches. It refuses requests for hosts of which the server has no site. Caddy
// answers those with an empty 200, and a gateway that asks the issuer under a wrong name would take that for consent.
// (docs/decisions/cookies.md#issuer-address)
type elsewhere struct{ server *caddyhttp.Server }

var errElsewhere = errors.New("no site of this server has this host")

// RefuseOtherHosts makes the HTTP server that is being provisioned answer 421 to every host that none of its routes
// takes. Matchers of a server are provisioned before its handlers, so the last route, which is where a request without
// a site arrives, can be given one more.
func RefuseOtherHosts(ctx caddy.Context) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || len(server.Routes) == 0 {
		return
	}
	last := &server.Routes[len(server.Routes)-1]
	if len(last.MatcherSets) == 0 {
		return // it takes every request
	}
	if _, there := last.MatcherSets[0][0].(elsewhere); !there {
		last.MatcherSets = append(caddyhttp.MatcherSets{{elsewhere{server}}}, last.MatcherSets...)
	}
}

// Bystander implements Bystander.
func (elsewhere) Bystander() {}

// MatchWithError implements caddyhttp.RequestMatcherWithError.
func (e elsewhere) MatchWithError(r *http.Request) (bool, error) {
	for _, route := range e.server.Routes {
		if len(route.MatcherSets) == 0 {
			return false, nil
		}
		for _, set := range route.MatcherSets {
			if takes(set, r) {
				return false, nil
			}
		}
	}
	return false, caddyhttp.Error(http.StatusMisdirectedRequest, errElsewhere)
}

// takes reports whether a set of matchers names the host of a request or, if it names none, matches the request.
func takes(set caddyhttp.MatcherSet, r *http.Request) bool {
	for _, m := range set {
		switch m := m.(type) {
		case elsewhere:
			return false
		case *caddyhttp.MatchHost:
			return m.Match(r)
		}
	}
	match, err := set.MatchWithError(r)
	return match || err != nil
}

var (
	_ caddyhttp.RequestMatcherWithError = elsewhere{}
	_ Bystander                         = elsewhere{}
)
