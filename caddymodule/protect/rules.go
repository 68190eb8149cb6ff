package protect

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
)

// The rules of a site, in addition to its requirements for every request. Package policy reads and judges them; here
// they become verdicts and answers.

// loadRules puts the rules of the site together: those of the policies that it names, and its own.
func (p *Protect) loadRules(ctx caddy.Context, use usePolicy) error {
	res := caddyfileutil.NewResolverAt(p.Places)
	if p.Need.SetUp(res); res.Err() != nil {
		return fmt.Errorf("protect: need: %w", res.Err())
	}
	if len(p.Need.Agents) > 0 {
		return caddyfileutil.AtPlace(p.Places.Of("protect: need"), errSiteAgent)
	}
	if err := p.Rules.Provision(ctx, "protect", res); err != nil {
		return err
	}
	p.Rules.CountAs(p.label())
	parts := p.gather(p.Policies, &p.Rules, "policy", use)
	rules := fixedOf(parts)
	p.fixed = &ruling{
		rules: rules, public: append(slices.Clone(p.fixed.public), res.List("public", rules.Public, sitepath.CheckPublic)...),
		asks: p.parts.Or(rules.Parts()),
	}
	if err := res.Err(); err != nil {
		return fmt.Errorf("protect: policy: %w", err)
	}
	if slices.ContainsFunc(parts, part.isLater) {
		p.binder = &binder{own: ruling{public: p.fixed.public, asks: p.fixed.asks}, parts: parts}
	}
	if p.Shadow != nil {
		if err := p.Shadow.load(ctx, res, p, use); err != nil {
			return caddyfileutil.AtPlace(p.Places.Of("protect: shadow"), err)
		}
	}
	return nil
}

// demand are the requirements of a site for a request, or those that a rule adds.
type demand struct {
	level     int
	assurance int
	maxAge    time.Duration
	scopes    []string
	rule      *policy.Rule // that decided. nil: none
}

// demandOf returns the requirements of the site for every request and those that the decision about this one adds.
func (p *Protect) demandOf(g *requestState) demand {
	d := g.decision
	out := demand{level: p.level, maxAge: p.session, scopes: p.Scopes, rule: d.Rule}
	if g.site != nil {
		out.level, out.assurance = p.reach, p.assured
	}
	if d.Need != nil {
		level, assurance := d.Need.Levels(p.factsOf(nil, g.site != nil, time.Time{}))
		out.level, out.assurance = max(out.level, level), max(out.assurance, assurance)
		if age := d.Need.OldestSignIn(); age > 0 && (out.maxAge == 0 || age < out.maxAge) {
			out.maxAge = age
		}
		if len(d.Need.Scopes) > 0 {
			out.scopes = slices.Concat(p.Scopes, d.Need.Scopes)
		}
	}
	return out
}

// outcomes has the verdicts for the outcomes of a policy. That of Denied depends on the rule, see decideBy.
var outcomes = map[policy.Outcome]verdict{
	policy.SignIn: noCredentials, policy.StepUp: tooLow, policy.Renew: tooOld,
	policy.Scope: scopeMissing, policy.Unassured: unassured, policy.Unbound: unbound,
}

// decide applies the requirements of the site for every request, and its rules. It does not look at the request, so it
// can be called again while the response is written.
func (p *Protect) decide(rules policy.Selection, who *token.Introspection, browser bool) (verdict, policy.Decision) {
	return p.decideBy(&p.Need, rules, who, browser)
}

// factsOf returns the facts for judging rules.
func (p *Protect) factsOf(who *token.Introspection, browser bool, now time.Time) policy.Facts {
	return policy.Facts{Who: who, Browser: browser || p.asSession, Now: now, Demands: p.scopeLevel}
}

// decideBy is decide with another need.
func (p *Protect) decideBy(need *policy.Need, rules policy.Selection, who *token.Introspection, browser bool) (verdict, policy.Decision) {
	v := p.examine(who, browser)
	facts := p.factsOf(who, browser, p.now())
	switch v {
	case allowed:
		facts.Unnamed = !facts.Browser && !p.names(need, who)
		if outcome := need.Judge(facts); outcome != policy.Allowed {
			d := policy.Decision{Outcome: outcome, Need: need}
			if outcome == policy.Denied {
				return needUnmet, d
			}
			return outcomes[outcome], d
		}
	case inactive:
		facts.Who = nil
	default:
		return v, policy.Decision{}
	}
	d := rules.Judge(facts)
	switch {
	case d.Outcome == policy.Denied && d.Rule != nil:
		return ruleDenied, d
	case facts.Unnamed && (d.Outcome == policy.Denied || d.Rule == nil):
		return unnamed, policy.Decision{}
	case d.Outcome == policy.Denied:
		return noRule, d
	case v == inactive && d.Outcome == policy.Allowed && p.admitsRobots(need): // of a robot
		return allowed, d
	case v == inactive:
		return v, policy.Decision{}
	case d.Outcome == policy.Allowed:
		return v, d
	}
	return outcomes[d.Outcome], d
}

// selectRules finds the rules that concern a request.
func (p *Protect) selectRules(g *requestState, r *http.Request) (err error) {
	r = asUpstream(r)
	if p.binder != nil {
		g.came = takeSnapshot(r)
	}
	if g.ruling.rules.Empty() {
		return nil
	}
	g.selected = true
	g.rules, err = g.ruling.rules.Select(r, func() string { return p.robot(g, g.ruling.rules) })
	return err
}

// closed refuses a request for a public path that a rule denies to everyone.
func (p *Protect) closed(g *requestState) *refusal {
	if g.ruling.rules.Empty() {
		return nil
	}
	if err := p.selectRules(g, g.r); err != nil {
		return cannotTell(err)
	}
	d := g.rules.Judge(policy.Facts{Now: p.now()})
	if d.Outcome != policy.Denied || d.Rule == nil {
		return nil
	}
	g.decision = d
	in, _ := g.open() //nolint:errcheck // what cannot be counted is refused all the same
	countRule(in.Counter, d.Rule)
	return p.refusalOf(g, ruleDenied)
}

// ruleRefusal is the answer to a request that a rule refuses, or that none allows.
func ruleRefusal(d demand) *refusal {
	const code = "access_denied"
	f := &refusal{status: http.StatusForbidden, code: code, text: "the account cannot open this", page: "error.denied"}
	f.challenge = errorParams(code, f.text)
	if d.rule != nil && d.rule.Message != "" {
		f.text, f.said = d.rule.Message, d.rule.Message
	}
	return f
}
