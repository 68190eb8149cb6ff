package protect

import (
	"errors"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/mcp"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
)

// A site that clients of the Model Context Protocol find. Its metadata are served before anything is asked of a
// request, by every handler in front of sites: what stands for one path can be behind what stands for all.
// (docs/decisions/gateway.md#mcp)

func (p *Protect) readMCP(d *caddyfile.Dispenser) error {
	p.MCP = new(mcp.Options)
	return p.MCP.UnmarshalCaddyfile(d)
}

// resourceServer describes the site as a resource for others.
func (p *Protect) resourceServer() mcp.Site {
	site := mcp.Site{Options: p.MCP, Scopes: p.everyScope(), Origins: p.Sites, Place: p.Place()}
	if p.Introspect != nil {
		site.Issuer = p.Introspect.Issuer
	}
	return site
}

// checkTools refuses a token that lacks a scope of the tools that its request calls. It is asked last: the body of a
// request that is refused anyway is not read.
func (p *Protect) checkTools(g *requestState, who *token.Introspection) *refusal {
	if p.MCP == nil {
		return nil
	}
	needs, err := p.MCP.Needs(g.r)
	if bad := new(mcp.BodyError); errors.As(err, &bad) {
		return &refusal{
			reason: refusals.Malformed, status: bad.Status, code: "invalid_request", text: bad.Error(),
			page: "error.bad_request",
		}
	}
	if err != nil {
		return cannotTell(err)
	}
	if g.needs = needs; hasScopes(who, needs) {
		return nil
	}
	// The challenge names all scopes of the request, so a person is asked once.
	need := policy.Need{}
	if g.decision.Need != nil {
		need = *g.decision.Need
	}
	need.Scopes = slices.Concat(need.Scopes, needs)
	g.decision.Need = &need
	return p.refusalOf(g, scopeMissing)
}

// begins reports whether a client whose credential got this verdict is told to start over.
func begins(v verdict) bool {
	return v == noCredentials || v == inactive || v == elsewhere || v == unnamed
}

func hasScopes(who *token.Introspection, scopes []string) bool {
	return !slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(who.Scope, s) })
}
