package caddymodule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/routetree"
)

// checkProxies looks at the proxies that are believed, and at those that can ask.
func (a *App) checkProxies(app *caddyhttp.App) {
	found := func(place, reason, fix, about string) {
		a.Found(diagnostic.Finding{Severity: diagnostic.Warning, Place: place, Reason: reason, Fix: fix, About: about})
	}
	if routetree.TrustsStrangers(app) {
		found("", "servers: trusted_proxies takes strangers for proxies, who then choose the address that rules, limits and events see",
			"name the networks of the proxies alone, such as `trusted_proxies static 10.0.0.0/8`", "")
	}
	gates := a.ForwardAuth
	asks := len(gates.From) > 0 || gates.Secret != "" || a.ExtAuthz != nil
	if !asks && !slices.ContainsFunc(slices.Collect(maps.Values(app.Servers)), routetree.HasProxies) {
		for _, name := range slices.Sorted(maps.Keys(gates.Named)) {
			block := "forward_auth " + name
			found(a.Places.Of(block), block+": no proxy can ask for it", "name the network of the proxy in `forward_auth_from`", block)
		}
	}
	if (len(gates.From) > 0 || a.ExtAuthz != nil) && len(gates.Named)+len(a.Policies) == 0 && gates.Bare() == nil {
		option := "forward_auth_from"
		if a.ExtAuthz != nil {
			option = "ext_authz"
		}
		found(a.Places.Of(option), option+": proxies can ask, and no forward_auth says about which sites: each question is refused",
			"write `forward_auth <name> { origins ... }` for each site, or `forward_auth_any on` for any bearer token at any site", option)
	}
	if a.certificates.Header() != "" {
		for _, name := range slices.Sorted(maps.Keys(gates.Named)) {
			if gates.Named[name].CertificateHeader == "" {
				block := "forward_auth " + name
				found(a.Places.Of(block), block+
					": client_cert_header is not about the questions of other proxies, so tokens which are bound to a certificate open nothing here",
					"add `client_certificate_header` if the proxy sets the header on each request", block)
			}
		}
	}
	a.mu.Lock()
	guarded := maps.Clone(a.guarded)
	a.mu.Unlock()
	for _, place := range slices.Sorted(maps.Keys(guarded)) {
		a.checkTwice(place, guarded[place])
	}
	for _, name := range slices.Sorted(maps.Keys(a.Policies)) {
		if f, ok := a.Policies[name].DeniesAlone(name); ok {
			a.Found(f)
		}
	}
}

// checkTwice finds sites that a protect guards and that are declared for another proxy, too.
func (a *App) checkTwice(place string, sites []string) {
	for _, name := range slices.Sorted(maps.Keys(a.ForwardAuth.Named)) {
		for _, origin := range a.ForwardAuth.Named[name].Origins {
			if slices.Contains(sites, origin) {
				block := "forward_auth " + name
				a.Found(diagnostic.Finding{
					Severity: diagnostic.Warning, Place: a.Places.Of(block), About: block,
					Reason: fmt.Sprintf("forward_auth %s: %s is a site of this Caddy too, which the protect at %s guards by rules of its own",
						name, origin, place),
					Fix: "keep the one that requests go through",
				})
			}
		}
	}
}
