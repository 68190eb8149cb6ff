package protect

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// testProtect is protect with a fake authority.
type testProtect struct {
	Protect
	Fake string `json:"fake"`
}

var fakes sync.Map // name -> *fakeAuthority

const fakeRecheck = 20 * time.Millisecond

func (*testProtect) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.protect_test", New: func() caddy.Module { return new(testProtect) }}
}

func (p *testProtect) Provision(ctx caddy.Context) error {
	found, ok := fakes.Load(p.Fake)
	if !ok {
		return errors.New("no such fake")
	}
	if err := p.wire(found.(*fakeAuthority), ctx); err != nil {
		return err
	}
	if err := p.loadMatchers(ctx); err != nil {
		return err
	}
	at := func(site string) ratelimits.Scope { return ratelimits.Scope{Site: site, Plans: testPlans(ctx)} }
	if err := p.loadLimits(ctx, at, ""); err != nil {
		return err
	}
	p.raiseReach()
	return p.loadRules(ctx, func(name, _, _ string) *policy.Policy {
		office := &policy.Policy{Allow: []*policy.Rule{{
			Name: "office", Match: caddyhttp.RawMatcherSets{{"path": []byte(`["/office/*"]`)}}, Need: policy.Need{Groups: []string{"staff"}},
			When: []string{"00:00-24:00 UTC"},
		}}}
		if name != "office" || office.Provision(ctx, "policy office", caddyfileutil.NewResolver(caddy.NewReplacer())) != nil {
			return nil
		}
		office.CountAs("policy office")
		return office
	})
}

func (p *testProtect) wire(f *fakeAuthority, ctx caddy.Context) error {
	pages, err := web.New(web.Config{Issuer: "https://issuer.test", Locales: []string{"en", "de"}, Key: make([]byte, 32)})
	if err != nil {
		return err
	}
	if ctx.Context != nil {
		p.log = ctx.Logger()
	}
	p.recheck, p.now, p.issuer = fakeRecheck, f.now, "https://issuer.test"
	p.scopeLevel = func(scope string) (level, assurance int) {
		return map[string]int{"strong": 3}[scope], map[string]int{"assured": 2}[scope]
	}
	if f.store != nil || f.patient {
		p.recheck = time.Hour
	}
	p.enter = func(context.Context) (Entrance, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.gone != nil {
			return Entrance{}, f.gone
		}
		hasRules := f.hasRules
		if hasRules == nil {
			hasRules = func(string) bool { return true }
		}
		admit := func(*http.Request, int) bool { f.mu.Lock(); defer f.mu.Unlock(); return !f.closed }
		return Entrance{
			Authority: f, SavedForms: f.savedForms, Access: f.grants(), Policies: f.policies(), Pages: pages, Counter: f.counter,
			Admit: admit, HasRules: hasRules, Limits: f.limits, Robots: f.robots, Leave: func() {}, Assertions: f.assertions,
			Transactions: f.transacts, Proofs: f.proofs,
		}, nil
	}
	p.origin = func(r *http.Request) audit.Origin {
		ip, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
		return audit.Origin{ClientIP: ip, UserAgent: r.UserAgent()}
	}
	return p.setUp(caddyfileutil.NewResolver(caddy.NewReplacer()))
}

func init() { caddy.RegisterModule(new(testProtect)) }

// gateway is a running Caddy with one site for each set of rules, in front of an echo.
type gateway struct {
	*echo
	fake    *fakeAuthority
	access  *fakeAccess
	addr    string // plain HTTP, and HTTP/2 with prior knowledge
	trusted string // the same, believing 127.0.0.1 as a proxy
	port    string
	log     string // file
	fastCGI string // address of the upstream of php.test; nothing listens there until a test does

	user, expired string // bearer tokens
	other         *other // whose tokens remote.test takes
}

func (g *gateway) origin(host string) string { return "http://" + host + ":" + g.port }

