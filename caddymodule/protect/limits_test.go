package protect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// testPlans are gold of the client shop, silver of the group staff, and free of everyone else.
func testPlans(ctx caddy.Context) *ratelimits.Plans {
	plan := func(rate string) *ratelimits.Plan {
		return &ratelimits.Plan{Limits: []*ratelimits.Limit{{Rate: rate}}}
	}
	free := plan("1/h")
	free.Default = true
	out, err := ratelimits.ProvisionPlans(ctx, caddyfileutil.NewResolver(caddy.NewReplacer()),
		map[string]*ratelimits.Plan{"gold": plan("3/h"), "silver": plan("2/h"), "free": free}, map[string]string{"shop": "gold"},
		[]ratelimits.GroupPlan{{Group: "staff", Plan: "silver"}})
	if err != nil {
		panic(err)
	}
	return out
}

// add makes a token.
func (g *gateway) add(t testing.TB, who *token.Introspection) string {
	t.Helper()
	raw := newToken(t, secret.AccessToken)
	g.fake.set(func() { g.fake.tokens[raw] = who })
	return raw
}

// by sends a request with a token.
func (g *gateway) by(t testing.TB, raw, method, host, target string, more ...string) answer {
	t.Helper()
	return g.raw(t, append([]string{
		method + " " + target + " HTTP/1.1", "Host: " + host, "Authorization: Bearer " + raw, "Content-Length: 0",
	}, more...)...)
}

// of is a person by the name of a client and their own.
func of(client, name string, groups ...string) *token.Introspection {
	who := person(1, groups...)
	who.ClientID, who.Subject, who.Person.ID = client, name, name
	return who
}

// TestLimits: requests above a limit are answered with 429 and never reach the upstream.
func TestLimits(t *testing.T) {
	g := startGateway(t)
	mail, other := g.add(t, of("mail", "ann", "staff")), g.add(t, of("other", "ann", "staff"))
	stranger := g.add(t, of("mail", "bob", "guests"))
	g.refused(t, g.by(t, stranger, "GET", "limit.test", "/"), http.StatusForbidden) // costs the client nothing
	for n := range 3 {
		a := g.by(t, mail, "GET", "limit.test", "/")
		g.passed(t, a)
		if got, want := a.Header.Get("RateLimit-Policy"), `"ip h";q=20;w=3600, "client h";q=3;w=3600`; got != want {
			t.Errorf("RateLimit-Policy = %s, want %s", got, want)
		}
		if got, want := a.Header.Get("RateLimit"), fmt.Sprintf(`"client h";r=%d;t=`, 2-n); !strings.Contains(got, want) {
			t.Errorf("RateLimit = %s, want %s…", got, want)
		}
	}
	a := g.by(t, mail, "GET", "limit.test", "/")
	g.refused(t, a, http.StatusTooManyRequests)
	var problem struct {
		Type, Title, Detail, Error, Ref string
		Status                          int
		Violated                        []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(a.body), &problem); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	if a.Header.Get("Content-Type") != "application/problem+json" || problem.Status != 429 || problem.Error != "rate_limited" ||
		problem.Ref == "" ||
		fmt.Sprint(problem.Violated) != "[client h]" || !strings.Contains(problem.Detail, "3/h per client") {
		t.Errorf("problem = %+v", problem)
	}
	if wait, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || wait < 1190 || wait > 1200 {
		t.Errorf("Retry-After = %q, want the 20 minutes until there is room for one", a.Header.Get("Retry-After"))
	}
	if !strings.Contains(a.Header.Get("RateLimit"), `"client h";r=0;t=3`) || a.Header.Get("RateLimit-Policy") == "" {
		t.Errorf("RateLimit = %q, want nothing that remains", a.Header.Get("RateLimit"))
	}
	g.passed(t, g.by(t, other, "GET", "limit.test", "/"))
	g.fake.set(func() { g.fake.clock += 20 * time.Minute })
	g.passed(t, g.by(t, mail, "GET", "limit.test", "/"))
}

