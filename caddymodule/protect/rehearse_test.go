package protect

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/mcp"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// rehearsedSites are options of sites, of which several kinds of requests pass some.
var rehearsedSites = []string{
	`"scopes":["a"]`,
	`"groups":["staff","admins"],"level":"2","public":["/open/*"]`,
	`"audience":["https://site.test"]`,
	`"match":[{"path":["/office/*"]}]`,
	`"need":{"claims":[{"name":"name","values":["Demo Pérson"]}],"max_age":"10m"}`,
	rulesOfSite,
	rulesOfSite + `,"login":true,"origins":["https://site.test"],"session":"12h","preflight":true`,
	`"login":true,"level":"3","origins":["https://site.test"],"public":["/open/*"]`,
	// What only tries changes nothing.
	rulesOfSite + `,"login":true,"origins":["https://site.test"],` + triedRules,
	`"login":true,"origins":["https://site.test"],` + triedRules,
	// Limits, which are asked before the request counts.
	`"groups":["staff"],"public":["/open/*"],"rate_limits":{"limits":[{"rate":"3/s","per":"ip"},{"rate":"2/s","per":"client"}],` +
		`"quotas":[{"rate":"40/min","per":"person"},{"rate":"200/min","per":"site"}]}`,
	`"login":true,"origins":["https://site.test"],"rate_limits":{"plan":true,"limits":[` +
		`{"rate":"60/min","per":"session","burst":"3","match":[{"method":["GET","POST"]}]},{"rate":"5/min","per":"claim","claim":"groups"}]}`,
	`"partitions":["other"],"headers":[{"name":"X-User","claim":"sub"},{"name":"X-Groups","claim":"groups"}]`,
	`"scopes":["a"],"mcp":{},"sites":["https://site.test"]`,
	`"sites":["http://` + siteTriesItsRules + `"],` + rulesOfMethods + `,"shadow":{` + rulesOfMethods + `}`,
}

// siteTriesItsRules is the name of a site whose shadow rules are those in force.
const siteTriesItsRules = "tries.test"

const rulesOfMethods = `"rules":{
	"deny":[{"name":"guests","match":[{"method":["GET"],"path":["/office/*"]}],"need":{"groups":["guests"]}}],
	"allow":[{"name":"read","match":[{"method":["GET","HEAD"]}],"need":{"groups":["staff"]}},
		{"name":"write","match":[{"method":["POST"]}],"need":{"level":"2"}}]}`

// sameRules counts how often shadow rules that are those in force were tried, and how often they said something else.
type sameRules struct {
	*sites

	tried, differed int
}

func (s *sameRules) CountShadow(site, _, live, shadow string) {
	if site != siteTriesItsRules {
		return
	}
	if s.tried++; live != shadow {
		s.differed++
	}
}

const triedRules = `"shadow":{"need":{"max_age":"1h"},"rules":{
	"deny":[{"name":"offices","match":[{"path":["/office/*","/admin/*"]}],"need":{"groups":["staff"]}}],
	"allow":[{"name":"strong","match":[{"method":["GET"]}],"need":{"level":"3"}}]}}`

