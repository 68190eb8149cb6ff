package protect

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
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

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/savedforms"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/botauth"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/fieldname"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// fakeAuthority is an authorization server whose answers a test decides.
type fakeAuthority struct {
	mu       sync.Mutex // guards all below
	tokens   map[string]*token.Introspection
	sessions map[string]*token.Introspection // origin and token
	uses     map[string]*token.Introspection // what the use of a token finds that tokens did not know yet
	codes    map[string]fakeCode
	flows    []fakeFlow
	err      error
	panics   bool
	gone     error // no one can be asked
	patient  bool  // open requests are not judged again by the clock
	asked    int
	ended    []string
	usedAt   []string      // sites and addresses where app passwords were used
	clock    time.Duration // how far the clock of protect is ahead
	parked   *savedforms.Forms
	formers  map[string]string // persons of sessions, those that have ended too, by origin and token
	closed   bool              // to strangers
	access   *fakeAccess
	counter  counter

	assertions asserter
	transacts  transactor
	proofs     *dpop.Proofs

	store    *badgerstore.Store // tells open requests of changes; nil: they are looked at again every few milliseconds
	hasRules func(string) bool
	limits   *limit.Counters
	robots   *botauth.Verifier
	robot    string // the domain of the robot of robots.localhost and robots.test
	shelf    *shelf // with store
}

// Former implements savedforms.Sites.
func (f *fakeAuthority) Former(_ storage.Tx, origin, raw string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.formers[origin+" "+raw], nil
}

// policies is grants for what is not in the Caddyfile.
func (f *fakeAuthority) policies() library {
	if f.shelf == nil {
		return nil
	}
	return f.shelf
}

// grants returns what Entrance takes: an interface that holds no pointer is nil.
func (f *fakeAuthority) grants() Access {
	if f.access == nil {
		return nil
	}
	return f.access
}

func newForms(t testing.TB, f *fakeAuthority) *savedforms.Forms {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return savedforms.New(savedforms.Deps{Store: store, Keyring: ring, Sites: f, Now: f.now, Random: rand.Reader})
}

func newProofs(t testing.TB, f *fakeAuthority) *dpop.Proofs {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return dpop.New(dpop.Deps{Store: store, Keyring: ring, Now: f.now})
}

func (f *fakeAuthority) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Add(f.clock)
}

type fakeCode struct{ origin, binding, to string }

type fakeFlow struct {
	authz.SiteDemand
	binding string
}

func newToken(t testing.TB, kind secret.Kind) string {
	t.Helper()
	s, err := secret.NewToken(rand.Reader, kind)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *fakeAuthority) set(change func()) {
	f.mu.Lock()
	change()
	store := f.store
	f.mu.Unlock()
	if store != nil {
		if err := store.Update(context.Background(),
			func(tx storage.Tx) error { return tx.Put([]byte("fake/all"), nil, time.Time{}) }); err != nil {
			panic(err)
		}
	}
}

// observe asks, and returns what the answer rests on.
func (f *fakeAuthority) observe(ctx context.Context, ask func() (*token.Introspection, error)) (who *token.Introspection,
	b recheck.Basis, err error,
) {
	if f.store == nil {
		who, err = ask()
		return who, b, err
	}
	b.Until = f.now().Add(time.Hour)
	b.Reading, err = f.store.Track(ctx, func(tx storage.Tx) error {
		if _, err := tx.GetMany([]byte("fake/all")); err != nil {
			return err
		}
		who, err = ask()
		return err
	})
	return who, b, err
}

func (f *fakeAuthority) Observe(ctx context.Context, raw string) (*token.Introspection, recheck.Basis, error) {
	return f.observe(ctx, func() (*token.Introspection, error) { return f.Recheck(ctx, raw) })
}

func (f *fakeAuthority) ObserveSite(ctx context.Context, origin, raw string) (*token.Introspection, recheck.Basis, error) {
	return f.observe(ctx, func() (*token.Introspection, error) { return f.SiteSession(ctx, origin, raw, "") })
}

func (*fakeAuthority) KeysVersion() uint64 { return 1 }

// push makes open requests wait for what they are told, and for nothing else.
func push(t *testing.T) func(*fakeAuthority) {
	t.Helper()
	s, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(f *fakeAuthority) { f.store, f.shelf = s, &shelf{fake: f} }
}

func (f *fakeAuthority) answer(m map[string]*token.Introspection, key string) (*token.Introspection, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.panics {
		panic("fake")
	}
	if f.err != nil {
		return nil, f.err
	}
	if in := m[key]; in != nil {
		c := *in
		if in.Person != nil { // a test may change it while the answer is looked at
			person := *in.Person
			c.Person = &person
		}
		return &c, nil
	}
	return &token.Introspection{}, nil
}

func (f *fakeAuthority) Introspect(_ context.Context, raw string) (*token.Introspection, error) {
	return f.answer(f.tokens, raw)
}

func (f *fakeAuthority) Recheck(_ context.Context, raw string) (*token.Introspection, error) {
	return f.answer(f.tokens, raw)
}

func (f *fakeAuthority) Use(_ context.Context, raw string) (*token.Introspection, error) {
	f.mu.Lock()
	_, changed := f.uses[raw]
	f.mu.Unlock()
	if changed {
		return f.answer(f.uses, raw)
	}
	return f.answer(f.tokens, raw)
}