func startGateway(t *testing.T, options ...func(*fakeAuthority)) *gateway {
	t.Helper()
	g := &gateway{
		echo: startEcho(t), log: filepath.Join(t.TempDir(), "caddy.log"),
		fake: &fakeAuthority{
			tokens: map[string]*token.Introspection{}, sessions: map[string]*token.Introspection{}, codes: map[string]fakeCode{},
			formers: map[string]string{},
		},
		user: newToken(t, secret.AccessToken), expired: newToken(t, secret.AccessToken),
	}
	for _, o := range options {
		o(g.fake)
	}
	g.fake.tokens[g.user] = person(1, "staff")
	g.fake.savedForms = newForms(t, g.fake)
	g.fake.proofs = newProofs(t, g.fake)
	g.fake.limits = limit.NewCounters(nil, g.fake.now, zap.NewNop()) // nothing is written
	g.access = &fakeAccess{store: g.fake.store, now: g.fake.now, states: map[string]AccessState{}, ends: map[string]time.Time{}}
	g.fake.access = g.access
	g.other = startOther(t)
	fakes.Store(t.Name(), g.fake)
	t.Cleanup(func() { fakes.Delete(t.Name()) })
	g.port, g.fastCGI = caddytest.FreePort(t), "127.0.0.1:"+caddytest.FreePort(t)
	g.addr, g.trusted = "127.0.0.1:"+g.port, "127.0.0.1:"+caddytest.FreePort(t)
	sites := map[string]string{
		"bearer.test":       `"scopes":["a"]`,
		"remote.test":       g.other.site(),
		"open.test":         ``,
		"c.test":            `"scopes":["a","c"]`,
		"aud.test":          `"audience":["https://aud.test"]`,
		"strip.test":        `"strip_token":true`,
		"own.test":          `"headers":[{"name":"X-Auth-User","claim":"sub"},{"name":"X-Auth-Name","claim":"name"}]`,
		"public.test":       `"public":["/public/*","/healthz"]`,
		"inner.test":        `"public":["/public/*"]`,
		"match.test":        `"match":[{"path":["/api/*"]}]`,
		"post.test":         `"match":[{"method":["POST"]}]`,
		"notpath.test":      `"match":[{"not":[{"path":["/assets/*"]}]}],"headers":[{"name":"X-Auth-User","claim":"sub"}]`,
		"second.test":       `"headers":[{"name":"X-Auth-User","claim":"sub"}]`,
		"preflight.test":    `"preflight":true`,
		"down.localhost":    `"login":true,"origins":["` + g.origin("down.localhost") + `"]`,
		"tidy.localhost":    `"login":true,"origins":["` + g.origin("tidy.localhost") + `"]`,
		"half.localhost":    `"login":true,"match":[{"path":["/private/*"]}],"origins":["` + g.origin("half.localhost") + `"]`,
		"bound.localhost":   `"assertion":"Remote-Assertion","sites":["` + g.origin("bound.localhost") + `"]`,
		"signed.localhost":  `"login":true,"assertion":"X-Gate-Token","origins":["` + g.origin("signed.localhost") + `"]`,
		"rebound.localhost": `"assertion":"Remote-Assertion","public":["/public/*"],"sites":["` + g.origin("rebound.localhost") + `"]`,
		"txn.localhost":     `"transaction_token":{"domain":"shop.example.com"},"sites":["` + g.origin("txn.localhost") + `"]`,
		"begin.localhost": `"login":true,"transaction_token":{"domain":"shop.example.com","scopes":["a","strong","assured"]},"assertion":"X-Txn","origins":["` +
			g.origin("begin.localhost") + `"]`,
		"staff.test":      `"groups":["staff","admins"]`,
		"level.test":      `"level":"2"`,
		"wiki.localhost":  `"login":true,"session":"12h","origins":["` + g.origin("wiki.localhost") + `"]`,
		"step.localhost":  `"login":true,"level":"2","groups":["staff"],"origins":["` + g.origin("step.localhost") + `"]`,
		"pub.localhost":   `"login":true,"public":["/public/*"],"origins":["` + g.origin("pub.localhost") + `"]`,
		"twice.localhost": `"login":true,"strip_token":true,"origins":["` + g.origin("twice.localhost") + `"]`,
		"kept.localhost":  `"login":true,"replay":"on","session":"12h","public":["/open"],"origins":["` + g.origin("kept.localhost") + `"]`,
		"also.localhost":  `"login":true,"replay":"on","origins":["` + g.origin("also.localhost") + `"]`,
		"tls.test":        `"login":true,"origins":["https://tls.test"]`,
		"rules.test":      rulesOfSite,
		"later.test":      `"policies":["later","office"],"public":["/open"]`,
		"rules.localhost": rulesOfSite + `,"login":true,"origins":["` + g.origin("rules.localhost") + `"]`,
		"robots.test":     fmt.Sprintf(rulesOfRobots, cmp.Or(g.fake.robot, "bot.example")),
		"robots.localhost": fmt.Sprintf(rulesOfRobots, cmp.Or(g.fake.robot, "bot.example")) + `,"login":true,"origins":["` +
			g.origin("robots.localhost") + `"]`,
		"norobots.test":    fmt.Sprintf(rulesOfRobots, cmp.Or(g.fake.robot, "bot.example")) + `,"groups":["staff"]`,
		"need.test":        `"need":{"claims":[{"name":"name","values":["Demo Pérson"]}],"level":"2"}`,
		"known.localhost":  `"login":true,"need":{"assurance":"2"},"headers":[{"name":"X-Assurance","claim":"identity_assurance_level"}],"origins":["` + g.origin("known.localhost") + `"]`,
		"strong.localhost": `"login":true,"need":{"scopes":["write","strong"]},"origins":["` + g.origin("strong.localhost") + `"]`,
		"scoped.localhost": `"login":true,"scopes":["assured"],"origins":["` + g.origin("scoped.localhost") + `"]`,
		"dav.localhost": `"scopes":["a"],"audience":["https://aud.test"],"accept":["app_passwords"],"public":["/public/*"],"sites":["` +
			g.origin("dav.localhost") + `"]`,
		"code.localhost":   `"login":true,"accept":["app_passwords"],"origins":["` + g.origin("code.localhost") + `"]`,
		"only.localhost":   `"login":true,"groups":["staff"],"clients":[],"origins":["` + g.origin("only.localhost") + `"]`,
		"named.localhost":  `"login":true,"scopes":["a"],"clients":[],"origins":["` + g.origin("named.localhost") + `"]`,
		"any.localhost":    `"login":true,"tokens":"any","origins":["` + g.origin("any.localhost") + `"]`,
		"aud.localhost":    `"login":true,"audience":["https://aud.test"],"clients":[],"origins":["` + g.origin("aud.localhost") + `"]`,
		"openid.localhost": `"login":true,"scopes":["openid"],"clients":[],"origins":["` + g.origin("openid.localhost") + `"]`,
		"byrule.localhost": `"login":true,"clients":[],"rules":{"allow":[{"need":{"groups":["staff"]}},{"need":{"clients":["shop"]}}]},"origins":["` + g.origin("byrule.localhost") + `"]`,
		"limit.test": `"groups":["staff"],"public":["/public/*"],"sites":["http://limit.test"],"rate_limits":{"limits":[{"rate":"20/h","per":"ip"},` +
			`{"rate":"3/h","per":"client"},{"rate":"1/h","per":"person","match":[{"method":["POST"]}]}]}`,
		"quota.test": `"sites":["http://quota.test"],"rate_limits":{"quotas":[{"rate":"2/month","per":"person"}],"limits":[{"rate":"100/s","per":"site"}]}`,
		"plan.test":  `"sites":["http://plan.test"],"rate_limits":{"plan":true}`,
		"limit.localhost": `"login":true,"rate_limits":{"limits":[{"rate":"2/h","per":"session"},{"rate":"100/h","per":"ip"}]},"origins":["` +
			g.origin("limit.localhost") + `"]`,
		"method.test":        `"rules":{"deny":[{"match":[{"method":["DELETE"]}]}]}`,
		"query.test":         `"rules":{"deny":[{"match":[{"query":{"debug":["*"]}}]}]}`,
		"host.test":          `"rules":{"deny":[{"match":[{"not":[{"host":["host.test"]}]}]}]}`,
		"ask.localhost":      `"login":true,"groups":["staff"],"level":"2","request_access":"on","origins":["` + g.origin("ask.localhost") + `"]`,
		"asklimit.localhost": `"login":true,"groups":["staff"],"request_access":"on","rate_limits":{"limits":[{"rate":"2/h","per":"person"}]},"origins":["` + g.origin("asklimit.localhost") + `"]`,
		"askrules.localhost": `"login":true,"request_access":"on","rules":{"deny":[{"match":[{"path":["/never"]}]}],"allow":[{"match":[{"path":["/admin/*"]}],"need":{"groups":["admins"],"level":"3"}},{"need":{"groups":["staff"]}}]},"origins":["` + g.origin("askrules.localhost") + `"]`,
	}
	var routes []string
	upstreams := map[string]string{
		"down.localhost": "127.0.0.1:" + caddytest.FreePort(t),
		"tidy.localhost": "127.0.0.1:" + caddytest.FreePort(t),
	}
	for host, options := range sites {
		if strings.Contains(options, `"login":true`) && !strings.Contains(options, `"clients"`) && !strings.Contains(options, `"tokens"`) {
			options += `,"clients":["shop"]`
		}
		if options != "" {
			options = "," + options
		}
		first := fmt.Sprintf(`{"handler":"protect_test","fake":%q%s}`, t.Name(), options)
		if host == "twice.localhost" { // a second protect on the same way, with rules of its own
			first += "," + fmt.Sprintf(`{"handler":"protect_test","fake":%q,"login":true,"groups":["staff"],"clients":["shop"],"origins":[%q]}`,
				t.Name(), g.origin(host))
		}
		if host == "second.test" { // the second guards a part of what the first guards
			first += "," + fmt.Sprintf(`{"handler":"protect_test","fake":%q,"groups":["admins"],"match":[{"path":["/admin/*"]}]}`, t.Name())
		}
		if host == "rebound.localhost" { // the second guards another part, and signs nothing
			first += "," + fmt.Sprintf(`{"handler":"protect_test","fake":%q,"match":[{"path":["/admin/*"]}]}`, t.Name())
		}
		if host == "remote.test" { // the same server twice
			first += "," + fmt.Sprintf(`{"handler":"protect_test","fake":%q,%s}`, t.Name(), options[1:])
		}
		if host == "inner.test" { // what the first leaves open, the second guards
			first += "," + fmt.Sprintf(`{"handler":"protect_test","fake":%q}`, t.Name())
		}
		routes = append(routes, fmt.Sprintf(`{"match":[{"host":[%q]}],"terminal":true,"handle":[%s,
			{"handler":"reverse_proxy","flush_interval":-1,"upstreams":[{"dial":%q}],"headers":{"request":{"set":{"X-Placeholder":["{http.auth.user.id}|{http.auth.user.name}|{http.auth.user.nothing}"]}}}}]}`,
			host, first, cmp.Or(upstreams[host], g.echo.addr)))
	}
	for host, handlers := range map[string]string{
		"stripped.test": `{"handler":"rewrite","strip_path_prefix":"/app"},%s`,
		"strips.test":   `%s,{"handler":"rewrite","strip_path_prefix":"/api"}`,
		"replaced.test": `{"handler":"rewrite","uri_substring":[{"find":"/v1","replace":""}]},%s`,
		"replaces.test": `%s,{"handler":"rewrite","uri_substring":[{"find":"/v1","replace":""}]}`,
	} {
		own := fmt.Sprintf(`{"handler":"protect_test","fake":%q,"public":["/api/*"]}`, t.Name())
		routes = append(routes, fmt.Sprintf(`{"match":[{"host":[%q]}],"terminal":true,"handle":[%s,{"handler":"reverse_proxy","upstreams":[{"dial":%q}]}]}`,
			host, fmt.Sprintf(handlers, own), g.echo.addr))
	}
	routes = append(routes, fmt.Sprintf(`{"match":[{"host":["php.test"]}],"terminal":true,"handle":[{"handler":"protect_test","fake":%q,"public":["/public/*"]},
		{"handler":"reverse_proxy","transport":{"protocol":"fastcgi","root":"/srv"},"upstreams":[{"dial":%q}]}]}`, t.Name(), g.fastCGI))
	routes = append(routes, fmt.Sprintf(`{"match":[{"host":["files.test"]}],"terminal":true,"handle":[{"handler":"protect_test","fake":%q},{"handler":"file_server","root":%q}]}`,
		t.Name(), filepath.Dir(g.log)))
	slices.Sort(routes)
	server := func(addr, more string) string {
		return fmt.Sprintf(`{"listen":[%q],"protocols":["h1","h2c"],"automatic_https":{"disable":true},"logs":{},"routes":[%s],
			"errors":{"routes":[{"match":[{"host":["tidy.localhost"]}],"handle":[{"handler":"reverse_proxy","upstreams":[{"dial":%q}]}]}]}%s}`,
			addr, strings.Join(routes, ","), g.echo.addr, more)
	}
	config := fmt.Sprintf(`{"admin":{"disabled":true,"config":{"persist":false}},
		"logging":{"logs":{"default":{"writer":{"output":"file","filename":%q,"roll":false},"encoder":{"format":"json"},"level":"DEBUG"}}},
		"apps":{"http":{"grace_period":"100ms","servers":{"plain":%s,"trusting":%s}}}}`,
		g.log, server(g.addr, ""), server(g.trusted, `,"trusted_proxies":{"source":"static","ranges":["127.0.0.1/32"]}`))
	if err := caddy.Load([]byte(config), true); err != nil {
		t.Fatalf("load: %v", err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return g
}

// answer is the response to a raw request.
type answer struct {
	*http.Response
	body string
	conn net.Conn
	br   *bufio.Reader
}

// raw sends lines, each ended by CR LF, and an empty one, and reads the answer. The body follows the lines after "".
func (g *gateway) raw(t testing.TB, lines ...string) answer {
	t.Helper()
	return exchange(t, caddytest.Dial(t, g.addr), strings.Join(lines, "\r\n")+"\r\n\r\n")
}

func exchange(t testing.TB, conn net.Conn, request string) answer {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatalf("send %q: %v", request, err)
	}
	br := bufio.NewReader(conn)
	method, _, _ := strings.Cut(request, " ")
	return readAnswer(t, conn, br, method)
}

func readAnswer(t testing.TB, conn net.Conn, br *bufio.Reader, method string) answer {
	t.Helper()
	res, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	a := answer{Response: res, conn: conn, br: br}
	if res.StatusCode != http.StatusSwitchingProtocols {
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatalf("read the body: %v", err)
		}
		a.body = string(b)
	}
	return a
}

