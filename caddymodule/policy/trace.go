package policy

import (
	"slices"
)

// How a rule stands to a request.
const (
	Fits           = "fits"
	OtherRequest   = "no: another request" // its request part does not fit
	OtherTime      = "no: another time"
	OtherCaller    = "no: another caller" // its person part does not fit, and no sign-in changes that
	AfterSignIn    = "after sign-in"
	AfterStepUp    = "after step-up"
	AfterNewSignIn = "after a new sign-in"
	WithScopes     = "with more scopes"
	WithAssurance  = "with an identity that is better assured"
	WithDevice     = "with a session that is bound to a device"
	NotAsked       = "not asked" // something else has decided before
)

// Line says how one rule stands to a request.
type Line struct {
	Kind  string `json:"kind"` // deny or allow
	Rule  string `json:"rule"` // its name, or where it stands
	Place string `json:"place,omitempty"`
	Fit   string `json:"fit"`
	// Decides tells that this rule has decided.
	Decides bool `json:"decides,omitempty"`
}

// fits are the words for what is lacking.
var fits = map[Outcome]string{
	Allowed: Fits, SignIn: AfterSignIn, StepUp: AfterStepUp, Renew: AfterNewSignIn, Scope: WithScopes,
	Unassured: WithAssurance, Unbound: WithDevice, Denied: OtherCaller,
}

// Trace says how each rule stands to a request of which it has selected the rules, and which has decided. selected
// reports whether the rules were asked at all.
func (p *Policy) Trace(s Selection, selected bool, d Decision, who Facts) (out []Line) {
	who.agent = s.agent
	for i, rule := range p.rules() {
		line := Line{Kind: "deny", Rule: rule.Label(), Place: rule.Place, Decides: d.Rule == rule}
		chosen := s.deny
		if i >= len(p.Deny) {
			line.Kind, chosen = "allow", s.allow
		}
		switch {
		case !selected:
			line.Fit = NotAsked
		case !slices.Contains(chosen, rule):
			line.Fit = OtherRequest
		case !rule.open(who.Now):
			line.Fit = OtherTime
		case line.Kind == "deny" && rule.refuses(who):
			line.Fit = Fits
		case line.Kind == "deny":
			line.Fit = OtherCaller
		default:
			line.Fit = fits[rule.Need.Judge(who)]
		}
		out = append(out, line)
	}
	return out
}
