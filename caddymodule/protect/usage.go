package protect

import (
	"cmp"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/usage"
)

// passCounter remembers where the requests that pass are counted, so counting one costs no look-up and no memory.
type passCounter struct {
	of     counter // which the next configuration may replace
	used   *usage.Counter
	passes prometheus.Counter
	usage  *usage.Site
}

// counters returns what counts the requests of the site. Its passes are nil without metrics.
func (p *Protect) counters(in *Entrance) *passCounter {
	known := p.passes.Load()
	if known == nil || known.of != in.Counter || known.used != in.Usage {
		known = &passCounter{of: in.Counter, used: in.Usage, usage: in.Usage.Site(cmp.Or(p.name, p.Place()))}
		if in.Counter != nil {
			known.passes = in.Counter.SitePasses(p.name)
		}
		p.passes.Store(known)
	}
	return known
}

// countPass counts a request that passes. As the use of a client it counts once, also if it passes several protects.
func (p *Protect) countPass(g *requestState, at time.Time) {
	c := p.counters(&g.entrance)
	if c.passes != nil {
		c.passes.Inc()
	}
	if c.usage == nil || g.who == nil || g.who.ClientID == "" {
		return
	}
	if h, ok := caddyhttp.GetVar(g.r.Context(), holderVar).(*holder); ok {
		if h.counted {
			return
		}
		h.counted = true
	}
	c.usage.Passed(g.who.ClientID, at)
}

// countLimited counts a request that a limit has refused. who nil: no one was asked who they are.
func (p *Protect) countLimited(g *requestState, who *token.Introspection) {
	if who != nil {
		p.counters(&g.entrance).usage.Limited(who.ClientID, p.now())
	}
}
