package protect

import (
	"errors"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
)

// judgement holds the findings of the steps of judge about a request.
type judgement struct {
	rec        *credentials
	began      time.Time
	wrongBasic bool // its Basic header has something other than an app password
	credential credential
	verdict    verdict
	decision   policy.Decision
	counted    bool              // against the limits of its caller
	tried      func(passed bool) // compares the outcome with that of the shadow rules. nil: there are none
	span       trace.Span        // nil: it is not traced
}

// progress tells judge how to go on after a step.
type progress int

const (
	onward   progress = iota // to the next step
	through                  // it passes
	answered                 // it does not pass, and has its answer or gets a refusal
)

// refuse ends a judgement with a refusal.
func refuse(f *refusal) (progress, *refusal) { return answered, f }

// judgingSteps is every step of judging a request that needs a credential, in this order. A refusal ends it.
var judgingSteps = []func(*Protect, *requestState) (progress, *refusal){
	(*Protect).checkQuery,       // RFC 6750 5.3: addresses are logged, so no token belongs there
	(*Protect).readToken,        // RFC 6750 2.1, RFC 9449 7.1, RFC 7617 2
	(*Protect).enterInstance,    // the running instance is held until the request has been judged
	(*Protect).chooseCredential, // a token of this issuer decides, valid or not; without one the cookie of the site does
	(*Protect).findRules,        // before the request changes on its way
	(*Protect).judgeStranger,    // without a credential, only a rule for robots lets a request pass
	(*Protect).lookUp,           // RFC 7662
	(*Protect).checkSender,      // RFC 8705 3, RFC 9449 7
	(*Protect).judgeCaller,      // what the site asks, its rules, and the grants of operators
	(*Protect).judgeFurther,     // what a narrowed gate asks
	(*Protect).countCaller,      // only what would pass counts against a limit
	(*Protect).spend,            // one use of the token or the grant
	(*Protect).checkCall,        // late: the body of a request that is refused anyway is not read
	(*Protect).settle,           // a kept form takes the place of the request
	(*Protect).introduce,        // the upstream learns who the caller is
}

// judge looks the credential of a request up and decides whether it may pass.
func (p *Protect) judge(g *requestState, rec *credentials) (passed bool) {
	j := &g.judging
	j.rec, j.began = rec, p.now()
	defer func() {
		if j.counted {
			p.giveBack(g, passed)
		}
		if j.tried != nil {
			j.tried(passed)
		}
		if j.span != nil {
			checked(j.span, g, passed)
		}
		p.countJudged(g.entrance.Counter, j.began)
		countRule(g.entrance.Counter, g.decision.Rule)
	}()
	j.span = p.check(g)
	for _, step := range judgingSteps {
		switch after, bad := step(p, g); {
		case bad != nil:
			return p.writeRefusal(g, bad)
		case after != onward:
			return after == through
		}
	}
	return p.writeRefusal(g, cannotTell(errors.New("no step has let the request pass")))
}

func (*Protect) checkQuery(g *requestState) (progress, *refusal) {
	bad := tokenInQuery(g.r.URL.RawQuery)
	if bad != nil {
		caddyhttp.SetVar(g.r.Context(), caddyhttp.LogSkipVar, true) // the access log would keep the token
	}
	return onward, bad
}

// readToken reads a bearer token or an app password.
func (p *Protect) readToken(g *requestState) (progress, *refusal) {
	j := &g.judging
	text, byProof, bad := j.rec.bearer()
	if g.foreign = p.isForeign(g.r, j.rec, text, bad); g.foreign {
		text, byProof, bad = "", false, nil
	}
	if g.byProof = byProof; bad != nil {
		return refuse(bad)
	}
	if text == "" && p.accepts {
		text, j.wrongBasic = p.basic(g, j.rec)
	}
	j.credential.token = text
	return onward, nil
}

func (*Protect) enterInstance(g *requestState) (progress, *refusal) {
	if _, err := g.open(); err != nil {
		return refuse(cannotTell(err))
	}
	return onward, nil
}

// chooseCredential takes the session of the site where there is no token.
func (p *Protect) chooseCredential(g *requestState) (progress, *refusal) {
	j := &g.judging
	if j.credential.at = p.appPasswordSite(g.r, j.credential.token); j.credential.token != "" || j.wrongBasic || !p.Login {
		return onward, nil
	}
	if g.site = p.siteOf(g.r); g.site == nil {
		return refuse(&unknownSite)
	}
	j.credential = siteCredential(g.site, j.rec)
	return onward, nil
}

// findRules finds the rules that concern the request, and the shadow rules.
func (p *Protect) findRules(g *requestState) (progress, *refusal) {
	if err := p.selectRules(g, g.r); err != nil {
		return refuse(cannotTell(err))
	}
	if p.Shadow != nil {
		g.judging.tried = p.try(g, g.judging.credential.token)
	}
	return onward, nil
}

