package protect

import (
	"net"
	"net/http"
	"net/http/fcgi"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// through sends a request by way of the port that believes 127.0.0.1 as a proxy.
func (g *gateway) through(t testing.TB, lines ...string) answer {
	t.Helper()
	return exchange(t, caddytest.Dial(t, g.trusted), strings.Join(lines, "\r\n")+"\r\n\r\n")
}

// What other gateways were broken by in the headers that proxies set. The numbers are those of docs/attacks/peers.md.
func TestPeersHeaders(t *testing.T) {
	g := startGateway(t)
	closed := func(t *testing.T, headers ...string) {
		t.Helper()
		for _, send := range []func(testing.TB, ...string) answer{g.raw, g.through} {
			g.refused(t, send(t, slices.Concat([]string{"GET /admin HTTP/1.1", "Host: public.test"}, headers)...), http.StatusUnauthorized)
			g.refused(t, send(t, slices.Concat([]string{"GET /api/x HTTP/1.1", "Host: match.test"}, headers)...), http.StatusUnauthorized)
		}
	}
	g.attack(t, "peer 1: a header names an open path as the original one", func(t *testing.T) {
		for _, path := range []string{
			"/public/x", "/oauth/x", "/oauth/token", "/.gatehouse/assets/x", "/healthz", "/open",
			"http://public.test/public/x",
		} {
			for _, name := range []string{
				"X-Original-URI", "X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Uri", "X-Forwarded-Path",
				"X-Envoy-Original-Path",
			} {
				closed(t, name+": "+path)
			}
		}
		none(t, g.passed(t, g.get(t, "open.test", "/", "X-Original-URI: /public/x", "X-Original-URL: /public/x")),
			"X-Original-URI", "X-Original-URL")
	})
	g.attack(t, "peer 3: X-Forwarded-Uri with an open path, from a client and from a proxy", func(t *testing.T) {
		for _, path := range []string{"/healthz", "/public/", "/public/x", "/open"} {
			closed(t, "X-Forwarded-Uri: "+path)
			closed(t, "X-Forwarded-Uri: "+path, "X-Forwarded-Method: GET", "X-Forwarded-Host: public.test", "X-Forwarded-Proto: https")
		}
	})
	g.attack(t, "peer 7: X-Forwarded-Prefix changes no decision", func(t *testing.T) {
		for _, prefix := range []string{"/public", "/public/", "/api", "/", "//", "/../public"} {
			closed(t, "X-Forwarded-Prefix: "+prefix)
			closed(t, "X-Script-Name: "+prefix, "X-Forwarded-Path: "+prefix)
			a := g.raw(t, "GET /x HTTP/1.1", "Host: wiki.localhost:"+g.port, "Accept: text/html", "X-Forwarded-Prefix: "+prefix)
			g.refused(t, a, http.StatusFound)
			g.fake.set(func() {
				if to := g.fake.flows[len(g.fake.flows)-1].Return; to != g.origin("wiki.localhost")+"/x" {
					t.Errorf("with prefix %s the way back is %q", prefix, to)
				}
			})
		}
		none(t, g.passed(t, g.get(t, "open.test", "/", "X-Forwarded-Prefix: /evil")), "X-Forwarded-Prefix")
	})
	g.attack(t, "peer 9: port and scheme of forwarding headers", func(t *testing.T) {
		for _, lines := range [][]string{
			{"X-Forwarded-Port: 8443"},
			{"X-Forwarded-Port: 443", "X-Forwarded-Proto: https"},
			{"X-Forwarded-Proto: wss"},
			{"X-Forwarded-Proto: https, http"},
			{"X-Forwarded-Proto: javascript"},
			{"X-Forwarded-Ssl: on"},
			{"Front-End-Https: on"},
			{"X-Url-Scheme: https"},
			{"Forwarded: proto=https;host=evil.test"},
		} {
			a := g.raw(t, slices.Concat([]string{"GET /x HTTP/1.1", "Host: wiki.localhost:" + g.port, "Accept: text/html"}, lines)...)
			g.refused(t, a, http.StatusFound)
			if to := a.Header.Get("Location"); !strings.HasPrefix(to, "https://issuer.test/oauth/site?flow=") {
				t.Errorf("%q: sent to %q", lines, to)
			}
			g.fake.set(func() {
				if to := g.fake.flows[len(g.fake.flows)-1].Return; to != g.origin("wiki.localhost")+"/x" {
					t.Errorf("%q: the way back is %q", lines, to)
				}
			})
			s := g.passed(t, g.get(t, "open.test", "/", lines...))
			none(t, s, "X-Forwarded-Port", "X-Forwarded-Ssl", "Forwarded")
			one(t, s, "X-Forwarded-Proto", "http")
		}
	})
	g.attack(t, "peer 71: Proxy becomes HTTP_PROXY of a CGI program", func(t *testing.T) {
		for _, name := range []string{"Proxy", "proxy", "PROXY"} {
			none(t, g.passed(t, g.get(t, "open.test", "/", name+": http://evil.test:3128")), "Proxy")
			none(t, g.passed(t, g.raw(t, "GET /public/x HTTP/1.1", "Host: public.test", name+": http://evil.test:3128")), "Proxy")
		}
	})
	// Caddy's access log has these credentials under the names that the client has made up.
	t.Run("peer 8: aliases of the headers that are read here", func(t *testing.T) {
		session := g.session(t, "wiki.localhost", person(1))
		for _, alias := range []string{
			"Authorization_: Bearer " + g.user, "X_Forwarded_Uri: /public/x", "X.Forwarded.Uri: /public/x", "X_Original_URI: /public/x",
			"X_Forwarded_Proto: https", "X.Forwarded.Proto: https",
			"Sec_Fetch_Mode: navigate", "Access_Control_Request_Method: GET", "X-Forwarded_For: 10.0.0.1", "Proxy_Authorization: Bearer " + g.user,
		} {
			closed(t, alias)
			s := g.passed(t, g.get(t, "open.test", "/", alias))
			for _, name := range []string{"X-Forwarded-Uri", "X-Original-Uri"} {
				none(t, s, name)
			}
			one(t, s, "X-Forwarded-Proto", "http")
			one(t, s, "X-Forwarded-For", "127.0.0.1")
		}
		// An alias is no cookie, and no claim about who asks.
		g.refused(t, g.raw(t, "GET / HTTP/1.1", "Host: wiki.localhost:"+g.port, "Coo_kie: "+session, "Cookie_: "+session),
			http.StatusUnauthorized)
		g.refused(t, g.raw(t, "POST /.gatehouse/logout HTTP/1.1", "Host: wiki.localhost:"+g.port, "Cookie: "+session,
			"Sec_Fetch_Site: same-origin", "Content-Length: 0"), http.StatusForbidden)
	})
}

// What other gateways were broken by in paths, queries and cookies.
func TestPeersTargets(t *testing.T) {
	g := startGateway(t)
	bare := func(host, target string) answer { return g.raw(t, "GET "+target+" HTTP/1.1", "Host: "+host) }
	g.attack(t, "peer 2: broken session cookies", func(t *testing.T) {
		const host = "wiki.localhost"
		name := cookie.For(g.origin(host)).Name(kindSession)
		good := g.session(t, host, person(1))
		_, raw, _ := strings.Cut(good, "=")
		for _, line := range []string{
			name, name + "=", name + "=%", name + "=%00", name + "=" + raw[:len(raw)-1], name + "=" + raw + "x", name + "=" + raw + "=",
			name + "=" + strings.ToUpper(raw), name + "=\"" + raw,
			name + "=" + raw + "\"", name + "=" + strings.Repeat("A", 8<<10), name + "=a b", name + "=a,b", name + "=Zm9v!", name + "==" + raw,
			strings.ToUpper(name) + "=" + raw, name + "x=" + raw,
			good + "; " + good, good + "; " + name + "=x", name + "=x; " + good, name + "=" + newToken(t, secret.SiteSession), name + "=" + g.user,
			"=" + good, "gh-=" + raw, name + "=\xff\xfe",
			name + "=../../" + raw, name + "=" + raw[:5] + "%2e" + raw[6:],
		} {
			a := g.raw(t, "GET /x HTTP/1.1", "Host: "+host+":"+g.port, "Cookie: "+line)
			if g.refused(t, a, http.StatusUnauthorized, http.StatusBadRequest); a.StatusCode < http.StatusMultipleChoices {
				t.Errorf("%.60q: %d, want a refusal", line, a.StatusCode)
			}
			g.refused(t, g.open(t, host, "/x", "Cookie: "+line), http.StatusFound, http.StatusBadRequest)
		}
		one(t, g.passed(t, g.open(t, host, "/x", "Cookie: "+good)), "Remote-User", demoName)
	})
	g.attack(t, "peer 4: a fragment widens a public path", func(t *testing.T) {
		for _, path := range []string{
			"/public/x%23/../admin", "/public/x#/../admin", "/public/%23/%2e%2e/%2e%2e/admin", "/admin#/public/x",
			"/public/#", "/public#/x", "/admin%23/public/",
		} {
			g.refused(t, bare("public.test", path), http.StatusBadRequest, http.StatusUnauthorized)
			g.refused(t, bare("match.test", "/api"+path), http.StatusBadRequest, http.StatusUnauthorized)
		}
		g.refused(t, bare("match.test", "/open#/api/x"), http.StatusBadRequest)
		g.refused(t, g.get(t, "open.test", "/a#b"), http.StatusBadRequest)
	})
	g.attack(t, "peer 11: a path that is rewritten before or after the rule", func(t *testing.T) {
		for _, path := range []string{
			"/api../admin", "/api/../admin", "/api/..%2fadmin", "/apix/admin", "/api", "/api%2f../admin",
			"/api/%2e%2e/admin", "/api;/admin", "/v1/api../admin", "/ap/v1i../admin", "/.v1./admin",
		} {
			for _, host := range []string{"strips.test", "replaces.test"} {
				g.refused(t, bare(host, path), http.StatusBadRequest, http.StatusUnauthorized)
			}
			g.refused(t, bare("stripped.test", "/app"+path), http.StatusBadRequest, http.StatusUnauthorized)
			g.refused(t, bare("replaced.test", path), http.StatusBadRequest, http.StatusUnauthorized)
		}
		for _, path := range []string{
			"/app../api/x", "/app/../api/x", "/app/api/../admin", "/app../admin", "/app/api../admin", "/app/..%2fadmin",
			"/v1/../admin", "/v1..//admin", "/a/v1pi/../admin", "/api/./v1./admin", "/api/.v1./admin", "/api/.%2fv1./admin",
		} {
			for _, host := range []string{"stripped.test", "replaced.test"} {
				// What was changed before is judged as it goes on.
				a := bare(host, path)
				for _, s := range g.take() {
					if !strings.HasPrefix(s.target, "/api/") || !sitepath.Canonical(s.target) || a.StatusCode != http.StatusOK {
						t.Errorf("%s of %s reached the upstream as %s", path, host, s.target)
					}
				}
			}
		}
		g.passed(t, bare("stripped.test", "/app/api/x"))
		g.passed(t, bare("strips.test", "/api/x"))
	})
	g.attack(t, "peer 16: backslashes and encoded slashes against path matchers", func(t *testing.T) {
		for _, path := range []string{
			"/api%5c..", "/x%2f..%2fapi%2fx", "/x/..%2fapi/x", "/%5capi/x", "/\\api\\x", "/open\\..\\api\\x",
			"/open/%2e%2e%5capi/x", "/api%2fx", "/assets%2f..%2fx", "/assets/..%5cx",
		} {
			g.refused(t, bare("match.test", path), http.StatusBadRequest)
			g.refused(t, bare("notpath.test", path), http.StatusBadRequest)
			g.refused(t, bare("open.test", path), http.StatusUnauthorized)
		}
		g.refused(t, bare("match.test", "\\api"), http.StatusBadRequest)
	})
	g.attack(t, "peer 72: a reserved parameter after thousands of others", func(t *testing.T) {
		for _, n := range []int{1_000, 5_000, 20_000} {
			many := strings.Repeat("a&", n)
			a := g.raw(t, "GET /?"+many+"access_token="+g.user+" HTTP/1.1", "Host: open.test")
			g.refused(t, a, http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge, http.StatusRequestURITooLong)
			a = g.get(t, "open.test", "/?"+many+"access_token=x")
			g.refused(t, a, http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge, http.StatusRequestURITooLong)
			session := g.session(t, "wiki.localhost", person(1))
			a = g.raw(t, "GET /?"+many+"gatehouse_code=x HTTP/1.1", "Host: wiki.localhost:"+g.port, "Cookie: "+session)
			g.refused(t, a, http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge, http.StatusRequestURITooLong)
		}
	})
}

// What other gateways were broken by behind the gate: error pages and FastCGI.
func TestPeersUpstreams(t *testing.T) {
	g := startGateway(t)
	g.attack(t, "peer 13: an error page of another server gets no credentials", func(t *testing.T) {
		const host = "tidy.localhost"
		c := g.session(t, host, person(1))
		a := g.open(t, host, "/x", "Cookie: theirs=1; "+c, "Remote-User: admin", "X-Original-Url: /y")
		s := g.passed(t, a)
		none(t, s, "Authorization", "Remote-User", "Remote-Groups", "Remote-Email", "Remote-Name", "X-Original-Url")
		one(t, s, "Cookie", "theirs=1")
		s = g.passed(t, g.raw(t, "GET /x HTTP/1.1", "Host: "+host, "Authorization: Bearer "+g.user))
		none(t, s, "Authorization", "Remote-User")
		s = g.passed(t, g.open(t, host, "/x", "Cookie: "+c, "Authorization: Basic eDp5"))
		none(t, s, "Authorization", "Cookie")
	})

	l, err := net.Listen("tcp", g.fastCGI)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got http.Header
	var user string
	var served sync.WaitGroup
	served.Go(func() {
		fcgi.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:errcheck // it ends with the listener
			mu.Lock()
			defer mu.Unlock()
			got, user = r.Header.Clone(), fcgi.ProcessEnv(r)["REMOTE_USER"]
			w.Write([]byte("ok")) //nolint:errcheck // to a test
		}))
	})
	t.Cleanup(func() { l.Close(); served.Wait() })
	last := func() (http.Header, string) {
		mu.Lock()
		defer mu.Unlock()
		return got, user
	}
	g.attack(t, "peer 14,71: identity headers and Proxy by way of FastCGI", func(t *testing.T) {
		who := person(1, "staff")
		delete(who.Person.Profile, "email")
		raw := newToken(t, secret.AccessToken)
		g.fake.set(func() { g.fake.tokens[raw] = who })
		forged := []string{
			"Remote-Email: admin@example.com", "Remote_Email: admin@example.com", "Remote.Email: admin@example.com",
			"remote-email: admin@example.com", "Remote_User: admin", "Remote.User: admin",
			"REMOTE-USER: admin", "Remote_Groups: admins", "Proxy: http://evil.test", "X-Original-Url: /admin", "X_Original_Url: /admin",
		}
		for _, lines := range append([][]string{forged}, slices.Collect(slices.Chunk(forged, 1))...) {
			a := g.raw(t, slices.Concat([]string{"GET /index.php HTTP/1.1", "Host: php.test", "Authorization: Bearer " + raw}, lines)...)
			if a.StatusCode != http.StatusOK {
				t.Fatalf("status = %d, want 200", a.StatusCode)
			}
			h, id := last()
			if h.Get("Remote-User") != demoName || h.Get("Remote-Groups") != "staff" || id != demoID {
				t.Errorf("%q: the program is told %q, REMOTE_USER %q", lines, h, id)
			}
			a = g.raw(t, slices.Concat([]string{"GET /public/index.php HTTP/1.1", "Host: php.test"}, lines)...)
			public, id := last()
			if a.StatusCode != http.StatusOK || len(public.Values("Remote-User")) > 0 || id != "" {
				t.Errorf("%q: on a public path the program is told %q, REMOTE_USER %q", lines, public, id)
			}
			for _, h := range []http.Header{h, public} {
				for _, name := range []string{"Remote-Email", "Proxy", "X-Original-Url"} {
					if v := h.Values(name); len(v) > 0 {
						t.Errorf("%q: the program is told %s = %q, want nothing", lines, name, v)
					}
				}
			}
		}
	})
}
