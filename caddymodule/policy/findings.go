package policy

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// Names are the names in a configuration. The storage can have more.
type Names struct {
	Scopes, Groups, Clients, Providers []string

	DeviceBound bool // sessions are bound to devices
}

// Findings reports options of a policy that are allowed but probably not intended.
func (p *Policy) Findings(label string, known Names) (out []diagnostic.Finding) {
	warn := func(r *Rule, reason, fix string) {
		out = append(out, diagnostic.Finding{
			Severity: diagnostic.Warning, Place: r.Place, Reason: label + ": " + reason, Fix: fix,
			About: cmp.Or(r.owner, label),
		})
	}
	for i, r := range p.Deny {
		for _, before := range p.Deny[:i] {
			if before.covers(r) && before.sameNeed(r) {
				warn(r, fmt.Sprintf("%s changes nothing, since %s refuses the same", r.Label(), before.Label()), "remove one of them")
				break
			}
		}
	}
	for i, r := range p.Allow {
		if by, how := p.hiding(i); by != nil {
			fix := "put the narrower rule first"
			if slices.Contains(p.Deny, by) {
				fix = "remove one of them, or name the persons or requests that the deny rule is about"
			}
			warn(r, fmt.Sprintf("%s is never reached, since %s comes first and %s", r.Label(), by.Label(), how), fix)
		}
	}
	for _, r := range p.Deny {
		if open := p.coveredBy(r); open != "" {
			warn(r, fmt.Sprintf("%s refuses persons on a path that is open to everybody by public %s", r.Label(), open),
				"leave the path out of public")
		}
	}
	for _, r := range p.rules() {
		r.Need.Findings(known, func(reason, fix string) { warn(r, reason, fix) })
	}
	return out
}

// DeniesAlone returns a finding if the named policy has deny rules and no allow rules. Otherwise ok is false.
func (p *Policy) DeniesAlone(name string) (f diagnostic.Finding, ok bool) {
	if len(p.Deny) == 0 || len(p.Allow) > 0 {
		return f, false
	}
	return diagnostic.Finding{
		Severity: diagnostic.Warning, Place: p.Deny[0].Place, About: "policy " + name,
		Reason: "policy " + name + ": it has only deny rules, and lets in everyone else who has a session or a token",
		Fix:    "add an allow rule, such as `allow { need groups staff }`, or one that asks for nothing if that is meant",
	}, true
}

// hiding returns the rule that decides about every request which the allow rule i could decide about, and how.
func (p *Policy) hiding(i int) (by *Rule, how string) {
	later := p.Allow[i]
	for _, r := range p.Deny {
		if r.covers(later) && r.Need.IsEmpty() {
			return r, "refuses everybody"
		}
	}
	for _, r := range p.Allow[:i] {
		switch {
		case !r.covers(later):
		case r.Need.IsEmpty():
			return r, "lets everybody in"
		case r.sameNeed(later):
			return r, "asks the same"
		}
	}
	return nil, ""
}

// covers reports whether a rule is about every request and every time that another one is about.
func (r *Rule) covers(other *Rule) bool {
	return (len(r.When) == 0 || slices.Equal(r.When, other.When)) && (r.raw == "" || r.raw == other.raw) &&
		(!r.Robot || other.Robot) && (len(r.Agents) == 0 || slices.Equal(r.Agents, other.Agents))
}

// sameNeed reports whether two rules ask the same of the caller.
func (r *Rule) sameNeed(other *Rule) bool { return reflect.DeepEqual(r.Need, other.Need) }

// coveredBy returns a public path that covers all paths of a rule about persons.
func (p *Policy) coveredBy(r *Rule) string {
	if r.Need.IsEmpty() || len(r.paths) == 0 {
		return ""
	}
	for _, open := range p.Public {
		beginning, below := strings.CutSuffix(strings.ToLower(open), "*")
		if !slices.ContainsFunc(r.paths, func(path string) bool { return path != beginning && (!below || !strings.HasPrefix(path, beginning)) }) {
			return open
		}
	}
	return ""
}

// GroupsNeeded calls fn with each group that a rule asks for, and the place of the rule.
func (p *Policy) GroupsNeeded(fn func(group, place string)) {
	for _, r := range p.rules() {
		for _, g := range r.Need.Groups {
			fn(g, r.Place)
		}
	}
}

// Findings calls warn with the names in a need that nothing else in the configuration has.
func (n *Need) Findings(known Names, warn func(reason, fix string)) {
	each := func(names, known []string, text string) {
		for _, f := range caddyfileutil.Unknown(names, known) {
			warn(fmt.Sprintf(text, f.Name), fmt.Sprintf("did you mean %q?", f.Near))
		}
	}
	each(n.Scopes, known.Scopes, "nothing in the configuration names the scope %q")
	each(n.Groups, known.Groups, "no one in the configuration is in the group %q")
	each(n.Clients, known.Clients, "the configuration has no client %q")
	each(n.Providers, known.Providers, "the configuration has no identity provider %q")
	if n.DeviceBound && !known.DeviceBound {
		warn("need device_bound lets no one pass, since no session is bound to a device", "add `device_bound on` to `identity`")
	}
	for _, c := range n.Claims {
		if meant := MeantClaim(c.Name); meant != "" {
			warn(fmt.Sprintf("no standard claim is called %q", c.Name), fmt.Sprintf("did you mean %q?", meant))
		}
	}
}