// TestLimitOfSomeRequests: the limit of some requests counts no others, and what one limit refuses costs none.
func TestLimitOfSomeRequests(t *testing.T) {
	g := startGateway(t)
	mail, other := g.add(t, of("mail", "ann", "staff")), g.add(t, of("other", "ann", "staff"))
	g.passed(t, g.by(t, mail, "POST", "limit.test", "/"))
	for range 5 {
		g.refused(t, g.by(t, mail, "POST", "limit.test", "/"), http.StatusTooManyRequests)
	}
	g.passed(t, g.by(t, mail, "GET", "limit.test", "/"))
	g.passed(t, g.by(t, mail, "GET", "limit.test", "/"))
	g.refused(t, g.by(t, mail, "GET", "limit.test", "/"), http.StatusTooManyRequests)
	g.refused(t, g.by(t, other, "POST", "limit.test", "/"), http.StatusTooManyRequests) // the same person
}

// TestLimitByAddress: an address is counted before its credential is looked up, public paths too, in networks of IPv6.
func TestLimitByAddress(t *testing.T) {
	g := startGateway(t)
	from := func(address, raw, target string) answer {
		g.echo.take()
		conn := "GET " + target + " HTTP/1.1\r\nHost: limit.test\r\nX-Forwarded-For: " + address + "\r\nAuthorization: Bearer " + raw + "\r\n\r\n"
		return exchange(t, caddytest.Dial(t, g.trusted), conn)
	}
	for range 19 {
		g.refused(t, from("2001:db8::1", g.expired, "/"), http.StatusUnauthorized)
	}
	if a := from("2001:db8::ffff", g.expired, "/public/a"); a.StatusCode != http.StatusOK {
		t.Errorf("the last one: status = %d, want 200", a.StatusCode)
	}
	asked := g.fake.asked
	a := from("2001:db8:0:0:1::1", g.user, "/")
	g.refused(t, a, http.StatusTooManyRequests)
	if g.fake.asked != asked {
		t.Error("the credential was looked up")
	}
	g.refused(t, from("2001:db8::2", "", "/public/a"), http.StatusTooManyRequests)
	if a := from("2001:db8:0:1::1", g.user, "/"); a.StatusCode != http.StatusOK {
		t.Errorf("another network: status = %d, want 200", a.StatusCode)
	}
	if a := from("192.0.2.1", g.expired, "/"); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("another address: status = %d, want 401", a.StatusCode)
	}
}

// TestQuota: a quota counts its period, and says so.
func TestQuota(t *testing.T) {
	g := startGateway(t)
	ann := g.add(t, of("mail", "ann"))
	for range 2 {
		g.passed(t, g.by(t, ann, "GET", "quota.test", "/"))
	}
	a := g.by(t, g.add(t, of("other", "ann")), "GET", "quota.test", "/") // by another client
	g.refused(t, a, http.StatusTooManyRequests)
	if !strings.Contains(a.body, "quota_used") || !strings.Contains(a.Header.Get("RateLimit-Policy"), `"person month";q=2`) {
		t.Errorf("answer = %s, %v", a.body, a.Header)
	}
	own := of("ann", "ann")
	own.Person = nil // a client of the name of a person is another caller
	g.passed(t, g.by(t, g.add(t, own), "GET", "quota.test", "/"))
	g.fake.set(func() { g.fake.clock += 32 * 24 * time.Hour })
	g.passed(t, g.by(t, ann, "GET", "quota.test", "/"))
}

