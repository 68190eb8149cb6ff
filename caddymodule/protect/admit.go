package protect

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
)

// ServeHTTP lets a request pass to the next handler or answers it.
func (p *Protect) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return p.pass(&requestState{ResponseWriter: w, protect: p, r: r}, next)
}

// pass is the one way through protect, for requests and for those that are rehearsed.
func (p *Protect) pass(g *requestState, next caddyhttp.Handler) error {
	if !p.admit(g) {
		return nil
	}
	return g.forward(next)
}

// admit decides about a request. false: it has been answered. A panic refuses the request.
func (p *Protect) admit(g *requestState) (ok bool) {
	defer g.close()
	defer func() {
		if v := recover(); v != nil {
			ok = false
			if c := g.entrance.Counter; c != nil {
				c.CountPanic()
			}
			p.log.Error("panic", zap.Any("panic", v), zap.Stack("stack"))
			p.writeRefusal(g, refusal{
				reason: refusals.Internal, status: http.StatusInternalServerError, code: "server_error",
				text: "internal error", page: "error.internal",
			})
		}
	}()
	shorten(g.r)
	g.upgrade, g.webSocket = g.r.ProtoMajor == 1 && len(g.r.Header["Upgrade"]) > 0, isWebSocket(g.r)
	if bad := p.form(g); bad != nil {
		return p.writeRefusal(g, *bad)
	}
	if p.metadata.Serve(g.ResponseWriter, g.r) {
		return false
	}
	if err := p.bind(g); err != nil {
		return p.writeRefusal(g, cannotTell(err))
	}
	asks := g.ruling.asks
	asks.Path = asks.Path || len(g.ruling.public) > 0
	if bad := readable(g.r, asks); bad != nil {
		return p.writeRefusal(g, *bad)
	}
	guarded, err := p.guards(g.r)
	p.cleanse(g, guarded)
	for _, provider := range p.idps {
		provider.Cleanse(g.r)
	}
	if err != nil {
		return p.writeRefusal(g, cannotTell(fmt.Errorf("matcher: %w", err)))
	}
	if guarded && p.limitAddress(g) {
		return false
	}
	rec := receive(g.r)
	if p.Login && p.ownPath(g, rec) {
		return false
	}
	if guarded && g.ruling.missing != "" {
		return p.writeRefusal(g, missing(g.ruling.missing))
	}
	if p.replay && p.resume(g, rec) {
		return false
	}
	if guarded && !g.ruling.public.Match(g.r.URL.Path) && !(p.Preflight && isPreflight(g.r)) {
		return p.judge(g, rec)
	}
	if g.kept != "" { // nothing is kept for open paths
		return p.writeRefusal(g, nothingKept)
	}
	if guarded && (p.closed(g) || p.limitCaller(g, nil, "")) {
		return false
	}
	if guarded || !introduced(g.r) {
		placeholders(g.r, nil, p.now)
	}
	p.stripCredentials(g, rec)
	return true
}

