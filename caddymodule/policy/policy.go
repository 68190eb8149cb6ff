// Package policy evaluates the rules of protected sites. A rule has a request part, in Caddy's own matchers, and a
// person part. Package protect asks it about each request and answers refused ones.
package policy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// Policy is a list of rules. A deny rule that fits always wins. Otherwise the deciding rule is the first allow rule
// that fits the request and has a person part that is met, or would be met after a sign-in. If there are allow rules
// and none fits, the request is refused; if there are none, the other conditions of the site decide.
type Policy struct {
	// The rules that refuse. Default: none.
	Deny []*Rule `json:"deny,omitempty"`
	// The rules that allow, in their order. Default: none, so the conditions of the site decide alone.
	Allow []*Rule `json:"allow,omitempty"`
	// Public paths, as in protect. Default: none.
	Public []string `json:"public,omitempty"`
}

// Rule fits a request if all of its parts do. A part that is absent fits everything.
type Rule struct {
	// The name of the rule in logs and explanations. Default: its place in the Caddyfile.
	Name string `json:"name,omitempty"`
	// The requests that it is about. A path is compared in its canonical form. Default: all.
	Match caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`
	// The robots whose requests it is about, by the domains of their keys. Default: everyone's.
	Agents []string `json:"agents,omitempty"`
	// Whether it is about the requests of robots alone, of any domain. Default: about everyone's.
	Robot bool `json:"robot,omitempty"`
	// The requirements for the caller. Default: only a session or a token.
	Need Need `json:"need,omitzero"`
	// When it applies, any of them: days, hours and a time zone, such as mon-fri 07:00-19:00 Europe/Amsterdam. Default:
	// always.
	When []string `json:"when,omitempty"`
	// The text for a person who is refused by this deny rule. Default: a text that names no reason.
	Message string `json:"message,omitempty"`
	// Whether the calls that this allow rule lets pass are recorded: events, each as an event, or log, in the log of
	// calls. Default: as the site says.
	Audit Audit `json:"audit,omitempty"`
	// The place of the rule in the Caddyfile, as file:line, for messages. Default: unknown.
	Place string `json:"place,omitempty"`

	matchers caddyhttp.MatcherSets
	raw      string // Match, which LoadModule empties
	paths    prefixes
	parts    Parts
	when     []window

	owner   string // the policy or site that it belongs to, such as policy office. Empty: unknown
	counted string // the name that its decisions are counted under. Empty: they are not
	count   atomic.Pointer[ruleCounter]
}

// maxRules bounds a policy, since each request passes all of its matchers.
const maxRules = 200

// Provision loads the matchers of all rules and checks the rest. label begins each message.
func (p *Policy) Provision(ctx caddy.Context, label string, res *caddyfileutil.Resolver) error {
	if len(p.Allow)+len(p.Deny) > maxRules {
		return fmt.Errorf("%s: more than %d rules", label, maxRules)
	}
	for _, rule := range p.Deny {
		if rule.Audit != "" {
			return caddyfileutil.AtPlace(rule.Place, fmt.Errorf("%s: deny: audit is for calls that pass, and this rule lets none pass", label))
		}
		if rule.everything() {
			return caddyfileutil.AtPlace(rule.Place, fmt.Errorf("%s: %w", label, errDenyAll))
		}
	}
	for _, rule := range p.rules() {
		if err := rule.provision(ctx, res); err != nil {
			return caddyfileutil.AtPlace(rule.Place, fmt.Errorf("%s: %w", label, err))
		}
	}
	return nil
}

// errDenyAll is the error of a deny rule without any part, which is never intended.
var errDenyAll = coded.New("deny_all", "deny: this rule refuses everything to everyone: name the requests (match), the persons (need) or the time (when)")

// everything reports whether a rule has no part that could fail to fit.
func (r *Rule) everything() bool {
	return (len(r.Match) == 0 && r.raw == "" || r.matchesAll()) && r.Need.IsEmpty() && len(r.When) == 0 && !r.asksRobots()
}

// rules returns all rules, in the order in which they are judged.
func (p *Policy) rules() []*Rule { return slices.Concat(p.Deny, p.Allow) }

func (r *Rule) provision(ctx caddy.Context, res *caddyfileutil.Resolver) error {
	r.parts, r.paths = PartsOfAll(r.Match), prefixesOf(r.Match) // LoadModule empties the field
	for _, set := range r.Match {
		if err := CheckMatch(set); err != nil {
			return fmt.Errorf("match: %w", err)
		}
	}
	if len(r.Match) > 0 {
		raw, err := json.Marshal(r.Match)
		if err != nil {
			return fmt.Errorf("match: %w", err)
		}
		r.raw = string(raw)
		found, err := ctx.LoadModule(r, "Match")
		if err != nil {
			return fmt.Errorf("match: %w", err)
		}
		if err := r.matchers.FromInterface(found); err != nil {
			return fmt.Errorf("match: %w", err)
		}
	}
	r.when = nil
	for _, text := range r.When {
		w, err := parseWindow(text)
		if err != nil {
			return fmt.Errorf("when: %w", err)
		}
		r.when = append(r.when, w)
	}
	if r.Audit != "" {
		if err := CheckAudit(string(r.Audit)); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	before := res.ProblemCount()
	r.Agents = res.List("match agent", r.Agents, checkAgent)
	if r.Need.SetUp(res); res.ProblemCount() > before {
		return res.Err()
	}
	return nil
}

// Label names the rule for operators.
func (r *Rule) Label() string {
	switch {
	case r.Name != "":
		return r.Name
	case r.Place != "":
		return "the rule at " + r.Place
	}
	return "a rule without a name"
}

// MatchText returns the request part as JSON. "": it fits every request.
func (r *Rule) MatchText() string { return r.raw }

// Parts returns the parts of a request that can decide.
func (p *Policy) Parts() (out Parts) {
	for _, r := range p.rules() {
		out = out.Or(r.parts)
	}
	return out
}

// Join returns a policy of the rules of several, in their order. It shares the rules.
func Join(ps ...*Policy) *Policy {
	out := new(Policy)
	for _, p := range ps {
		out.Deny = append(out.Deny, p.Deny...)
		out.Allow = append(out.Allow, p.Allow...)
		out.Public = append(out.Public, p.Public...)
	}
	return out
}

// Empty reports whether there are no rules.
func (p *Policy) Empty() bool { return len(p.Allow)+len(p.Deny) == 0 }

// Selection is the part of a policy that concerns one request: the rules whose request part fits. It can be judged
// again while the request lasts, and does not look at the request again, which handlers may have changed meanwhile.
type Selection struct {
	deny, allow []*Rule
	closed      bool // there are allow rules, so one must fit
	agent       string
}

// Select returns the rules that concern a request. agent returns the domain of the robot that has signed it, "" for
// none; it is called at most once, and only if a rule asks. An error of a matcher is no verdict: the caller must
// refuse.
func (p *Policy) Select(r *http.Request, agent func() string) (s Selection, err error) {
	path := ""
	if simplePath(r.URL.Path) {
		path = strings.ToLower(r.URL.Path)
	}
	s.closed = len(p.Allow) > 0
	if s.deny, err = selectRules(p.Deny, r, path); err == nil {
		s.allow, err = selectRules(p.Allow, r, path)
	}
	if asks := (*Rule).asksRobots; err == nil && (slices.ContainsFunc(s.deny, asks) || slices.ContainsFunc(s.allow, asks)) {
		s.agent = agent()
		others := func(rule *Rule) bool { return !rule.isAbout(s.agent) }
		s.deny, s.allow = slices.DeleteFunc(s.deny, others), slices.DeleteFunc(s.allow, others)
	}
	return s, err
}

// Agent returns the domain of the robot that has signed the request. "": none, or no rule asks.
func (s Selection) Agent() string { return s.agent }

// selectRules returns the rules that concern a request. path is its path in lower case. "": it must be read by the
// matchers alone.
func selectRules(rules []*Rule, r *http.Request, path string) (fit []*Rule, err error) {
	for _, rule := range rules {
		if path != "" && rule.paths.exclude(path) {
			continue
		}
		if len(rule.matchers) > 0 {
			ok, err := rule.matchers.AnyMatchWithError(r)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", rule.Label(), err)
			}
			if !ok {
				continue
			}
		}
		if fit == nil {
			fit = make([]*Rule, 0, 4)
		}
		fit = append(fit, rule)
	}
	return fit, nil
}

// Outcome is the result of judging a request.
type Outcome int

// The outcomes. All but Allowed refuse.
const (
	Allowed   Outcome = iota
	SignIn            // no one is signed in, and a sign-in may let the request pass
	StepUp            // a higher level would
	Renew             // a more recent sign-in would
	Scope             // a token with more scopes would
	Unassured         // an identity that is better assured would
	Unbound           // a session that is bound to a device would
	Denied            // nothing would
)

// Decision is the outcome and what led to it.
type Decision struct {
	Outcome Outcome
	// Rule decided. nil: none fits.
	Rule *Rule
	// Need is the missing requirement, for every outcome but Allowed and Denied.
	Need *Need
}

// Judge decides for a caller.
func (s Selection) Judge(who Facts) Decision {
	who.agent = s.agent
	for _, rule := range s.deny {
		if rule.open(who.Now) && rule.refuses(who) {
			return Decision{Outcome: Denied, Rule: rule}
		}
	}
	if !s.closed {
		if !who.signedIn() {
			return Decision{Outcome: SignIn}
		}
		return Decision{Outcome: Allowed}
	}
	lacking := Decision{Outcome: Denied}
	for _, rule := range s.allow {
		if !rule.open(who.Now) || who.Unnamed && !who.Who.NamedBy(rule.Need.Scopes, rule.Need.Clients) {
			continue
		}
		switch outcome := rule.Need.Judge(who); outcome {
		case Allowed, SignIn, StepUp, Renew:
			return Decision{Outcome: outcome, Rule: rule, Need: &rule.Need}
		case Scope, Unassured, Unbound:
			if lacking.Rule == nil {
				lacking = Decision{Outcome: outcome, Rule: rule, Need: &rule.Need}
			}
		case Denied:
		}
	}
	return lacking
}

// Strictest returns the highest levels, all scopes, the most recent sign-in and the binding to a device that the allow
// rules of the selection ask for.
func (s Selection) Strictest() *Need {
	out := new(Need)
	for _, rule := range s.allow {
		out.level, out.assurance = max(out.level, rule.Need.level), max(out.assurance, rule.Need.assurance)
		out.Scopes, out.DeviceBound = append(out.Scopes, rule.Need.Scopes...), out.DeviceBound || rule.Need.DeviceBound
		if age := rule.Need.maxAge; age > 0 && (out.maxAge == 0 || age < out.maxAge) {
			out.maxAge = age
		}
	}
	return out
}

// open reports whether the rule applies at a time.
func (r *Rule) open(now time.Time) bool {
	return len(r.when) == 0 || slices.ContainsFunc(r.when, func(w window) bool { return w.contains(now) })
}

// refuses reports whether the person part of a deny rule fits. It does not fit strangers, since nothing is known about
// them. A browser has the scopes of a deny rule at every level: no one evades it by a weaker sign-in.
func (r *Rule) refuses(who Facts) bool {
	who.Demands = nil
	return r.Need.IsEmpty() || r.Need.Judge(who) == Allowed
}
