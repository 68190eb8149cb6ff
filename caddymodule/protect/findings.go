package protect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
)

// Place returns the place of the directive in the Caddyfile, as file:line. "": unknown.
func (p *Protect) Place() string { return p.Places.Of("protect") }

// needGroups calls fn with each group that the site asks for, and where.
func (p *Protect) needGroups(fn func(group, place string)) {
	each := func(list []string, option string) {
		for _, g := range list {
			fn(g, p.Places.Of("protect: "+option))
		}
	}
	each(p.Groups, "groups")
	each(p.Need.Groups, "need")
	p.fixed.rules.GroupsNeeded(fn)
	if p.Shadow != nil {
		each(p.Shadow.Need.Groups, "shadow")
		p.Shadow.fixed.rules.GroupsNeeded(fn)
	}
}

// findings reports options that are allowed but probably not intended: names that nothing else in the configuration
// has, and groups of people who have no way to sign in.
func (p *Protect) findings(known policy.Names) (out []diagnostic.Finding) {
	warn := func(option, reason, fix string) {
		out = append(out, diagnostic.Finding{
			Severity: diagnostic.Warning, Place: p.Places.Of("protect: " + option), Reason: "protect: " + reason,
			Fix: fix, About: p.label(),
		})
	}
	if p.open {
		warn("", "the matcher leaves all other paths of the site open to everybody",
			"protect the whole site, and name the open paths with `public`")
	}
	p.headerFindings(warn)
	if p.Introspect != nil { // whose scopes and groups are not known here
		p.remoteFindings(warn)
		return out
	}
	switch {
	case p.Tokens == anyTokens:
		warn("tokens", "every access token of this issuer opens the site, also those that people have allowed for other purposes, and those of clients that register themselves",
			"name the `audience`, `scopes` or `clients` of the tokens in place of it")
	case p.Login && !slices.ContainsFunc(p.Scopes, isOwnScope) && len(p.Scopes)+len(p.Need.Scopes) > 0 && len(p.Audience)+len(p.Clients) == 0:
		warn("scopes", "each client of a sign-in has tokens with these scopes, and all of them open the site",
			"name a scope of the site's own, its `audience`, or the `clients`")
	case !p.Login && !p.accepts && p.isWritten() &&
		len(p.Groups)+len(p.Scopes)+len(p.Audience)+len(p.Clients)+len(p.Need.Scopes)+len(p.Need.Clients)+len(p.fixed.rules.Allow) == 0 &&
		p.binder == nil:
		warn("", "the site asks for no scope and no audience, so it accepts every access token of this issuer if the person meets the other conditions",
			"name the `scopes` or the `audience` that a token must have, or the `clients`")
	}
	for _, s := range p.Scopes {
		if !slices.Contains(known.Scopes, s) {
			warn("scopes", fmt.Sprintf("no client and no scope block names the scope %q, so no token of this configuration has it", s),
				caddyfileutil.DidYouMean(s, known.Scopes, "name it in the `scopes` of a client"))
		}
	}
	(&policy.Need{Groups: p.Groups}).Findings(known, func(reason, fix string) { warn("groups", reason, fix) })
	(&policy.Need{Clients: p.Clients}).Findings(known, func(reason, fix string) { warn("clients", reason, fix) })
	known.DeviceBound = known.DeviceBound && p.DeviceBound == "" && p.Login
	p.Need.Findings(known, func(reason, fix string) { warn("need", reason, fix) })
	if len(p.Groups) > 0 && !p.Login && len(p.Clients) == 0 && !p.accepts && len(p.Scopes) == 0 && len(p.Audience) == 0 {
		warn("groups", "groups apply to people, but without `login` browsers get an error here",
			"add `login`, or for an API the `scopes` that its clients ask for")
	}
	return out
}

// headerFindings warns of claims of identity headers that are probably misspelled, and of headers whose two words are
// swapped.
func (p *Protect) headerFindings(warn func(option, reason, fix string)) {
	for _, h := range p.Headers {
		if policy.IsClaim(h.Name) && strings.Contains(h.Claim, "-") {
			warn("headers", fmt.Sprintf("headers %s %s: the header comes first, and then the claim", h.Name, h.Claim),
				fmt.Sprintf("write `headers %s %s`", h.Claim, h.Name))
		} else if meant := policy.MeantClaim(h.Claim); meant != "" {
			warn("headers", fmt.Sprintf("headers %s: no standard claim is called %q, so the header is probably always empty", h.Name, h.Claim),
				fmt.Sprintf("did you mean %q?", meant))
		}
	}
}

// isWritten reports whether an operator has written the site. A gate that is made for a policy has no place.
func (p *Protect) isWritten() bool { return p.Place() != "" || len(p.takes.Origins) > 0 }

// isOwnScope reports whether a scope is not one of those that every client of a sign-in can ask for.
func isOwnScope(scope string) bool { return !slices.Contains(client.StandardScopes, scope) }
