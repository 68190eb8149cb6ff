package protect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
)

// The limits, quotas and plans of a site. Package ratelimits counts; here its verdicts become answers.
// (docs/decisions/gateway.md#limits)

// loadLimits prepares the limits. matchers are those of the directive, which tell several in one site apart.
func (p *Protect) loadLimits(ctx caddy.Context, at func(site string) ratelimits.Scope, matchers string) (err error) {
	tried := p.Shadow != nil && len(p.Shadow.Limits) > 0
	if p.RateLimits.Empty() && !tried {
		return nil
	}
	res := caddyfileutil.NewResolverAt(p.Places)
	in := at(cmp.Or(p.name, "a site without a name") + " " + matchers)
	in.Name = "at " + cmp.Or(p.name, p.Place(), "a site without a name")
	if tried {
		if err := p.Shadow.loadLimits(ctx, res, in); err != nil {
			return p.Places.LocateIn(err, "protect")
		}
	}
	if p.limits, err = p.RateLimits.Provision(ctx, res, in); err != nil {
		return p.Places.LocateIn(fmt.Errorf("protect: %w", err), "protect")
	}
	p.parts = p.parts.Or(p.limits.Parts())
	return nil
}

// limitAddress counts a request by the address of the client, before anything else is known. refused: it is answered.
func (p *Protect) limitAddress(g *requestState) (refused bool) {
	if p.limits == nil {
		return false
	}
	g.counted = new(ratelimits.Counted)
	return p.limit(g, p.limits.Before, ratelimits.Call{Address: p.origin(g.r).ClientIP})
}

// limitCaller counts a request that is let pass. who nil: no one was asked who they are.
func (p *Protect) limitCaller(g *requestState, who *token.Introspection, credential string) (refused bool) {
	if p.limits == nil {
		return false
	}
	if p.limit(g, p.limits.After, ratelimits.Call{Who: who, Credential: credential}) {
		return true
	}
	g.counted.Tell(g.Header())
	return false
}

func (p *Protect) limit(g *requestState, count ratelimits.Step, call ratelimits.Call) (refused bool) {
	in, err := g.open()
	if err != nil {
		p.writeRefusal(g, cannotTell(err))
		return true
	}
	if in.Limits == nil { // a rehearsal without a running instance
		return false
	}
	call.Request = asUpstream(g.r)
	f, err := count(in.Limits, g.counted, call, p.now())
	switch {
	case err != nil:
		p.writeRefusal(g, cannotTell(err))
	case f != nil:
		p.countLimited(g, call.Who)
		p.writeRefusal(g, tooMany(f))
	default:
		return false
	}
	return true
}

// giveBack takes back what was counted for a request that did not pass.
func (p *Protect) giveBack(g *requestState, passed bool) {
	if !passed && g.counted != nil {
		g.counted.GiveBack()
	}
}

// tooMany is the answer to a request above a limit. (RFC 6585 4)
func tooMany(f *ratelimits.Refused) refusal {
	out := refusal{
		reason: refusals.RateLimited, status: http.StatusTooManyRequests, code: "rate_limited", text: "too many requests: " + f.Text,
		page: "error.limit", wait: f.Retry, limited: f,
	}
	if f.Quota {
		out.reason, out.code, out.text, out.page = refusals.QuotaUsed, "quota_used", "the quota is used up: "+f.Text, "error.quota"
	}
	return out
}

// problemOf returns the body of the answer for programs. (RFC 9457; draft-ietf-httpapi-ratelimit-headers-10 6)
func problemOf(f refusal, ref string) ([]byte, error) {
	return json.Marshal(struct {
		Type        string   `json:"type"`
		Title       string   `json:"title"`
		Status      int      `json:"status"`
		Detail      string   `json:"detail"`
		Violated    []string `json:"violated-policies"`
		Error       string   `json:"error"`
		Description string   `json:"error_description"`
		Ref         string   `json:"ref,omitempty"`
	}{
		"https://iana.org/assignments/http-problem-types#quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded",
		f.status, f.text,
		[]string{f.limited.Name},
		f.code, f.text, ref,
	})
}