// get sends a request with the user's token.
func (g *gateway) get(t testing.TB, host, target string, headers ...string) answer {
	t.Helper()
	return g.raw(t, slices.Concat([]string{"GET " + target + " HTTP/1.1", "Host: " + host, "Authorization: Bearer " + g.user}, headers)...)
}

// open sends what a browser sends that opens a page.
func (g *gateway) open(t testing.TB, host, target string, headers ...string) answer {
	t.Helper()
	return g.raw(t, slices.Concat([]string{
		"GET " + target + " HTTP/1.1", "Host: " + host + ":" + g.port, "Accept: text/html",
		"Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: none", "Sec-Fetch-Dest: document",
	}, headers)...)
}

// session makes a session at a site and returns its cookie.
func (g *gateway) session(t testing.TB, host string, who *token.Introspection) string {
	t.Helper()
	raw := newToken(t, secret.SiteSession)
	g.fake.set(func() {
		g.fake.sessions[g.origin(host)+" "+raw] = who
		g.fake.formers[g.origin(host)+" "+raw] = who.Subject
	})
	return cookie.For(g.origin(host)).Name(kindSession) + "=" + raw
}

// refused asserts the status of an answer and that the upstream saw nothing.
func (g *gateway) refused(t testing.TB, a answer, status ...int) {
	t.Helper()
	if !slices.Contains(status, a.StatusCode) {
		t.Errorf("status = %d, want %v; body %.200q", a.StatusCode, status, a.body)
	}
	if s := g.take(); len(s) > 0 {
		t.Errorf("the upstream saw %q", s[0].raw)
	}
}

