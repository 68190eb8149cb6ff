package protect

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/mcp"
)

// A site that clients of the Model Context Protocol find. Its metadata are served before anything is asked of a
// request, by every handler in front of sites: what stands for one path can be behind what stands for all.
// (docs/decisions.md#mcp)

func (p *Protect) readMCP(d *caddyfile.Dispenser) error {
	p.MCP = new(mcp.Options)
	return p.MCP.UnmarshalCaddyfile(d)
}

// resourceServer is what others learn of the site.
func (p *Protect) resourceServer() mcp.Site {
	site := mcp.Site{Options: p.MCP, Scopes: p.everyScope(), Origins: p.Sites, Place: p.Place()}
	if p.Introspect != nil {
		site.Issuer = p.Introspect.Issuer
	}
	return site
}
