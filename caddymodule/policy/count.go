package policy

import "github.com/gatehouse-id/gatehouse/internal/stats"

// Counter counts the decisions of rules, by their names in the statistics.
type Counter interface {
	Rule(name string) *stats.RuleCount
}

// ruleCounter remembers where the decisions of a rule are counted, so counting one costs no look-up and no memory.
type ruleCounter struct {
	of Counter // which the next configuration may replace
	n  *stats.RuleCount
}

// CountAs names the owner of the rules, such as policy office, so their decisions are counted.
func (p *Policy) CountAs(owner string) {
	for i, r := range p.rules() {
		kind := "deny"
		if i >= len(p.Deny) {
			kind = "allow"
		}
		r.owner = owner
		r.counted = stats.RuleName(owner, kind, r.Name, r.Place)
	}
}

// Counted is under what the decisions of the rule are counted. Empty: they are not
func (r *Rule) Counted() string { return r.counted }

// Count counts a decision of the rule.
func (r *Rule) Count(c Counter) {
	if r.counted == "" {
		return
	}
	known := r.count.Load()
	if known == nil || known.of != c {
		known = &ruleCounter{c, c.Rule(r.counted)}
		r.count.Store(known)
	}
	known.n.Decided()
}
