package protect

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/internal/decisionlog"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
)

// Shadow is a set of rules that are tried and not enforced. They replace need, the policies and the rules of the site;
// the other requirements of the site apply to both. (docs/decisions/operation.md#shadow-rules)
type Shadow struct {
	// The requirements for every caller. Default: none.
	Need policy.Need `json:"need,omitzero"`
	// The policies of the app that are tried. Default: none.
	Policies []string `json:"policies,omitempty"`
	// The rules. Default: none.
	Rules policy.Policy `json:"rules,omitzero"`
	// Limits that are tried. If there is nothing else, they are tried with the rules of the site. Default: none.
	Limits []*ratelimits.Limit `json:"limits,omitempty"`

	limits *ratelimits.Set // nil: there are none
	fixed  *ruling
	binder *binder // nil: all policies are in the Caddyfile
}

// readShadow reads the block:
//
//	shadow {
//		need    groups|scopes|level|max_age|claim|person|client|provider <value>...
//		policy  <name>...
//		allow   { ... }
//		deny    { ... }
//		limit   <number>/<period> per <kind> [burst <number>] { ... }
//	}
func (p *Protect) readShadow(d *caddyfile.Dispenser) error {
	if p.Shadow != nil {
		return d.Err("shadow is already set: keep one of them")
	}
	if d.NextArg() {
		return d.Errf("shadow: unexpected argument %q: its rules belong in a block", d.Val())
	}
	s := new(Shadow)
	known := s.Rules.Subdirectives()
	known["need"], known["policy"] = s.Need.ReadLine, caddyfileutil.Values(&s.Policies, nil)
	var limits ratelimits.Options
	known["limit"] = limits.Subdirectives()["limit"]
	p.Shadow = s
	err := caddyfileutil.ReadBlock(d, "shadow", &reference.Shadow, known)
	s.Limits = limits.Limits
	return err
}

// loadLimits prepares the limits. in is the scope of the limits of the site.
func (s *Shadow) loadLimits(ctx caddy.Context, res *caddyfileutil.Resolver, in ratelimits.Scope) (err error) {
	in.Site, in.Name = "shadow of "+in.Site, in.Name+", tried"
	if s.limits, err = (&ratelimits.Options{Limits: s.Limits}).Provision(ctx, res, in); err != nil {
		return fmt.Errorf("protect: shadow: %w", err)
	}
	return nil
}

// onlyLimits reports whether the rules of the site are tried with other limits.
func (s *Shadow) onlyLimits() bool {
	return len(s.Limits) > 0 && s.Need.IsEmpty() && len(s.Policies) == 0 && s.Rules.Empty()
}

// tryLimits returns the limit that would refuse a request, or nil. It counts in buckets of its own.
func (p *Protect) tryLimits(g *requestState, r *http.Request, credential string) *ratelimits.Refused {
	by, call := g.entrance.Limits, ratelimits.Call{Request: asUpstream(r), Address: p.origin(r).ClientIP, Who: g.who, Credential: credential}
	if p.Shadow.limits == nil || by == nil || g.who == nil || !g.who.Active {
		return nil
	}
	var c ratelimits.Counted
	f, err := p.Shadow.limits.Before(by, &c, call, p.now())
	if f == nil && err == nil {
		f, err = p.Shadow.limits.After(by, &c, call, p.now())
	}
	if err != nil {
		p.log.Warn("shadow limits cannot be tried", zap.Error(err))
	}
	return f
}

// load prepares the rules.
func (s *Shadow) load(ctx caddy.Context, res *caddyfileutil.Resolver, p *Protect, use usePolicy) error {
	if s.Need.SetUp(res); res.Err() != nil {
		return fmt.Errorf("protect: shadow: need: %w", res.Err())
	}
	if err := s.Rules.Provision(ctx, "protect: shadow", res); err != nil {
		return err
	}
	parts := p.gather(s.Policies, &s.Rules, "shadow", use)
	if s.fixed = (&ruling{rules: fixedOf(parts)}); slices.ContainsFunc(parts, part.isLater) {
		s.binder = &binder{parts: parts}
	}
	return nil
}

