package protect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

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
	in := at(cmp.Or(p.name, nameless(ctx)) + " " + matchers)
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

// nameless stands for the name of a site without one in the keys of its counters. Caddy provisions servers in any
// order, so what they listen on tells their sites apart.
func nameless(ctx caddy.Context) string {
	const name = "a site without a name"
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		return name + " on " + strings.Join(server.Listen, ", ")
	}
	return name
}

// limitAddress counts a request by the address of the client, before anything else is known.
func (p *Protect) limitAddress(g *requestState) *refusal {
	if p.limits == nil {
		return nil
	}
	g.counted = new(ratelimits.Counted)
	return p.limit(g, p.limits.Before, ratelimits.Call{Address: p.origin(g.r).ClientIP})
}

// limitCaller counts a request that is let pass. who nil: no one was asked who they are.
func (p *Protect) limitCaller(g *requestState, who *token.Introspection, credential string) *refusal {
	if p.limits == nil {
		return nil
	}
	if bad := p.limit(g, p.limits.After, ratelimits.Call{Who: who, Credential: credential}); bad != nil {
		return bad
	}
	g.counted.Tell(g.Header())
	return nil
}

func (p *Protect) limit(g *requestState, count ratelimits.Step, call ratelimits.Call) *refusal {
	in, err := g.open()
	if err != nil {
		return cannotTell(err)
	}
	if in.Limits == nil { // a rehearsal without a running instance
		return nil
	}
	call.Request = asUpstream(g.r)
	over, err := count(in.Limits, g.counted, call, p.now())
	if err != nil {
		return cannotTell(err)
	}
	if over == nil {
		return nil
	}
	p.countLimited(g, call.Who)
	return tooMany(over)
}

// giveBack takes back what was counted for a request that did not pass.
func (p *Protect) giveBack(g *requestState, passed bool) {
	if !passed && g.counted != nil {
		g.counted.GiveBack()
	}
}

// tooMany is the answer to a request above a limit. (RFC 6585 4)
func tooMany(f *ratelimits.Refused) *refusal {
	out := &refusal{
		reason: refusals.RateLimited, status: http.StatusTooManyRequests, code: "rate_limited", text: "too many requests: " + f.Text,
		page: "error.limit", wait: f.Retry, limited: f,
	}
	if f.Quota {
		out.reason, out.code, out.text, out.page = refusals.QuotaUsed, "quota_used", "the quota is used up: "+f.Text, "error.quota"
	}
	return out
}

// problemOf returns the body of the answer for programs. (RFC 9457; draft-ietf-httpapi-ratelimit-headers-10 6)
func problemOf(f *refusal, ref string) ([]byte, error) {
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
