package protect

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
)

// Which bearer tokens a site accepts. What a token must be is for authz/client to say.
// (docs/decisions/gateway.md#bearer-tokens)

const anyTokens = "any"

var checkTokens = caddyfileutil.OneOf(anyTokens)

// meant reports whether a token can be used at the site. That of a server elsewhere names its audiences in ways that
// only the operator knows.
func (p *Protect) meant(who *token.Introspection) bool {
	switch {
	case who.AppPassword != "":
		return p.accepts && len(who.Audience) > 0
	case p.remote != nil && len(p.takes.Audience) == 0:
		return true
	}
	return p.takes.Meant(who.Audience)
}

// names reports whether the site, or what it needs of every caller, names a token that is meant for it.
func (p *Protect) names(need *policy.Need, who *token.Introspection) bool {
	return who.AppPassword != "" || p.takes.Names(who.Audience, who.Stranger) || who.NamedBy(need.Scopes, need.Clients)
}

// acceptances are the ways in which a token opens the site: by what the site says of all requests, and by each rule
// that names scopes or clients.
func (p *Protect) acceptances() []client.Acceptance {
	all := p.takes
	all.Scopes = slices.Concat(p.Scopes, p.Need.Scopes)
	if len(p.Need.Clients) > 0 {
		all.Clients = p.Need.Clients
	}
	out := []client.Acceptance{all}
	for _, rule := range p.fixed.rules.Allow {
		one := all
		one.Scopes = slices.Concat(all.Scopes, rule.Need.Scopes)
		if len(rule.Need.Clients) > 0 {
			one.Clients = rule.Need.Clients
		}
		if len(rule.Need.Scopes)+len(rule.Need.Clients) > 0 {
			out = append(out, one)
		}
	}
	return out
}

// Narrowed returns what decides in place of p for requests that further asks for more: tokens are named by the scopes
// and the audience, too, and a request that further would refuse is refused before it counts.
func (p *Protect) Narrowed(scopes, audience []string, further *Protect) *Protect {
	q := *p
	q.further = further
	q.takes.Scopes = slices.Concat(p.takes.Scopes, scopes)
	if len(p.takes.Audience) == 0 {
		q.takes.Audience = audience
	}
	return &q
}
