package protect

import (
	"context"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
)

// This file has the methods for package forwardauth, which puts requests to this handler that another proxy asks about.

// Name returns the name of the site in metrics and statistics: a host of the configuration. "": it is not known.
func (p *Protect) Name() string { return p.name }

// Call sets the name of a site that has no host in the configuration.
func (p *Protect) Call(name string) { p.name = name }

// LeastLevel is the least authentication level. 0: any.
func (p *Protect) LeastLevel() int { return p.level }

// Matchers select the requests that need a credential. None: every request.
func (p *Protect) Matchers() caddyhttp.MatcherSets { return p.matchers }

// Subdirectives are the words of the block, for a block that has them among others.
func (p *Protect) Subdirectives() caddyfileutil.Subdirectives { return p.subdirectives() }

// Guarded are the names of the headers that only protect may set, in their canonical form.
func (p *Protect) Guarded() []string {
	names := append(slices.Clone(alwaysDeleted), defaultAssertion)
	for _, h := range slices.Concat(defaultHeaders, p.headers, p.asserted()) {
		if !slices.Contains(names, h.Name) {
			names = append(names, h.Name)
		}
	}
	return names
}

// Guards reports whether a header name is one of Guarded, or a spelling of one that some upstream takes for it.
func (p *Protect) Guards(name string) bool { return p.guarded.Has(name) }

// Identity returns the Guarded headers that carry the identity, at this site or at others.
func (p *Protect) Identity() []string {
	return slices.DeleteFunc(p.Guarded(), func(name string) bool { return slices.Contains(alwaysDeleted, name) })
}

// asserted is the header of the signed assertion, if there is one.
func (p *Protect) asserted() []IdentityHeader {
	if p.Assertion == "" {
		return nil
	}
	return []IdentityHeader{{Name: p.Assertion}}
}

// IsOwn reports whether a path is one of those that a site with login keeps to itself.
func IsOwn(path string) bool { return strings.HasPrefix(path, ownPrefix) }

// HasSecret reports whether a request target holds a code or token that must not stay in logs.
func HasSecret(target string) bool {
	_, query, _ := strings.Cut(target, "?")
	_, codes := sitepath.CutParam(query, authz.SiteCodeParam)
	return codes != nil || tokenInQuery(query) != nil
}

// Further returns a handler with requirements in addition to those of p. It accepts the same credentials, and paths
// that are open in p are open there too.
func (p *Protect) Further(scopes, groups, audience []string, level string) (*Protect, error) {
	if len(audience) == 0 {
		audience = p.Audience
	}
	f := &Protect{
		Scopes: scopes, Groups: groups, Audience: audience, Clients: p.Clients, Level: caddyfileutil.Count(level), Partitions: p.Partitions,
		Login: p.Login, Origins: slices.Clone(p.Origins), Sites: slices.Clone(p.Sites),
		Assertion: p.Assertion, AssertionAlg: p.AssertionAlg, Transaction: p.Transaction,
		Headers: slices.Clone(p.headers), Public: slices.Clone(p.fixed.public), Preflight: p.Preflight,
		StripToken: p.StripToken, Accept: p.Accept, fingerprint: p.fingerprint,
		log: p.log, enter: p.enter, origin: p.origin, now: p.now, random: p.random, scopeLevel: p.scopeLevel,
	}
	if err := f.setUp(caddyfileutil.NewVerbatimResolver()); err != nil {
		return nil, err
	}
	f.takes.Any = true  // p decides which tokens are named
	f.remote = p.remote // which p.enter asks already
	f.name, f.fixed.asks, f.session = p.name, p.fixed.asks, p.session
	if p.binder != nil {
		f.binder = &binder{own: p.binder.own, parts: p.binder.parts, bare: true}
	}
	f.raiseReach()
	return f, nil
}

// UnknownClient says that the address of the client of a request is unknown.
func UnknownClient(ctx context.Context) { caddyhttp.SetVar(ctx, unknownClientVar, true) }

// callbackVar is set for a request whose browser comes back by way of callbackPath.
const callbackVar = "gatehouse.callback"

// ByCallback says that the browser of a request must come back to one of Gatehouse's own paths at the site. The proxy
// cannot pass on cookies that are set at another path.
func ByCallback(ctx context.Context) { caddyhttp.SetVar(ctx, callbackVar, true) }

// returnTo is the URL to which the browser of a request comes back after a sign-in.
func (g *requestState) returnTo(target string) string {
	if by, _ := caddyhttp.GetVar(g.r.Context(), callbackVar).(bool); by {
		return g.site.origin + callbackPath + "?" + toParam(target)
	}
	return g.site.origin + target
}