// judge looks the credential of a request up and decides whether it may pass.
func (p *Protect) judge(g *requestState, rec *credentials) (passed bool) {
	began := p.now()
	defer func() {
		p.countJudged(g.entrance.Counter, began)
		countRule(g.entrance.Counter, g.decision.Rule)
	}()
	if span := p.check(g); span != nil {
		defer func() { checked(span, g, passed) }()
	}
	if bad := tokenInQuery(g.r.URL.RawQuery); bad != nil {
		caddyhttp.SetVar(g.r.Context(), caddyhttp.LogSkipVar, true) // the access log would keep the token
		return p.writeRefusal(g, *bad)
	}
	text, byProof, bad := rec.bearer()
	if g.foreign = p.isForeign(g.r, rec, text, bad); g.foreign {
		text, byProof, bad = "", false, nil
	}
	if g.byProof = byProof; bad != nil {
		return p.writeRefusal(g, *bad)
	}
	wrong := false
	if text == "" && p.accepts {
		text, wrong = p.basic(g, rec)
	}
	in, err := g.open()
	if err != nil {
		return p.writeRefusal(g, cannotTell(err))
	}
	// A Bearer header of this issuer decides when it is present, valid or not; the cookie is then ignored.
	c := credential{token: text, at: p.appPasswordSite(g.r, text)}
	if text == "" && !wrong && p.Login {
		if g.site = p.siteOf(g.r); g.site == nil {
			return p.writeRefusal(g, refusal{
				reason: refusals.UnknownSite, status: http.StatusMisdirectedRequest, code: "invalid_request",
				text: "the site is not known under this host", page: "error.bad_request",
			})
		}
		c = siteCredential(g.site, rec)
	}
	if err := p.selectRules(g, g.r); err != nil {
		return p.writeRefusal(g, cannotTell(err))
	}
	if p.Shadow != nil {
		tried := p.try(g, c.token)
		defer func() { tried(passed) }()
	}
	if c.token == "" {
		v, d := p.decide(g.rules, nil, c.site != nil)
		if g.decision = d; v == allowed {
			return p.passRobot(g, rec, began)
		}
		if v == inactive && !wrong {
			v = noCredentials
		}
		return p.turnAway(g, rec, in.Authority, v)
	}
	if in.Counter != nil {
		in.Counter.CountIntrospection("protect")
	}
	who, err := c.ask(g.r, in.Authority)
	if err != nil {
		return p.writeRefusal(g, cannotTell(err))
	}
	g.who = who
	if bad := p.checkProof(g, rec, in, c, who); bad != nil {
		return p.writeRefusal(g, *bad)
	}
	v, d := p.decide(g.rules, who, c.site != nil)
	if v == allowed && !who.Active {
		g.decision = d
		return p.passRobot(g, rec, began)
	}
	if v != allowed {
		if v, d, c.granted, err = p.findGrant(g.r.Context(), in, g.rules, c, who, v, d); err != nil {
			return p.writeRefusal(g, cannotTell(err))
		}
	}
	if v == allowed || c.granted {
		if p.limitCaller(g, who, c.token) {
			return false
		}
		defer func() { p.giveBack(g, passed) }()
	}
	switch {
	case c.granted:
		if c.granted, err = in.Access.Use(g.r.Context(), who.Subject, c.site.origin); err != nil {
			return p.writeRefusal(g, cannotTell(err))
		}
		if c.granted {
			v, d = allowed, policy.Decision{}
		}
	case v == allowed && (who.UsageLimit > 0 || who.AppPassword != "") && !c.used(g.r):
		// A request that passes counts as one use, even if it passes several protects.
		if who, err = c.use(g.r, in.Authority, p.origin); err != nil {
			return p.writeRefusal(g, cannotTell(err))
		}
		g.who = who
		switch v, d = p.decide(g.rules, who, false); {
		case v == allowed && !who.Active: // a robot, whose token has been used up meanwhile
			v = inactive
		case v == allowed:
			caddyhttp.SetVar(g.r.Context(), usedVar, c)
		}
	}
	if g.decision = d; v != allowed {
		return p.turnAway(g, rec, in.Authority, v)
	}
	if !p.mayCall(g, who) {
		return false
	}
	g.credential, g.judged = c, true
	g.credential.second = "" // a request that lasts is judged by its session
	if g.kept != "" && !p.resend(g, rec) {
		return false
	}
	p.setIdentityHeaders(g.r, who)
	if bad := p.assert(g, who); bad != nil {
		return p.writeRefusal(g, *bad)
	}
	upstream, bad := p.exchange(g)
	if bad != nil {
		return p.writeRefusal(g, *bad)
	}
	p.countPass(g, began)
	p.recordCall(g)
	if p.stripCredentials(g, rec); upstream != "" { // it keeps the client's token for a further protect on the way
		g.r.Header["Authorization"] = []string{"Bearer " + upstream}
	}
	return true
}