func (f *fakeAuthority) UseAt(_ context.Context, raw, site string, from audit.Origin) (*token.Introspection, error) {
	f.set(func() { f.usedAt = append(f.usedAt, site+" "+from.ClientIP) })
	return f.answer(f.tokens, raw)
}

func (f *fakeAuthority) SiteSession(_ context.Context, origin, raw, _ string) (*token.Introspection, error) {
	return f.answer(f.sessions, origin+" "+raw)
}

func (f *fakeAuthority) SiteDevices(origin string, offered bool, _ func(dbsc.Outcome)) *dbsc.Exchange {
	return &dbsc.Exchange{Guard: dbsc.NewGuard(rand.Reader, make([]byte, 32)), Origin: origin, Offered: offered, Now: time.Now}
}

func (f *fakeAuthority) BeginSite(_ context.Context, d authz.SiteDemand, binding string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flows = append(f.flows, fakeFlow{d, binding})
	return fmt.Sprintf("https://issuer.test/oauth/site?flow=%d", len(f.flows)), f.err
}

func (f *fakeAuthority) FinishSite(_ context.Context, origin, code, binding string, _ audit.Origin) (authz.SiteLogin, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return authz.SiteLogin{}, f.err
	}
	c, ok := f.codes[code]
	delete(f.codes, code)
	if !ok || c.origin != origin || c.binding != binding {
		return authz.SiteLogin{}, &oauth.Error{Status: http.StatusBadRequest, Code: "invalid_grant", Description: "the code is not good here"}
	}
	raw, err := secret.NewToken(rand.Reader, secret.SiteSession)
	f.sessions[origin+" "+raw], f.formers[origin+" "+raw] = person(2, "staff"), person(2).Subject
	return authz.SiteLogin{Token: raw, Return: c.to}, err
}

func (f *fakeAuthority) EndSite(_ context.Context, origin, raw string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sessions, origin+" "+raw)
	f.ended = append(f.ended, raw)
	return f.LogoutURL(origin) + "&at_once", f.err
}

func (f *fakeAuthority) LogoutURL(origin string) string {
	return "https://issuer.test/oauth/logout?post_logout_redirect_uri=" + origin
}

// person returns the data of a signed-in person.
func person(level int, groups ...string) *token.Introspection {
	return &token.Introspection{
		Active: true, Subject: "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", ClientID: "shop", Scope: []string{"a", "b"},
		Level: level, AuthTime: time.Now(),
		Person: &authn.Subject{
			Active: true, Username: "demo@example.com", Groups: groups,
			Profile: map[string]string{"name": "Demo Pérson", "email": "demo@example.com", "email_verified": "true"},
		},
	}
}

// echo is an upstream that keeps what it really received.
type echo struct {
	addr string

	mu      sync.Mutex // guards what follows
	seen    []seen
	answers map[string]string // by path, the raw answer
}

type seen struct {
	raw     string // of head and body
	method  string
	target  string
	header  [][2]string
	body    string
	trailer http.Header
}

// values returns the values of every header line whose name some server reads as name.
func (s seen) values(name string) (out []string) {
	for _, h := range s.header {
		if fieldname.Same(h[0], name) {
			out = append(out, h[1])
		}
	}
	return out
}

func startEcho(t testing.TB) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{addr: l.Addr().String(), answers: map[string]string{}}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go e.serve(c)
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	var raw bytes.Buffer
	br := bufio.NewReader(io.TeeReader(conn, &raw))
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(req.Body)
		head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
		s := seen{raw: raw.String(), method: req.Method, target: req.RequestURI, body: string(body), trailer: req.Trailer}
		for _, line := range strings.Split(head, "\r\n")[1:] {
			k, v, _ := strings.Cut(line, ":")
			s.header = append(s.header, [2]string{k, strings.TrimSpace(v)})
		}
		raw.Reset()
		e.mu.Lock()
		e.seen = append(e.seen, s)
		answer := cmp.Or(e.answers[req.URL.Path], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		e.mu.Unlock()
		if strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
			answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
		if req.URL.Path == "/ticks" {
			tick := time.NewTicker(fakeRecheck / 4)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(conn, "data: 2\n\n"); err != nil {
					return
				}
			}
		}
		if strings.HasPrefix(answer, "HTTP/1.1 101") || strings.Contains(answer, "text/event-stream") {
			io.Copy(conn, br) //nolint:errcheck // until one side ends it
			return
		}
	}
}

// take returns what has arrived since the last take.
func (e *echo) take() []seen {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.seen
	e.seen = nil
	return s
}

func (e *echo) reply(path, raw string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers[path] = raw
}

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
		admit := func(*http.Request) bool { f.mu.Lock(); defer f.mu.Unlock(); return !f.closed }
		return Entrance{
			Authority: f, Parked: f.parked, Access: f.grants(), Policies: f.policies(), Pages: pages, Counter: f.counter,
			Admit: admit, HasRules: f.hasRules, Limits: f.limits, Robots: f.robots, Leave: func() {}, Assertions: f.assertions,
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
	g.fake.parked = newForms(t, g.fake)
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

// limited returns what is known of a token that allows two uses.
func limited(who *token.Introspection) *token.Introspection {
	who.UsageLimit = 2
	return who
}
