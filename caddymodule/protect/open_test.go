package protect

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// opener opens a request that lasts, and returns what is closed once it has been cut off.
type opener func(t *testing.T, g *gateway, host, credential string) (cut <-chan struct{})

// openers are the kinds of requests that last.
var openers = map[string]opener{
	"a WebSocket": func(t *testing.T, g *gateway, host, credential string) <-chan struct{} {
		a := g.raw(t, slices.Concat([]string{"GET /ws HTTP/1.1", "Host: " + host, credential}, handshake)...)
		if a.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("status = %d, want 101", a.StatusCode)
		}
		roundTrip(t, a, "hello")
		return until(func() {
			if rest, err := io.ReadAll(a.br); err != nil || !strings.HasPrefix(string(rest), "\x88\x02\x03\xf0") {
				t.Errorf("the end of the connection was % x, %v, want a close frame 1008", rest, err)
			}
		})
	},
	"an answer stream of MCP": overHTTP1("/events", "POST", "Accept: application/json, text/event-stream\r\nContent-Length: 0"),
	"an event stream":         overHTTP1("/events", "GET", "Accept: text/event-stream"),
	"a long answer":           overHTTP1("/long", "GET", "Accept: */*"),
	"an answer to come":       overHTTP1("/wait", "GET", "Accept: */*"),
	"an upload":               overHTTP1("/up", "POST", "Transfer-Encoding: chunked"),
	"a stream over HTTP/2":    overHTTP2("/events", false),
	"an upload over HTTP/2":   overHTTP2("/up", true),
	"an answer to come, too":  overHTTP2("/wait", false),
	"a long answer of HTTP/2": overHTTP2("/long", false),
}

func until(over func()) <-chan struct{} {
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		over()
	}()
	return cut
}

// letIn returns what waits until one more request has been let in.
func letIn(g *gateway) (wait func()) {
	count := func() int {
		g.fake.mu.Lock()
		defer g.fake.mu.Unlock()
		return g.fake.asked
	}
	before := count()
	return func() {
		for count() == before {
			runtime.Gosched()
		}
	}
}

// overHTTP1 opens a request with a body that does not end, or an answer that does not.
func overHTTP1(path, method, header string) opener {
	return func(t *testing.T, g *gateway, host, credential string) <-chan struct{} {
		conn, wait := caddytest.Dial(t, g.addr), letIn(g)
		request := strings.Join([]string{method + " " + path + " HTTP/1.1", "Host: " + host, credential, header}, "\r\n") + "\r\n\r\n"
		if method == http.MethodPost {
			request += "5\r\nbegin\r\n"
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		wait()
		br := bufio.NewReader(conn)
		if path == "/up" || path == "/wait" {
			return until(func() {
				if got, err := io.ReadAll(br); strings.HasPrefix(string(got), "HTTP/1.1 200") || isTimeout(err) {
					t.Errorf("%s: %q, %v", path, got, err)
				}
			})
		}
		res, err := http.ReadResponse(br, nil) //nolint:bodyclose // with the connection
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 9)); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("status = %d, then %v", res.StatusCode, err)
		}
		return until(func() {
			if _, err := io.Copy(io.Discard, res.Body); isTimeout(err) {
				t.Errorf("%s goes on", path)
			}
		})
	}
}

func isTimeout(err error) bool {
	timeout := net.Error(nil)
	return errors.As(err, &timeout) && timeout.Timeout()
}

// overHTTP2 is overHTTP1 for HTTP/2, where only the stream ends.
func overHTTP2(path string, upload bool) opener {
	return func(t *testing.T, g *gateway, host, credential string) <-chan struct{} {
		var body io.Reader
		method := http.MethodGet
		if upload {
			r, w := io.Pipe()
			t.Cleanup(func() { w.Close() })
			go io.WriteString(w, "begin") //nolint:errcheck // it is cut off
			method, body = http.MethodPost, r
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.addr+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		name, value, _ := strings.Cut(credential, ": ")
		r.Header.Set(name, value)
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		client := &http.Transport{
			Protocols:   protocols,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return caddytest.Dial(t, g.addr), nil },
		}
		if upload || path == "/wait" {
			wait := letIn(g)
			cut := until(func() {
				if res, err := client.RoundTrip(r); err == nil {
					res.Body.Close()
					if res.StatusCode == http.StatusOK {
						t.Errorf("%s is answered", path)
					}
				}
			})
			wait()
			return cut
		}
		res, err := client.RoundTrip(r) //nolint:bodyclose // when it is over
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 9)); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("status = %d, then %v", res.StatusCode, err)
		}
		return until(func() {
			defer res.Body.Close()
			if _, err := io.Copy(io.Discard, res.Body); isTimeout(err) {
				t.Errorf("%s goes on", path)
			}
		})
	}
}