// TestPlans: the plan of the client counts for all that it does, then that of a group, then the default.
func TestPlans(t *testing.T) {
	g := startGateway(t)
	count := func(raws ...string) (passed int) {
		for n := range 8 {
			if a := g.by(t, raws[n%len(raws)], "GET", "plan.test", "/"); a.StatusCode == http.StatusOK {
				passed++
			} else if a.StatusCode != http.StatusTooManyRequests {
				t.Fatalf("status = %d", a.StatusCode)
			}
		}
		return passed
	}
	own := of("cron", "cron")
	own.Person = nil
	for name, tt := range map[string]struct {
		by   []*token.Introspection
		want int
	}{
		"a client with a plan, for two people": {[]*token.Introspection{of("shop", "ann", "staff"), of("shop", "bob")}, 3},
		"a person in a group, by two clients":  {[]*token.Introspection{of("mail", "eve", "staff"), of("news", "eve", "staff")}, 2},
		"two people without a plan":            {[]*token.Introspection{of("mail", "kim"), of("mail", "lee")}, 2},
		"a client that acts for itself":        {[]*token.Introspection{own}, 1},
	} {
		var raws []string
		for _, who := range tt.by {
			raws = append(raws, g.add(t, who))
		}
		if got := count(raws...); got != tt.want {
			t.Errorf("%s: %d passed, want %d", name, got, tt.want)
		}
	}
}

// TestLimitPage: people get a page in their language, with a reference.
func TestLimitPage(t *testing.T) {
	g := startGateway(t)
	who := person(1, "staff")
	who.SessionID = "s1"
	own := g.session(t, "limit.localhost", who)
	for range 2 {
		g.passed(t, g.open(t, "limit.localhost", "/", "Cookie: "+own))
	}
	if a := g.open(t, "limit.localhost", "/"); a.StatusCode != http.StatusFound || a.Header.Get("RateLimit") == "" {
		t.Errorf("a stranger: status = %d, %v, want 302 with the fields", a.StatusCode, a.Header)
	}
	for lang, want := range map[string]string{"en": "going too fast", "de": "Zu viele Anfragen"} {
		a := g.open(t, "limit.localhost", "/", "Cookie: "+own, "Accept-Language: "+lang)
		g.refused(t, a, http.StatusTooManyRequests)
		if !strings.Contains(a.body, want) || a.Header.Get("Retry-After") == "" || a.Header.Get("RateLimit") == "" {
			t.Errorf("%s: %v %.1500s", lang, a.Header, a.body)
		}
	}
	other := person(1, "staff")
	other.SessionID = "s2"
	g.passed(t, g.open(t, "limit.localhost", "/", "Cookie: "+g.session(t, "limit.localhost", other)))
}

// TestLimitSparesUses: a token with a number of uses keeps them while its sender is limited, and a request that is
// refused after it was counted costs nothing.
func TestLimitSparesUses(t *testing.T) {
	g := startGateway(t)
	raw := g.add(t, of("mail", "ann", "staff"))
	for range 3 {
		g.passed(t, g.by(t, raw, "GET", "limit.test", "/"))
	}
	once := of("mail", "ann", "staff")
	once.UsageLimit = 2
	counted := g.add(t, once)
	g.fake.set(func() { g.fake.uses = map[string]*token.Introspection{counted: {}} }) // its use finds it used up
	g.refused(t, g.by(t, counted, "GET", "limit.test", "/"), http.StatusTooManyRequests)
	g.fake.set(func() { g.fake.clock += 20 * time.Minute })
	g.refused(t, g.by(t, counted, "GET", "limit.test", "/"), http.StatusUnauthorized)
	g.passed(t, g.by(t, raw, "GET", "limit.test", "/"))
}

// TestLimitOfWebSockets: one counts when it opens.
func TestLimitOfWebSockets(t *testing.T) {
	g := startGateway(t)
	raw := g.add(t, of("mail", "ann", "staff"))
	upgrade := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg=="}
	for range 3 {
		a := g.by(t, raw, "GET", "limit.test", "/socket", upgrade...)
		if a.StatusCode != http.StatusSwitchingProtocols || a.Header.Get("RateLimit") == "" {
			t.Fatalf("status = %d, %v, want 101", a.StatusCode, a.Header)
		}
	}
	if a := g.by(t, raw, "GET", "limit.test", "/socket", upgrade...); a.StatusCode != http.StatusTooManyRequests {
		t.Errorf("status = %d, want 429", a.StatusCode)
	}
}