// try chooses the shadow rules for a request, before handlers change it. The returned function is called once the
// request has been decided, with whether it passes.
func (p *Protect) try(g *requestState, credential string) func(passed bool) {
	chosen, err := p.Shadow.choose(g)
	if err != nil {
		p.log.Warn("shadow rules cannot be tried", zap.Error(err))
		return func(bool) {}
	}
	r := g.r
	if len(p.Shadow.Limits) > 0 {
		r = r.Clone(r.Context())
	}
	return func(passed bool) {
		need, judged := &p.Shadow.Need, chosen
		if p.Shadow.onlyLimits() {
			need, judged = &p.Need, g.rules
		}
		v, d := p.decideBy(need, judged, g.who, g.site != nil)
		verdict, rule := verdictFor(reasons[v]), ""
		if d.Rule != nil {
			rule = d.Rule.Label()
		}
		if v == allowed {
			verdict = Allow
			if f := p.tryLimits(g, r, credential); f != nil {
				verdict, rule = Wait, f.Text
			}
		}
		p.compare(g, verdict, rule, passed)
	}
}

func (s *Shadow) choose(g *requestState) (out policy.Selection, err error) {
	now := s.fixed
	if s.binder != nil {
		var book *policy.Book
		if in := g.entrance; in.Policies != nil {
			if book, _, err = in.Policies.Current(g.r.Context()); err != nil {
				return out, err
			}
		}
		if now = s.binder.at(book); now.missing != "" {
			return out, missing(now.missing).cause
		}
	}
	return now.rules.Select(asUpstream(g.r), func() string { return g.protect.robot(g, now.rules) })
}

// compare counts and stores the verdict of the shadow rules next to the live one, and logs a difference.
func (p *Protect) compare(g *requestState, shadow Verdict, rule string, passed bool) {
	live := Allow
	if !passed {
		if g.reason == refusals.Unavailable || g.reason == refusals.Internal || g.reason == "" {
			return // not a verdict
		}
		live = verdictFor(g.reason)
	}
	in := g.entrance
	if in.Counter != nil {
		in.Counter.CountShadow(p.name, rule, string(live), string(shadow))
	}
	out := p.describe(g)
	out.Live, out.Shadow, out.ShadowRule = string(live), string(shadow), rule
	if g.decision.Rule != nil {
		out.LiveRule = g.decision.Rule.Label()
	}
	differs := live.Passes() != shadow.Passes()
	if in.Decisions.Record(&out, differs); !differs || out.PersonID == "" {
		return
	}
	if in.Decisions.Once(out.Site, rule, out.PersonID) {
		p.log.Info("shadow rule differs", zap.String("site", p.name), zap.String("rule", rule), zap.String("live", out.Live),
			zap.String("shadow", out.Shadow),
			zap.String("person_id", out.PersonID), zap.String("username", out.Username), zap.String("method", out.Method),
			zap.String("path", out.Path))
	}
}

// verdictFor returns the verdict of a refusal for a reason.
func verdictFor(reason refusals.Reason) Verdict {
	if v, ok := verdictOf[reason]; ok {
		return v
	}
	return Deny
}

// Passes reports whether a request with this verdict reaches the upstream.
func (v Verdict) Passes() bool { return v == Allow || v == Open }

// askedAt returns the origin to which the client sent a request.
func askedAt(g *requestState) string {
	switch {
	case g.site != nil:
		return g.site.origin
	case g.r.TLS != nil:
		return "https://" + g.r.Host
	}
	return "http://" + g.r.Host
}

// describe returns the caller and the target of a request, without secrets.
func (p *Protect) describe(g *requestState) decisionlog.Decision {
	r := g.r
	out := decisionlog.Decision{
		Site: askedAt(g), Method: r.Method, Path: original(r).Path, IP: p.origin(r).ClientIP, Browser: g.site != nil,
		Navigates: isNavigation(r),
	}
	who := g.who
	if who == nil || !who.Active {
		return out
	}
	out.ClientID, out.Scopes, out.Audience, out.Level, out.Provider, out.AuthTime = who.ClientID, who.Scope, who.Audience, who.Level,
		who.Provider, who.AuthTime
	if who.Person != nil {
		out.PersonID, out.Username, out.Groups, out.Partition = who.Person.ID, who.Person.Username, who.Person.Groups, who.Person.Partition
	}
	return out
}