// Whatever ends a credential, or what a site asks of its person, cuts each kind of request that lasts, as soon as it is
// committed: in this test nothing is looked at by the clock.
func TestRevocationCutsOpenRequests(t *testing.T) {
	g := startGateway(t, push(t))
	g.reply("/events", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
	g.reply("/long", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nand so on, ")
	g.reply("/wait", "H")
	for what, open := range openers {
		for name, end := range map[string]func(raw string){
			"revoked":          func(raw string) { delete(g.fake.tokens, raw) },
			"group removed":    func(raw string) { g.fake.tokens[raw] = person(2) },
			"person removed":   func(raw string) { g.fake.tokens[raw].Active = false },
			"moved to another": func(raw string) { g.fake.tokens[raw].Person.Partition = "other" },
		} {
			raw, other := newToken(t, secret.AccessToken), newToken(t, secret.AccessToken)
			g.fake.set(func() { g.fake.tokens[raw], g.fake.tokens[other] = person(2, "staff"), person(2, "staff") })
			stays := open(t, g, "staff.test", "Authorization: Bearer "+other)
			goes := open(t, g, "staff.test", "Authorization: Bearer "+raw)
			g.fake.set(func() { end(raw) })
			<-goes
			select {
			case <-stays:
				t.Errorf("%s, %s: that of another token was cut, too", what, name)
			default:
			}
			g.fake.set(func() { delete(g.fake.tokens, other) })
			<-stays
			g.take()
		}
		// By the cookie of a site, and of its level.
		c := g.session(t, "step.localhost", person(2, "staff"))
		goes := open(t, g, "step.localhost:"+g.port, "Cookie: "+c)
		_, raw, _ := strings.Cut(c, "=")
		g.fake.set(func() { g.fake.sessions[g.origin("step.localhost")+" "+raw] = person(1, "staff") })
		<-goes
		g.take()
	}
}

// What an operator's grant has let in is cut as soon as the grant is withdrawn, and when its time or its last use is
// over: in this test nothing is looked at by the clock.
func TestEndOfGrantCutsOpenRequests(t *testing.T) {
	g := startGateway(t, push(t))
	g.reply("/events", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
	g.reply("/long", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nand so on, ")
	g.reply("/wait", "H")
	const host = "ask.localhost"
	guest, other := person(2, "guests"), person(2, "guests")
	other.Subject = "another"
	site := g.origin(host)
	for what, open := range openers {
		for name, end := range map[string]func(){
			"withdrawn": func() { g.access.set(site, guest.Subject, AccessNone) },
			"used up":   func() { g.access.end(site, guest.Subject, AccessGranted, g.fake.now().Add(20*time.Millisecond)) },
		} {
			g.access.set(site, guest.Subject, AccessGranted)
			g.access.set(site, other.Subject, AccessGranted)
			before := g.access.uses()
			stays := open(t, g, host+":"+g.port, "Cookie: "+g.session(t, host, other))
			goes := open(t, g, host+":"+g.port, "Cookie: "+g.session(t, host, guest))
			for g.access.uses() < before+2 {
				runtime.Gosched()
			}
			end()
			<-goes
			select {
			case <-stays:
				t.Errorf("%s, %s: that of another person was cut, too", what, name)
			default:
			}
			g.access.set(site, other.Subject, AccessRefused)
			<-stays
			g.take()
		}
	}
}

// What is open when a site gets other rules by a reload ends soon, and what is open at a site as before does not.
func TestReloadWithOtherRulesEndsOpenRequests(t *testing.T) {
	rules := func(level, place string) string {
		p := &Protect{
			Level: caddyfileutil.Count(level), Need: policy.Need{Groups: []string{"staff"}},
			Rules: policy.Policy{Deny: []*policy.Rule{{Place: place}}},
		}
		return p.rulesText(&p.Rules, nil)
	}
	if one := rules("1", "Caddyfile:1"); one == rules("2", "Caddyfile:1") || one != rules("1", "Caddyfile:9") {
		t.Error("rules are not told apart, or by their place")
	}
	unknown := &Protect{enter: func(context.Context) (Entrance, error) { return Entrance{Leave: func() {}}, nil }}
	if _, err := unknown.situation(t.Context()); !errors.Is(err, errOtherRules) {
		t.Errorf("where the rules of the configuration are not known, situation = %v, want that open requests end", err)
	}
	t.Run("attack 8054: what a reload takes away is still open", func(t *testing.T) {
		site := func(change func(*Protect, *policy.Rule)) string {
			rule := &policy.Rule{Place: "Caddyfile:1"}
			p := &Protect{Rules: policy.Policy{Allow: []*policy.Rule{rule}}}
			change(p, rule)
			return p.rulesText(&p.Rules, nil)
		}
		seen := map[string]string{site(func(*Protect, *policy.Rule) {}): "the site as it was"}
		for name, change := range map[string]func(*Protect, *policy.Rule){
			"app passwords":            func(p *Protect, _ *policy.Rule) { p.Accept = []string{acceptAppPasswords} },
			"a rule about robots":      func(_ *Protect, r *policy.Rule) { r.Robot = true },
			"a rule about one robot":   func(_ *Protect, r *policy.Rule) { r.Agents = []string{"bot.test"} },
			"a rule about another one": func(_ *Protect, r *policy.Rule) { r.Agents = []string{"bot.example"} },
			"a rule for robots":        func(_ *Protect, r *policy.Rule) { r.Need.Agents = []string{"bot.test"} },
		} {
			text := site(change)
			if other := seen[text]; other != "" {
				t.Errorf("%s cannot be told from %s", name, other)
			}
			seen[text] = name
		}
	})
	g := startGateway(t, func(f *fakeAuthority) { f.hasRules = func(string) bool { return true } })
	raw := newToken(t, secret.AccessToken)
	g.fake.set(func() { g.fake.tokens[raw] = person(1) })
	a := g.raw(t, slices.Concat([]string{"GET /ws HTTP/1.1", "Host: open.test", "Authorization: Bearer " + raw}, handshake)...)
	asked := 0
	g.fake.set(func() { asked = g.fake.asked })
	for looked := false; !looked; {
		roundTrip(t, a, "still here")
		g.fake.set(func() { looked = g.fake.asked >= asked+3 })
	}
	g.fake.set(func() { g.fake.hasRules = func(string) bool { return false } })
	if rest, err := io.ReadAll(a.br); err != nil || !strings.HasSuffix(string(rest), "\x88\x02\x03\xf0") {
		t.Errorf("the end of the connection was % x, %v, want a close frame 1008", rest, err)
	}
}

// An open request knows when time alone can end it.
func TestTimeThatEndsOpenRequests(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	p := &Protect{Session: "12h", Login: true, Origins: []string{"https://a.test"}, Clients: []string{"shop"}}
	p.now = func() time.Time { return now }
	if err := p.setUp(caddyfileutil.NewResolver(nil)); err != nil {
		t.Fatal(err)
	}
	who := person(2)
	who.AuthTime = now.Add(-time.Hour)
	g := &requestState{protect: p, credential: credential{site: new(site), token: "x"}}
	if ok, next := g.Judge(openBasis{who: who}); !ok || !next.Equal(now.Add(11*time.Hour)) {
		t.Errorf("Judge = %t, %v, want until the sign-in is 12 h old", ok, next)
	}
	now = now.Add(11 * time.Hour)
	if ok, _ := g.Judge(openBasis{who: who}); ok {
		t.Error("a sign-in that is too old is let in")
	}
	g.credential.site = nil
	if ok, next := g.Judge(openBasis{who: who}); !ok || !next.IsZero() {
		t.Errorf("Judge = %t, %v, want that time does not end a token's request", ok, next)
	}
	if ok, _ := g.Judge(openBasis{who: new(token.Introspection)}); ok {
		t.Error("an inactive token is let in")
	}
}
