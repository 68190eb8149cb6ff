package protect

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/botauth"
)

// Robots sign their requests. (docs/robots.md) Package botauth verifies them; here one passes without a sign-in where a
// rule lets it.

var errSiteAgent = errors.New("need agent belongs in a rule: write `allow { need agent <domain> }`")

// robot returns the domain of the robot that has signed a request, "" for none. A signature counts once, so it is
// verified once for all rules.
func (p *Protect) robot(g *requestState, rules *policy.Policy) string {
	if g.agent != nil {
		return *g.agent
	}
	in, err := g.open()
	if err != nil || in.Robots == nil {
		return ""
	}
	wants := func(domain string) (wanted, named bool) {
		wanted, named = rules.Wants(domain)
		return wanted || p.Shadow != nil, named
	}
	domain, err := in.Robots.Agent(g.r.Context(), asReceived(g.r), p.origin(g.r).ClientIP, wants)
	if err != nil && !errors.Is(err, botauth.ErrUnsigned) {
		p.log.Info("signature of a robot refused", zap.Error(err))
	}
	g.agent = &domain
	return domain
}

// asReceived returns a request as the client has signed it: handlers before this one may have rewritten it.
func asReceived(r *http.Request) *http.Request {
	orig, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok || orig.URL == nil {
		return r
	}
	out := *r
	out.Method, out.URL, out.RequestURI = orig.Method, orig.URL, orig.RequestURI
	return &out
}

// admitsRobots reports whether the site asks nothing of all requests that no robot has.
func (p *Protect) admitsRobots(need *policy.Need) bool {
	return len(p.Scopes)+len(p.Groups) == 0 && p.level == 0 && need.IsEmpty()
}

// passRobot lets a robot pass. Nothing of a person goes upstream.
func (p *Protect) passRobot(g *requestState) (progress, *refusal) {
	if g.kept != "" {
		return refuse(&nothingKept)
	}
	if p.further != nil { // which asks who the caller is
		return p.turnAway(g, noCredentials)
	}
	if bad := p.checkTools(g, new(token.Introspection)); bad != nil {
		return refuse(bad)
	}
	if bad := p.limitCaller(g, nil, ""); bad != nil {
		return refuse(bad)
	}
	g.who, g.judged = nil, true
	placeholders(g.r, nil, p.now)
	caddyhttp.SetVar(g.r.Context(), agentVar, g.rules.Agent())
	p.countPass(g, g.judging.began)
	p.recordCall(g)
	p.stripCredentials(g, g.judging.rec)
	return through, nil
}

// agentVar is the variable of Caddy with the domain of the robot that a rule has let pass: {http.vars.gatehouse.agent}.
const agentVar = "gatehouse.agent"
