package protect

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/usage"
)

// tracer keeps what is traced.
type tracer struct {
	mu    sync.Mutex // guards spans
	spans []*span
}

type provider struct {
	noop.TracerProvider
	t *tracer
}

func (p provider) Tracer(string, ...trace.TracerOption) trace.Tracer { return starter{t: p.t} }

type starter struct {
	noop.Tracer
	t *tracer
}

func (s starter) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	config := trace.NewSpanStartConfig(opts...)
	started := &span{t: s.t, name: name, attributes: config.Attributes()}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.t.spans = append(s.t.spans, started)
	return ctx, started
}

type span struct {
	noop.Span
	t          *tracer
	name       string
	attributes []attribute.KeyValue
	events     []string
	ended      bool
}

func (s *span) IsRecording() bool                            { return true }
func (s *span) TracerProvider() trace.TracerProvider         { return provider{t: s.t} }
func (s *span) SetAttributes(kv ...attribute.KeyValue)       { s.attributes = append(s.attributes, kv...) }
func (s *span) AddEvent(name string, _ ...trace.EventOption) { s.events = append(s.events, name) }
func (s *span) End(...trace.SpanEndOption)                   { s.ended = true }

func (s *span) value(key string) string {
	for _, kv := range s.attributes {
		if string(kv.Key) == key {
			return kv.Value.String()
		}
	}
	return ""
}

// TestTrace: in a trace of Caddy, the check is a span with its outcome, and a refusal is an event of the request.
func TestTrace(t *testing.T) {
	t.Parallel()
	fake := &fakeAuthority{tokens: map[string]*token.Introspection{}}
	good := newToken(t, secret.AccessToken)
	fake.tokens[good] = person(1, "staff")
	p := &testProtect{Protect: Protect{Sites: []string{"https://api.example.com"}}}
	if err := p.wire(fake, caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, token, allowed, client string }{
		{"a good token", good, "true", "shop"},
		{"an unknown token", newToken(t, secret.AccessToken), "false", ""},
	} {
		tr := &tracer{}
		request := &span{t: tr}
		r := httptest.NewRequest(http.MethodGet, "https://api.example.com/x?secret=1", nil)
		r.Header.Set("Authorization", "Bearer "+tt.token)
		ctx := context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{})
		ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewReplacer())
		r = r.WithContext(trace.ContextWithSpan(ctx, request))
		next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
		if err := p.ServeHTTP(httptest.NewRecorder(), r, next); err != nil {
			t.Fatal(err)
		}
		if len(tr.spans) != 1 || tr.spans[0].name != "gatehouse.protect" || !tr.spans[0].ended {
			t.Fatalf("%s: spans = %+v, want one that has ended", tt.name, tr.spans)
		}
		s := tr.spans[0]
		if s.value("gatehouse.allowed") != tt.allowed || s.value("gatehouse.site") != "api.example.com" ||
			s.value("gatehouse.client_id") != tt.client {
			t.Errorf("%s: attributes = %v", tt.name, s.attributes)
		}
		if refused := len(request.events) == 1 && request.events[0] == "refused"; refused == (tt.allowed == "true") {
			t.Errorf("%s: events = %q", tt.name, request.events)
		}
	}
}

// sites counts requests, as the metrics do.
type sites struct{ vec *prometheus.CounterVec }

func (sites) CountIntrospection(string)                    {}
func (sites) CountDevice(dbsc.Outcome)                     {}
func (sites) CountPanic()                                  {}
func (sites) Judged(time.Duration)                         {}
func (s sites) CountShadow(string, string, string, string) {}

func (s sites) CountSite(site, result, reason string) {
	s.vec.WithLabelValues(site, result, reason).Inc()
}

func (sites) Rule(string) *stats.RuleCount { return new(stats.RuleCount) }

func (s sites) SitePasses(site string) prometheus.Counter {
	return s.vec.WithLabelValues(site, "allowed", "")
}

// TestCountingCostsNothing: a request that passes is counted without an allocation, and not traced without one.
func TestCountingCostsNothing(t *testing.T) {
	p := &Protect{passes: new(atomic.Pointer[passCounter]), name: "wiki.example.com"}
	c := &sites{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x"}, []string{"site", "result", "reason"})}
	start := time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)
	g := &requestState{
		r: httptest.NewRequest(http.MethodGet, "/", nil), who: &token.Introspection{ClientID: "shop"},
		entrance: Entrance{Counter: c, Usage: usage.New(nil, nil, zap.NewNop())},
	}
	rules := policy.Policy{Allow: []*policy.Rule{{Name: "staff"}}}
	rules.CountAs("policy office")
	if n := testing.AllocsPerRun(100, func() {
		p.countPass(g, start)
		countRule(c, rules.Allow[0])
		if p.check(g) != nil {
			t.Error("a span without a trace")
		}
	}); n != 0 {
		t.Errorf("counting a request allocates %v times", n)
	}
}

// ruleNames remembers which rules were counted.
type ruleNames struct {
	*sites

	mu    sync.Mutex // guards names
	names []string
}

func (r *ruleNames) Rule(name string) *stats.RuleCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = append(r.names, name)
	return new(stats.RuleCount)
}

// TestRulesAreCounted: the rule that decides about a request is counted under whose it is, and looked up once.
func TestRulesAreCounted(t *testing.T) {
	counted := &ruleNames{sites: &sites{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x"}, []string{"site", "result", "reason"})}}
	g, tokens := rulesGateway(t)
	g.fake.mu.Lock()
	g.fake.counter = counted
	g.fake.mu.Unlock()
	for _, c := range []struct{ who, request string }{
		{"staff", "GET /office/x"},
		{"staff", "GET /office/y"},
		{"both", "GET /office/plans/x"},
		{"weak admin", "POST /admin/x"},
		{"staff", "GET /elsewhere"},
		{"staff", "GET /open/closed"},
		{"staff", "GET /open/x"},
	} {
		g.raw(t, c.request+" HTTP/1.1", "Host: rules.test", "Authorization: Bearer "+tokens[c.who])
	}
	counted.mu.Lock()
	defer counted.mu.Unlock()
	got := strings.Join(counted.names, "\n")
	for _, want := range []string{"policy office: allow office", ": deny guests", ": allow admins", ": deny closed"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q was counted under other names than once %q", got, want)
		}
	}
	if len(counted.names) != 4 {
		t.Errorf("counted rules = %q, want those that have decided", counted.names)
	}
}
