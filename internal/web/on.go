package web

import (
	"maps"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
)

// AccountURL is the address of the account pages, for links on pages of other origins.
func (p *Renderer) AccountURL() string { return p.cfg.Issuer + "/account" }

// On returns a renderer for pages on another origin than the issuer's, such as a site that protect guards. prefix is
// the path below which that origin serves Assets and ShowLanguage. The requests of the pages must be as browsers send
// them.
func (p *Renderer) On(origin, prefix string) *Renderer {
	q := *p
	q.person = nil // the session is the issuer's
	if u, err := url.Parse(origin); err == nil && u.Host != "" {
		q.origin, q.host, q.jar = strings.ToLower(origin), u.Host, cookie.For(origin)
	}
	// The address of such a page may hold a one-time code, which requests for its assets would carry into logs. The
	// page has no form that would need an Origin header.
	q.referrer = "no-referrer"
	q.elsewhere, q.prefix = true, prefix
	a := *p.assets
	a.files = maps.Clone(p.assets.files)
	for _, path := range []*string{&a.css, &a.font, &a.icon, &a.touch, &a.logo} {
		if *path != "" {
			*path = prefix + *path
		}
	}
	a.scripts = make(map[string]string, len(p.assets.scripts))
	for name, path := range p.assets.scripts {
		a.scripts[name] = prefix + path
	}
	q.assets = &a
	return &q
}