// What is told of a request is what the same request gets: whether it passes, the answer, and the headers that go up.
func TestExplainedAsLive(t *testing.T) {
	t.Parallel()
	rounds := 4000
	if s := os.Getenv("GATEHOUSE_REHEARSALS"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	fake := &fakeAuthority{tokens: map[string]*token.Introspection{}, sessions: map[string]*token.Introspection{}}
	fake.limits = limit.NewCounters(nil, func() time.Time { return now }, zap.NewNop())
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	fakes.Store(t.Name(), fake)
	defer fakes.Delete(t.Name())
	same := &sameRules{sites: &sites{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x"}, []string{"site", "result", "reason"})}}
	fake.counter = same
	resources := new(mcp.Sites)
	sites := make([]*Protect, len(rehearsedSites))
	for i, options := range rehearsedSites {
		p := &testProtect{Fake: t.Name()}
		if err := json.Unmarshal([]byte("{"+options+"}"), p); err != nil {
			t.Fatal(err)
		}
		if err := p.Provision(ctx); err != nil {
			t.Fatal(err)
		}
		p.now, p.log, p.metadata = func() time.Time { return now }, zap.NewNop(), resources
		if p.MCP != nil {
			resources.Add(p.resourceServer(), p.issuer, nil)
		}
		sites[i] = &p.Protect
	}
	persons := []*token.Introspection{nil, {}}
	for _, groups := range [][]string{nil, {"staff"}, {"guests"}, {"admins", "staff"}, {"staff", "guests"}} {
		for level := 1; level <= 4; level++ {
			for _, age := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
				who := person(level, groups...)
				who.AuthTime = now.Add(-age)
				persons = append(persons, who)
			}
		}
	}
	other := person(2, "staff")
	other.Person.Partition = "other"
	counted := person(2, "staff")
	counted.UsageLimit = 3
	meant := person(3, "staff")
	meant.Audience = []string{"https://site.test"}
	persons = append(persons, other, counted, meant,
		&token.Introspection{Active: true, Subject: "deploy", ClientID: "deploy", Scope: []string{"write", "a"}})
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same requests each time
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	verdicts, answeredHere := map[Verdict]int{}, 0
	for range rounds {
		p, who, browser := sites[random.IntN(len(sites))], persons[random.IntN(len(persons))], random.IntN(2) == 0
		browser = browser && (who == nil || who.UsageLimit == 0) // sessions have none
		target := pick("/", "/office/x", "/office/plans/x", "/admin/x", "/recent/x", "/write", "/open/x", "/open/closed", "/closed/y", "/events",
			"/elsewhere", "/office//x", "/Office/x",
			"/office/%2e%2e/admin", "/admin;x", "/open/x?access_token=t", "/office/x?q=1", "/.well-known/oauth-protected-resource")
		method := pick("GET", "GET", "POST", "HEAD", "DELETE", "OPTIONS", "TRACE", "CONNECT")
		headers := http.Header{}
		for _, h := range [][2]string{
			{"Accept", "text/html"},
			{"Remote-User", "root"},
			{"Sec-Fetch-Mode", "navigate"},
			{"Origin", "https://evil.test"},
			{"Access-Control-Request-Method", "PUT"},
			{"X-Original-URL", "/open/x"},
			{"Cookie", "a=b"},
			{"Connection", "Remote-User"},
			{"X_User", "root"},
		} {
			if random.IntN(5) == 0 {
				headers.Add(h[0], h[1])
			}
		}
		request := func() *http.Request {
			r := httptest.NewRequest(method, target, nil)
			r.Host, r.Header = "site.test", headers.Clone()
			if method == http.MethodConnect { // a WebSocket over HTTP/2
				r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
				r.Header[":protocol"] = []string{"websocket"}
			}
			return r
		}
		now = now.Add(time.Duration(random.IntN(int(40 * time.Millisecond))))
		address := pick("192.0.2.1", "2001:db8::1", "2001:db8::2", "")
		prepare := func(r *http.Request, w http.ResponseWriter) *http.Request {
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
			caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, address)
			return r
		}
		hits := 0
		rw := httptest.NewRecorder()
		told, err := p.Rehearse(rw, prepare(request(), rw), Caller{Who: who, Browser: browser, Now: now, Limits: fake.limits},
			func(http.ResponseWriter, *http.Request) error {
				hits++
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		live := request()
		if who != nil {
			if browser {
				raw := newToken(t, secret.SiteSession)
				fake.set(func() { fake.sessions["https://site.test "+raw] = who })
				if p.Login {
					live.Header.Add("Cookie", cookie.For("https://site.test").Name(kindSession)+"="+raw)
				}
			} else {
				raw := newToken(t, secret.AccessToken)
				fake.set(func() { fake.tokens[raw] = who })
				live.Header.Set("Authorization", "Bearer "+raw)
			}
		}
		seen := map[string]string(nil)
		lw := httptest.NewRecorder()
		err = p.ServeHTTP(lw, prepare(live, lw), caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
			seen = map[string]string{}
			for name, v := range r.Header {
				if p.guarded.Has(name) {
					seen[name] = v[0]
				}
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		verdicts[told.Verdict]++
		// Metadata of resources are for everyone, and no upstream is asked for them.
		metadata := seen == nil && lw.Code < http.StatusMultipleChoices
		if metadata {
			answeredHere++
		}
		if (hits == 1) != (seen != nil) || told.Verdict.Passes() != (seen != nil || metadata) || metadata && told.Verdict != Open ||
			!maps.Equal(told.Headers, seen) ||
			rw.Code != lw.Code || rw.Header().Get("WWW-Authenticate") != lw.Header().Get("WWW-Authenticate") ||
			rw.Header().Get("RateLimit") != lw.Header().Get("RateLimit") || rw.Header().Get("Retry-After") != lw.Header().Get("Retry-After") {
			t.Fatalf("%s %s %v by %+v at %s: live %d %v %q, told %s %d %v %q", method, target, headers, who, p.name, lw.Code, seen,
				lw.Header().Get("WWW-Authenticate"), told.Verdict, rw.Code, told.Headers, rw.Header().Get("WWW-Authenticate"))
		}
		// A rule that is said to decide says itself that it fits, or that it would.
		for _, l := range told.Rules {
			if l.Decides && slices.Contains([]string{policy.OtherRequest, policy.OtherTime, policy.OtherCaller, policy.NotAsked}, l.Fit) {
				t.Fatalf("%s %s by %+v: %s decides and is said to be %q", method, target, who, l.Rule, l.Fit)
			}
		}
	}
	if answeredHere == 0 || same.tried == 0 {
		t.Errorf("%d requests were for metadata, and %d were judged by rules that are tried", answeredHere, same.tried)
	}
	if same.differed > 0 {
		t.Errorf("of %d requests, %d got another verdict from shadow rules that are those in force", same.tried, same.differed)
	}
	for _, v := range []Verdict{Open, Allow, SignIn, StepUp, Again, Wait, Deny, Invalid} {
		if verdicts[v] == 0 {
			t.Errorf("no request of %d had the verdict %s: %v", rounds, v, verdicts)
		}
	}
}