// passed asserts that exactly one request arrived and returns it.
func (g *gateway) passed(t testing.TB, a answer) seen {
	t.Helper()
	s := g.take()
	if a.StatusCode != http.StatusOK || len(s) != 1 {
		t.Fatalf("status = %d, the upstream saw %d requests, want 200 and 1; body %.200q", a.StatusCode, len(s), a.body)
	}
	return s[0]
}

// invariants holds what must be true after every attack.
func (g *gateway) invariants(t *testing.T) {
	t.Helper()
	g.take()
	g.passed(t, g.get(t, "open.test", "/canary"))
	g.refused(t, g.raw(t, "GET /canary HTTP/1.1", "Host: open.test", "Authorization: Bearer "+g.expired), http.StatusUnauthorized)
	log, err := os.ReadFile(g.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		if !json.Valid(line) {
			t.Errorf("a line of the log is torn: %q", line)
		}
		if bytes.Contains(line, []byte("panic")) {
			t.Errorf("something panicked: %s", line)
		}
		for _, kind := range []secret.Kind{secret.AccessToken, secret.SiteSession, secret.SiteCode} {
			if bytes.Contains(line, []byte(kind)) {
				t.Errorf("a secret is in the log: %s", line)
			}
		}
	}
}

// attack runs a subtest and then the invariants.
func (g *gateway) attack(t *testing.T, name string, fn func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		g.take()
		fn(t)
		g.invariants(t)
	})
}

var _ caddyhttp.MiddlewareHandler = (*testProtect)(nil)
