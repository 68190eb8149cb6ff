package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/finding"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/internal/near"
)

// Findings are what is allowed in a policy and probably not meant. scopes and groups are those that the configuration
// names.
func (p *Policy) Findings(label string, scopes, groups []string) (out []finding.Finding) {
	warn := func(r *Rule, reason, mend string) {
		out = append(out, finding.Finding{Severity: finding.Warning, Place: r.Place, Reason: label + ": " + reason, Mend: mend})
	}
	for i, r := range p.Allow {
		for _, before := range p.Allow[:i] {
			if before.hides(r) {
				warn(r, fmt.Sprintf("%s is never reached, since %s comes first and lets everybody in", r.Label(), before.Label()), "put the narrower rule first")
				break
			}
		}
	}
	for _, r := range p.Deny {
		if open := p.coveredBy(r); open != "" {
			warn(r, fmt.Sprintf("%s refuses persons on a path that is open to everybody by public %s", r.Label(), open), "leave the path out of public")
		}
	}
	for _, r := range p.rules() {
		r.Need.findings(scopes, groups, func(reason, mend string) { warn(r, reason, mend) })
	}
	return out
}

// hides tells whether a rule lets everybody in who could reach a later one.
func (r *Rule) hides(later *Rule) bool {
	return r.Need.IsEmpty() && len(r.When) == 0 && (r.raw == "" || r.raw == later.raw)
}

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

// Findings are names in a need that nothing else in the configuration has.
func (n *Need) findings(scopes, groups []string, warn func(reason, mend string)) {
	for _, f := range options.UnknownScopes(n.Scopes, scopes) {
		warn(fmt.Sprintf("nothing in the configuration names the scope %q", f.Name), fmt.Sprintf("did you mean %q?", f.Near))
	}
	for _, g := range n.Groups {
		if found := near.Word(g, groups); found != "" && !slices.Contains(groups, g) {
			warn(fmt.Sprintf("nobody in the configuration is in the group %q", g), fmt.Sprintf("did you mean %q?", found))
		}
	}
}
