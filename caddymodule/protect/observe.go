package protect

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
)

// counter counts lookups and panics, for the metrics.
type counter interface {
	CountIntrospection(by string)
	CountPanic()
	// CountDevice counts a step of binding a session to a device.
	CountDevice(outcome dbsc.Outcome)
	// Judged counts a request that a site has judged, by how long that took.
	Judged(took time.Duration)
	// CountSite counts a request that a site has not let pass: result is refused or sign_in.
	CountSite(site, result, reason string)
	// CountShadow counts a request at a site with shadow rules, by the one that would decide and both verdicts.
	CountShadow(site, rule, live, shadow string)
	// SitePasses returns the counter of the requests that a site lets pass.
	SitePasses(site string) prometheus.Counter
	policy.Counter
}

// countKept counts a request that has not passed.
func (p *Protect) countKept(c counter, result string, reason refusals.Reason) {
	if c != nil {
		c.CountSite(p.name, result, string(reason))
	}
}

// countJudged counts a request that was judged. One that is rehearsed has no counter.
func (p *Protect) countJudged(c counter, began time.Time) {
	if c != nil {
		c.Judged(p.now().Sub(began))
	}
}

// countRule counts a request about which a rule has decided. nil: none has.
func countRule(c counter, rule *policy.Rule) {
	if c != nil && rule != nil {
		rule.Count(c)
	}
}

// check begins the span of the check of a request, below that of Caddy's directive tracing. nil: nothing is traced.
func (p *Protect) check(g *requestState) trace.Span {
	parent := trace.SpanFromContext(g.r.Context())
	if !parent.IsRecording() {
		return nil
	}
	_, span := parent.TracerProvider().Tracer("gatehouse").Start(g.r.Context(), "gatehouse.protect",
		trace.WithAttributes(attribute.String("gatehouse.site", p.name)))
	return span
}

// checked ends the span of a check.
func checked(span trace.Span, g *requestState, passed bool) {
	span.SetAttributes(attribute.Bool("gatehouse.allowed", passed))
	if who := g.who; who != nil && who.Active {
		span.SetAttributes(attribute.String("gatehouse.client_id", who.ClientID))
		if who.Person != nil {
			span.SetAttributes(attribute.String("enduser.id", who.Person.ID))
		}
	}
	span.End()
}