func (p *Protect) judgeStranger(g *requestState) (progress, *refusal) {
	j := &g.judging
	if j.credential.token != "" {
		return onward, nil
	}
	v, d := p.decide(g.rules, nil, j.credential.site != nil)
	if g.decision = d; v == allowed {
		return p.passRobot(g)
	}
	if v == inactive && !j.wrongBasic {
		v = noCredentials
	}
	return p.turnAway(g, v)
}

func (*Protect) lookUp(g *requestState) (progress, *refusal) {
	if g.entrance.Counter != nil {
		g.entrance.Counter.CountIntrospection("protect")
	}
	who, err := g.judging.credential.ask(g.r, g.entrance.Authority)
	if err != nil {
		return refuse(cannotTell(err))
	}
	g.who = who
	return onward, nil
}

func (p *Protect) checkSender(g *requestState) (progress, *refusal) {
	return onward, p.checkProof(g, g.judging.rec, g.entrance, g.judging.credential, g.who)
}

func (p *Protect) judgeCaller(g *requestState) (progress, *refusal) {
	j := &g.judging
	v, d := p.decide(g.rules, g.who, j.credential.site != nil)
	if v == allowed && !g.who.Active {
		g.decision = d
		return p.passRobot(g)
	}
	var err error
	if v != allowed {
		v, d, j.credential.granted, err = p.findGrant(g.r.Context(), g.entrance, g.rules, j.credential, g.who, v, d)
	}
	if err != nil {
		return refuse(cannotTell(err))
	}
	j.verdict, j.decision = v, d
	return onward, nil
}

func (p *Protect) judgeFurther(g *requestState) (progress, *refusal) {
	if p.further == nil || g.judging.verdict != allowed && !g.judging.credential.granted {
		return onward, nil
	}
	v, d := p.further.decide(policy.Selection{}, g.who, g.judging.credential.site != nil)
	if v == allowed {
		return onward, nil
	}
	g.decision = d
	return p.further.turnAway(g, v)
}

func (p *Protect) countCaller(g *requestState) (progress, *refusal) {
	j := &g.judging
	if j.verdict != allowed && !j.credential.granted {
		return onward, nil
	}
	bad := p.limitCaller(g, g.who, j.credential.token)
	j.counted = bad == nil
	return onward, bad
}

// spend counts one use of a token or a grant that has a number of uses, and turns away what may not pass. A request
// counts as one use, even if it passes several protects.
func (p *Protect) spend(g *requestState) (progress, *refusal) {
	j := &g.judging
	var err error
	switch {
	case j.credential.granted:
		if j.credential.granted, err = g.entrance.Access.Use(g.r.Context(), g.who.Subject, j.credential.site.origin); err != nil {
			return refuse(cannotTell(err))
		}
		if j.credential.granted {
			j.verdict, j.decision = allowed, policy.Decision{}
		}
	case j.verdict == allowed && (g.who.UsageLimit > 0 || g.who.AppPassword != "") && !j.credential.used(g.r):
		if g.who, err = j.credential.use(g.r, g.entrance.Authority, p.origin); err != nil {
			return refuse(cannotTell(err))
		}
		switch j.verdict, j.decision = p.decide(g.rules, g.who, false); {
		case j.verdict == allowed && !g.who.Active: // a robot, whose token has been used up meanwhile
			j.verdict = inactive
		case j.verdict == allowed:
			caddyhttp.SetVar(g.r.Context(), usedVar, j.credential)
		}
	}
	if g.decision = j.decision; j.verdict != allowed {
		return p.turnAway(g, j.verdict)
	}
	return onward, nil
}

func (p *Protect) checkCall(g *requestState) (progress, *refusal) {
	return onward, p.checkTools(g, g.who)
}

// settle keeps the credential for as long as the request lasts.
func (p *Protect) settle(g *requestState) (progress, *refusal) {
	g.credential, g.judged = g.judging.credential, true
	g.credential.second = "" // a request that lasts is judged by its session
	if g.kept == "" {
		return onward, nil
	}
	return onward, p.resend(g, g.judging.rec)
}

// introduce tells the upstream who the caller is, and takes the credential away.
func (p *Protect) introduce(g *requestState) (progress, *refusal) {
	p.setIdentityHeaders(g.r, g.who)
	if bad := p.assert(g, g.who); bad != nil {
		return refuse(bad)
	}
	upstream, bad := p.exchange(g)
	if bad != nil {
		return refuse(bad)
	}
	p.countPass(g, g.judging.began)
	p.recordCall(g)
	if p.stripCredentials(g, g.judging.rec); upstream != "" { // it keeps the client's token for a further protect on the way
		g.r.Header["Authorization"] = []string{"Bearer " + upstream}
	}
	return through, nil
}
