package caddymodule

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/caddymodule/mcp"
)

// MCP implements protect.App.
func (a *App) MCP() *mcp.Sites { return &a.mcp }

// AddMCP implements protect.App.
func (a *App) AddMCP(site mcp.Site) {
	a.mcp.Add(site, a.issuer.String(), dpop.Algorithms())
	a.mu.Lock()
	a.resourcesAt = append(a.resourcesAt, site.Place)
	a.mu.Unlock()
	if a.tree != nil { // otherwise checkSites looks at it
		a.checkReach(site.Place)
	}
}

// AcceptTokens implements protect.App.
func (a *App) AcceptTokens(sites ...client.Acceptance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.authz.Acceptances = append(a.authz.Acceptances, sites...)
}

// checkReach finds a site whose metadata no request reaches, since its protect stands where only some paths of the site
// get.
func (a *App) checkReach(place string) {
	if place == "" || slices.Contains(a.tree.Whole(), place) {
		return
	}
	a.Found(diagnostic.Finding{
		Severity: diagnostic.Warning, Place: place,
		Reason: "protect: mcp: clients do not find the metadata at /.well-known/oauth-protected-resource: this protect sees some paths of the site only",
		Fix:    "write it outside of `handle` and `route`, with the path as its matcher: `protect /mcp* { mcp }`",
	})
}
