package protect

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/fieldname"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	demoID   = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
	demoName = "demo@example.com"
)

// one asserts that a header arrived once, with this value, in any spelling.
func one(t *testing.T, s seen, name, want string) {
	t.Helper()
	if got := s.values(name); !slices.Equal(got, []string{want}) {
		t.Errorf("the upstream saw %s = %q, want exactly %q", name, got, want)
	}
}

func none(t *testing.T, s seen, names ...string) {
	t.Helper()
	for _, name := range names {
		if got := s.values(name); len(got) > 0 {
			t.Errorf("the upstream saw %s = %q, want none", name, got)
		}
	}
}

func TestProtectAttacksOnHeaders(t *testing.T) {
	g := startGateway(t)
	g.attack(t, "attack 182: identity headers in every case, twice, with comma and space", func(t *testing.T) {
		for _, lines := range [][]string{
			{"X-Auth-User: admin"},
			{"x-auth-user: admin"},
			{"X-AUTH-USER: admin"},
			{"X-aUtH-uSeR: admin"},
			{"X-Auth-User: admin", "X-Auth-User: root"},
			{"X-Auth-User: admin, root"},
			{"X-Auth-User:admin\t"},
			{"X-Auth-User:   "},
			{"Remote-User: admin", "remote-user: root", "Remote-Groups: admins", "REMOTE-NAME: x", "Remote-email: y"},
		} {
			s := g.passed(t, g.get(t, "own.test", "/", lines...))
			one(t, s, "X-Auth-User", demoID)
			one(t, s, "X-Auth-Name", "Demo Pérson")
			none(t, s, "Remote-User", "Remote-Name", "Remote-Email", "Remote-Groups")
			s = g.passed(t, g.get(t, "open.test", "/", lines...))
			one(t, s, "Remote-User", demoName)
			one(t, s, "Remote-Name", "Demo Pérson")
			one(t, s, "Remote-Email", demoName)
			one(t, s, "Remote-Groups", "staff")
		}
		for _, line := range []string{"X-Auth-User : admin", "X-Auth-Usеr: admin", "X-Auth-User\x00: admin", "X-Auth-User: a\x00b"} {
			g.refused(t, g.get(t, "own.test", "/", line), http.StatusBadRequest)
		}
		// An obsolete line fold is a space, and the header goes with what was folded.
		one(t, g.passed(t, g.get(t, "own.test", "/", "X-Auth-User: admin\r\n root")), "X-Auth-User", demoID)
	})
	g.attack(t, "attack 9734: names of headers with another sign for -", func(t *testing.T) {
		for _, sign := range strings.Split("!#$%&'*+.^_`|~", "") {
			var lines []string
			for _, name := range []string{
				"Remote-User", "Remote-Groups", "Remote-Assertion", "X-Original-Url", "X-Forwarded-For", "True-Client-Ip",
			} {
				lines = append(lines, strings.ReplaceAll(name, "-", sign)+": forged", strings.Replace(name, "-", sign, 1)+": forged")
			}
			request := "GET /public/x HTTP/1.1\r\nHost: public.test\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
			for _, s := range []seen{
				g.passed(t, g.get(t, "open.test", "/", lines...)),
				g.passed(t, g.raw(t, append([]string{"GET /public/x HTTP/1.1", "Host: public.test"}, lines...)...)),
				g.passed(t, exchange(t, caddytest.Dial(t, g.trusted), request)),
			} {
				if strings.Contains(s.raw, "forged") {
					t.Errorf("the upstream saw %q", s.raw)
				}
			}
		}
	})
	g.attack(t, "attack 183: identity headers spelled with underscores and dots", func(t *testing.T) {
		for _, name := range []string{"X_Auth_User", "X.Auth.User", "X-Auth_User", "x_auth-user", "Remote_User", "REMOTE.USER", "Remote_Groups"} {
			s := g.passed(t, g.get(t, "own.test", "/", name+": admin"))
			one(t, s, "X-Auth-User", demoID)
			none(t, s, "Remote-User", "Remote-Groups")
		}
	})
	g.attack(t, "attack 184: Connection names our headers", func(t *testing.T) {
		for _, line := range []string{
			"Connection: X-Auth-User", "Connection: x-auth-user", "Connection: close, X-Auth-User", "Connection: keep-alive,x_auth_user",
			"Connection: Remote-User",
			"Connection: close\r\nConnection: X-Auth-User",
		} {
			g.refused(t, g.get(t, "own.test", "/", line), http.StatusBadRequest)
		}
		for _, line := range []string{
			"Proxy-Connection: X-Auth-User", "TE: trailers, X-Auth-User", "Keep-Alive: X-Auth-User",
			"Connection: X-Other\r\nX-Other: 1",
		} {
			one(t, g.passed(t, g.get(t, "own.test", "/", line)), "X-Auth-User", demoID)
		}
	})
	g.attack(t, "attack 186: identity headers as trailers and pseudo headers", func(t *testing.T) {
		post := []string{"POST / HTTP/1.1", "Host: own.test", "Authorization: Bearer " + g.user, "Transfer-Encoding: chunked"}
		for _, declared := range [][]string{nil, {"Trailer: X-Auth-User, X-Other"}, {"Trailer: X-Other"}} {
			lines := slices.Concat(post, declared,
				[]string{"", "2", "hi", "0", "X-Auth-User: admin", "X_Auth_User: admin", "Remote-User: admin", "X-Other: fine"})
			s := g.passed(t, g.raw(t, lines...))
			one(t, s, "X-Auth-User", demoID)
			if s.body != "hi" {
				t.Errorf("body = %q, want hi", s.body)
			}
			for name := range s.trailer {
				if fieldname.Same(name, "X-Auth-User") || fieldname.Same(name, "Remote-User") {
					t.Errorf("the upstream saw the trailer %s", name)
				}
			}
			if strings.Contains(s.raw, "admin") {
				t.Errorf("the upstream saw %q", s.raw)
			}
		}
		g.refused(t, g.get(t, "own.test", "/", ":auth-user: admin"), http.StatusBadRequest)
	})
	g.attack(t, "attack 187: forwarding headers from an untrusted peer", func(t *testing.T) {
		forged := []string{
			"X-Forwarded-For: 10.9.8.7", "X-Forwarded-Host: evil.test", "X-Forwarded-Proto: gopher", "X-Forwarded-Port: 6666",
			"X-Forwarded-Uri: /evil", "X-Forwarded-Prefix: /evil",
			"X-Forwarded-Method: EVIL", "Forwarded: for=10.9.8.7;host=evil.test", "X-Real-IP: 10.9.8.7", "X-Original-URL: /evil",
			"X-Rewrite-URL: /evil", "X-Original-Method: EVIL", "X_Forwarded_For: 10.9.8.7",
		}
		s := g.passed(t, g.get(t, "open.test", "/", forged...))
		for _, lie := range []string{"evil", "EVIL", "10.9.8.7", "gopher", "6666"} {
			if strings.Contains(s.raw, lie) {
				t.Errorf("the upstream saw %q in %q", lie, s.raw)
			}
		}
		one(t, s, "X-Forwarded-For", "127.0.0.1")
		one(t, s, "X-Forwarded-Host", "open.test")
		// From a trusted proxy what a proxy says is believed, and nothing that changes the path.
		conn := caddytest.Dial(t, g.trusted)
		s = g.passed(t, exchange(t, conn,
			"GET / HTTP/1.1\r\nHost: open.test\r\nAuthorization: Bearer "+g.user+"\r\n"+strings.Join(forged, "\r\n")+"\r\n\r\n"))
		none(t, s, "X-Original-URL", "X-Rewrite-URL", "X-Original-Method")
		one(t, s, "X-Real-IP", "10.9.8.7")
		// The way back after a sign-in is never the forged host.
		a := g.open(t, "wiki.localhost", "/x", "X-Forwarded-Host: evil.test", "X-Forwarded-Proto: https")
		g.refused(t, a, http.StatusFound)
		g.fake.set(func() {
			if to := g.fake.flows[len(g.fake.flows)-1].Return; to != g.origin("wiki.localhost")+"/x" {
				t.Errorf("return = %q, want the site's own URL", to)
			}
		})
	})
	g.attack(t, "attack 212: placeholders in what a request says stay literal", func(t *testing.T) {
		t.Setenv("SECRET", "opensesame")
		g.fake.set(func() {
			who := person(1, "{env.SECRET}")
			who.Person.Username, who.Person.Profile["name"] = "{env.SECRET}", "{file./etc/passwd}{{.}}"
			g.fake.tokens[g.user] = who
		})
		defer g.fake.set(func() { g.fake.tokens[g.user] = person(1, "staff") })
		s := g.passed(t, g.get(t, "open.test", "/{env.SECRET}?x={env.SECRET}", "User-Agent: {env.SECRET}",
			"X-Other: {http.request.header.Authorization}{{.}}"))
		one(t, s, "Remote-User", "{env.SECRET}")
		one(t, s, "Remote-Name", "{file./etc/passwd}{{.}}")
		one(t, s, "Remote-Groups", "{env.SECRET}")
		one(t, s, "X-Placeholder", demoID+"|{file./etc/passwd}{{.}}|")
		one(t, s, "X-Other", "{http.request.header.Authorization}{{.}}")
		// On a public path the placeholders are empty.
		one(t, g.passed(t, g.raw(t, "GET /public/x HTTP/1.1", "Host: public.test")), "X-Placeholder", "||")
		// A second protect on the way still sets the placeholders.
		one(t, g.passed(t, g.get(t, "inner.test", "/public/x")), "X-Placeholder", demoID+"|{file./etc/passwd}{{.}}|")
		if strings.Contains(s.raw, "opensesame") || strings.Contains(s.raw, "root:") {
			t.Errorf("a placeholder was resolved: %q", s.raw)
		}
	})
	g.attack(t, "attack 213: line breaks, escapes and long values in what is logged and handed on", func(t *testing.T) {
		g.fake.set(func() {
			who := person(1, "a\r\nX-Admin: 1", "b,admins", "c")
			who.Person.Username, who.Person.Profile["name"] = "x\r\nRemote-User: admin", "\x1b[31m\xff"+strings.Repeat("n", 100)
			g.fake.tokens[g.user] = who
		})
		defer g.fake.set(func() { g.fake.tokens[g.user] = person(1, "staff") })
		s := g.passed(t, g.get(t, "open.test", "/", "User-Agent: "+strings.Repeat("u", 10_000), "Referer: \xff\xfe"))
		one(t, s, "Remote-User", "xRemote-User: admin")
		one(t, s, "Remote-Groups", "aX-Admin: 1,c") // a group with a comma would read as two
		one(t, s, "Remote-Name", "[31m"+strings.Repeat("n", 100))
		g.refused(t, g.raw(t, "GET /\xff%0a%1b HTTP/1.1", "Host: open.test", "User-Agent: \xc2\x9b"+strings.Repeat("u", 10_000)),
			http.StatusUnauthorized)
		g.refused(t, g.get(t, "open.test", "/", "User-Agent: \x1b]0;x\x07"), http.StatusBadRequest)
	})
}

func TestProtectAttacksOnPaths(t *testing.T) {
	g := startGateway(t)
	bare := func(t *testing.T, host, target string) answer {
		t.Helper()
		return g.raw(t, "GET "+target+" HTTP/1.1", "Host: "+host)
	}
	disguises := []string{
		"//admin", "/./admin", "/x/../admin", "/%61dmin", "/ADMIN", "/admin/", "/admin;x", "/admin%20", "/admin%09", "/admin%00", "/admin%ff",
		"/\\admin", "/admin?x", "/%c0%af", "/%ef%bc%8fadmin", "/admin#x",
	}
	g.attack(t, "attack 188: a protected path in disguise", func(t *testing.T) {
		for _, path := range disguises {
			g.refused(t, bare(t, "open.test", path), http.StatusUnauthorized, http.StatusBadRequest)
			g.refused(t, bare(t, "public.test", path), http.StatusUnauthorized, http.StatusBadRequest)
		}
		// With a token the path goes on byte for byte.
		for _, path := range []string{"//admin", "/x/../admin", "/%61dmin", "/admin;x", "/a%2fb", "/admin%20?q=%2f&x", "/caf%c3%a9"} {
			if s := g.passed(t, g.get(t, "open.test", path)); s.target != path {
				t.Errorf("the upstream saw %q, want %q", s.target, path)
			}
		}
		// Where a rule decides by the path, only the canonical form is accepted, from any client.
		for _, path := range []string{"//admin", "/x/../admin", "/%61dmin", "/admin;x", "/a%2fb"} {
			g.refused(t, g.get(t, "public.test", path), http.StatusBadRequest)
		}
		g.passed(t, g.get(t, "public.test", "/caf%C3%A9/a%20b"))
	})
	g.attack(t, "attack 189: out of a public path", func(t *testing.T) {
		for _, path := range []string{
			"/public%2f..%2fadmin", "/public/..%2fadmin", "/public/%2e%2e/admin", "/public/..;/admin", "/public/../admin",
			"/public/%252e%252e/admin", "/public/..%5cadmin", "/public/\\..\\admin",
			"/public/%ef%bc%8e%ef%bc%8e/admin", "/healthz/../admin", "/public/%2E%2E%2Fadmin", "/public//../admin",
		} {
			g.refused(t, bare(t, "public.test", path), http.StatusBadRequest)
		}
		for _, path := range []string{"/public", "/publicx/a", "/healthz/", "/HEALTHZ", "/admin"} {
			g.refused(t, bare(t, "public.test", path), http.StatusUnauthorized)
		}
		for _, path := range []string{"/public/", "/public/a/b.css?x=/../", "/healthz"} {
			s := g.passed(t, g.raw(t, "GET "+path+" HTTP/1.1", "Host: public.test", "Remote-User: admin", "X-Original-URL: /admin",
				"Cookie: a=1; gh-abcdefgh-site=x"))
			none(t, s, "Remote-User", "X-Original-URL")
			one(t, s, "Cookie", "a=1")
			if s.target != path {
				t.Errorf("the upstream saw %q, want %q", s.target, path)
			}
		}
	})
	g.attack(t, "attack 191: a public path in query, fragment or suffix", func(t *testing.T) {
		for _, path := range []string{
			"/admin?/public/", "/admin#/public/", "/admin/?x=/public/a.css", "/admin/x.css",
			"/admin?path=/healthz", "/admin/public/",
		} {
			g.refused(t, bare(t, "public.test", path), http.StatusUnauthorized, http.StatusBadRequest)
		}
	})
	g.attack(t, "attack 192: absolute targets, asterisk and CONNECT", func(t *testing.T) {
		g.refused(t, bare(t, "open.test", "http://evil.test/admin"), http.StatusOK, http.StatusUnauthorized,
			http.StatusBadRequest, http.StatusNotFound)
		g.refused(t, bare(t, "open.test", "http://open.test/admin"), http.StatusUnauthorized)
		g.refused(t, bare(t, "open.test", "http://user@open.test/admin"), http.StatusUnauthorized, http.StatusBadRequest)
		g.refused(t, g.get(t, "open.test", "*"), http.StatusBadRequest)
		g.refused(t, g.raw(t, "OPTIONS * HTTP/1.1", "Host: open.test", "Authorization: Bearer "+g.user), http.StatusOK, http.StatusBadRequest)
		g.refused(t, g.raw(t, "CONNECT app:443 HTTP/1.1", "Host: open.test", "Authorization: Bearer "+g.user), http.StatusOK,
			http.StatusMethodNotAllowed, http.StatusBadRequest) // another host: an empty answer
		g.refused(t, g.raw(t, "CONNECT open.test:443 HTTP/1.1", "Host: open.test:443", "Authorization: Bearer "+g.user),
			http.StatusMethodNotAllowed, http.StatusBadRequest)
		// A browser comes back to the site that it asked, never to the authority of the target.
		a := g.raw(t, "GET http://wiki.localhost:"+g.port+"//evil.test/x HTTP/1.1", "Host: wiki.localhost:"+g.port, "Accept: text/html")
		g.refused(t, a, http.StatusFound)
		g.fake.set(func() {
			if to := g.fake.flows[len(g.fake.flows)-1].Return; !strings.HasPrefix(to, g.origin("wiki.localhost")+"/") {
				t.Errorf("return = %q, want the site's own URL", to)
			}
		})
	})
	g.attack(t, "attack 193: the host in other spellings", func(t *testing.T) {
		for _, host := range []string{"OPEN.TEST", "Open.test", "open.test:443", "open.test:" + g.port} {
			g.refused(t, bare(t, host, "/admin"), http.StatusUnauthorized)
		}
		for _, host := range []string{"", "open.test evil", "open.test\r\nHost: evil.test", "..."} {
			g.refused(t, bare(t, host, "/admin"), http.StatusBadRequest)
		}
		g.refused(t, bare(t, "open.test.", "/admin"), http.StatusOK, http.StatusUnauthorized,
			http.StatusMisdirectedRequest) // another host: an empty answer
		// A session of the site counts under its own host only.
		c := g.session(t, "wiki.localhost", person(1))
		g.passed(t, g.open(t, "wiki.localhost", "/", "Cookie: "+c))
		g.passed(t, g.open(t, "WIKI.localhost", "/", "Cookie: "+c))
		g.refused(t, g.raw(t, "GET / HTTP/1.1", "Host: wiki.localhost:1", "Accept: text/html", "Cookie: "+c), http.StatusMisdirectedRequest)
	})
	g.attack(t, "attack 194: other methods and method overrides", func(t *testing.T) {
		for _, method := range []string{"HEAD", "OPTIONS", "PROPFIND", "get", "PURGE", "POST"} {
			g.refused(t, g.raw(t, method+" /admin HTTP/1.1", "Host: public.test", "Content-Length: 0"), http.StatusUnauthorized)
			a := g.raw(t, method+" /admin HTTP/1.1", "Host: public.test", "Content-Length: 0", "X-HTTP-Method-Override: GET",
				"X-Method-Override: GET", "X-Original-URL: /public/")
			g.refused(t, a, http.StatusUnauthorized)
		}
		g.refused(t, g.raw(t, "TRACE / HTTP/1.1", "Host: open.test", "Authorization: Bearer "+g.user), http.StatusMethodNotAllowed)
		g.refused(t, bare(t, "open.test", "/admin?_method=GET"), http.StatusUnauthorized)
	})
	g.attack(t, "attack 211: probes, health checks and debug paths get no bypass", func(t *testing.T) {
		for _, ua := range []string{"GoogleHC/1.0", "ELB-HealthChecker/2.0", "kube-probe/1.30"} {
			for _, path := range []string{"/", "/ping", "/healthz?x", "/metrics", "/debug/pprof/", "/config/", "/load"} {
				g.refused(t, g.raw(t, "GET "+path+" HTTP/1.1", "Host: open.test", "User-Agent: "+ua), http.StatusUnauthorized)
			}
		}
		g.refused(t, g.raw(t, "POST /load HTTP/1.1", "Host: open.test", "Origin: https://evil.test", "Content-Type: text/plain",
			"Content-Length: 2", "", "{}"), http.StatusUnauthorized)
	})
}

func TestProtectAttacksOnTokens(t *testing.T) {
	g := startGateway(t)
	g.attack(t, "attack 203: tokens in the wrong place or shape", func(t *testing.T) {
		bearer := func(host string, lines ...string) answer {
			return g.raw(t, slices.Concat([]string{"GET /x HTTP/1.1", "Host: " + host}, lines)...)
		}
		for _, target := range []string{"/?access_token=", "/?a=1&access_token=", "/?access%5Ftoken=", "/?%61ccess_token="} {
			g.refused(t, g.raw(t, "GET "+target+g.user+" HTTP/1.1", "Host: open.test"), http.StatusBadRequest)
			g.refused(t, g.get(t, "open.test", target+"x"), http.StatusBadRequest)
		}
		good := "Authorization: Bearer " + g.user
		for _, lines := range [][]string{
			{good, good},
			{good, "Authorization: Basic eDp5"},
			{"Authorization: Bearer"},
			{"Authorization: Bearer "},
			{"Authorization: Bearer\t" + g.user},
			{good + "," + g.user},
			{good + ", Bearer x"},
			{good + " x"},
			{"Authorization: Bearer " + strings.Repeat("a", 64<<10)},
			{"Authorization: Bearer \"" + g.user + "\""},
			{"Authorization: Bearer=" + g.user},
			{"Authorization: Bearer é"},
			{"Authorization: Bearer " + strings.Repeat("a", 9<<10)},
		} {
			a := bearer("open.test", lines...)
			g.refused(t, a, http.StatusBadRequest, http.StatusUnauthorized, http.StatusRequestHeaderFieldsTooLarge)
			// RFC 6750 3: an answer to a request without a valid token has a challenge
			if c := a.Header.Get("WWW-Authenticate"); a.StatusCode != http.StatusRequestHeaderFieldsTooLarge &&
				!strings.HasPrefix(c, `Bearer realm="gatehouse", error="invalid_`) {
				t.Errorf("%.40q: WWW-Authenticate = %q, want a challenge with an error", lines, c)
			}
		}
		if a := g.raw(t, "GET /?access_token="+g.user+" HTTP/1.1", "Host: open.test"); !strings.Contains(a.Header.Get("WWW-Authenticate"),
			`error="invalid_request"`) {
			t.Errorf("a token in the query: WWW-Authenticate = %q, want a challenge with an error", a.Header.Get("WWW-Authenticate"))
		}
		g.passed(t, bearer("open.test", "Authorization: Bearer   "+g.user)) // RFC 9110 11.4: any number of spaces
		for _, v := range []string{
			"Bearer x", "bearer " + g.user + "=", "BEARER " + strings.ToUpper(g.user), "Basic eDp5", "DPoP " + g.user,
			"Bearerx " + g.user, "Token " + g.user, "",
		} {
			g.refused(t, bearer("open.test", "Authorization: "+v), http.StatusUnauthorized)
		}
		g.passed(t, bearer("open.test", "authorization: bEARER "+g.user))
		// A Bearer header decides, valid or not, whatever the cookie says.
		c := g.session(t, "wiki.localhost", person(1))
		wiki := "wiki.localhost:" + g.port
		g.refused(t, bearer(wiki, "Cookie: "+c, "Authorization: Bearer "+g.expired), http.StatusUnauthorized)
		g.refused(t, bearer(wiki, "Cookie: "+c, "Authorization: Bearer "), http.StatusBadRequest)
		// Another scheme is the upstream's; the cookie decides.
		one(t, g.passed(t, bearer(wiki, "Cookie: "+c, "Authorization: Basic eDp5")), "Authorization", "Basic eDp5")
		name, raw, _ := strings.Cut(c, "=")
		for _, cookies := range []string{
			c + "; " + c, name + "=" + strings.Repeat("x", 64<<10), name + "=x", name + "=", name, "x" + c,
			name + "=\"" + raw + "x\"", strings.ToUpper(name) + "=" + raw,
		} {
			g.refused(t, bearer(wiki, "Cookie: "+cookies), http.StatusUnauthorized, http.StatusRequestHeaderFieldsTooLarge)
		}
		// The session of one site, or an access token, is no cookie of another.
		g.refused(t, bearer("step.localhost:"+g.port, "Cookie: "+cookie.For(g.origin("step.localhost")).Name(kindSession)+"="+raw),
			http.StatusUnauthorized)
		g.refused(t, bearer(wiki, "Cookie: "+name+"="+g.user), http.StatusUnauthorized)
		g.refused(t, bearer("open.test", "Authorization: Bearer "+raw), http.StatusUnauthorized)
	})
	g.attack(t, "attack 204: each route applies its own rules to the same token", func(t *testing.T) {
		for range 2 {
			g.passed(t, g.get(t, "bearer.test", "/"))
			a := g.get(t, "c.test", "/")
			g.refused(t, a, http.StatusForbidden)
			if got := a.Header.Get("WWW-Authenticate"); !strings.Contains(got, `error="insufficient_scope"`) ||
				!strings.Contains(got, `scope="a c"`) {
				t.Errorf("challenge = %q, want insufficient_scope and the scopes", got)
			}
			g.refused(t, g.get(t, "aud.test", "/"), http.StatusUnauthorized)
			a = g.get(t, "level.test", "/")
			g.refused(t, a, http.StatusUnauthorized)
			if got := a.Header.Get("WWW-Authenticate"); !strings.Contains(got, `error="insufficient_user_authentication"`) ||
				!strings.Contains(got, `acr_values="urn:gatehouse:level:2"`) {
				t.Errorf("challenge = %q, want that of RFC 9470", got)
			}
			g.passed(t, g.get(t, "staff.test", "/"))
		}
		g.fake.set(func() { g.fake.tokens[g.user].Audience = []string{"https://other.test", "https://aud.test"} })
		g.passed(t, g.get(t, "aud.test", "/"))
		g.refused(t, g.get(t, "open.test", "/"), http.StatusUnauthorized)
		g.fake.set(func() { g.fake.tokens[g.user].Audience = nil })
		// A client is in no group, even one that calls itself like a person.
		robot := newToken(t, secret.AccessToken)
		g.fake.set(func() {
			g.fake.tokens[robot] = &token.Introspection{Active: true, Subject: demoName, ClientID: demoName, Scope: []string{"a"}}
		})
		g.refused(t, g.raw(t, "GET / HTTP/1.1", "Host: staff.test", "Authorization: Bearer "+robot), http.StatusForbidden)
		none(t, g.passed(t, g.raw(t, "GET / HTTP/1.1", "Host: open.test", "Authorization: Bearer "+robot)), "Remote-User",
			"Remote-Name", "Remote-Groups")
	})
	g.attack(t, "attack 206: a revocation counts at once on the same connection", func(t *testing.T) {
		raw := newToken(t, secret.AccessToken)
		for name, end := range map[string]func(){
			"revoked":       func() { delete(g.fake.tokens, raw) },
			"disabled":      func() { g.fake.tokens[raw].Active = false },
			"group removed": func() { g.fake.tokens[raw].Person.Groups = nil },
		} {
			g.fake.set(func() { g.fake.tokens[raw] = person(1, "staff") })
			conn := caddytest.Dial(t, g.addr)
			request := "GET / HTTP/1.1\r\nHost: staff.test\r\nAuthorization: Bearer " + raw + "\r\n\r\n"
			for range 3 {
				g.passed(t, exchange(t, conn, request))
			}
			g.fake.set(end)
			a := exchange(t, conn, request)
			if g.refused(t, a, http.StatusUnauthorized, http.StatusForbidden); t.Failed() {
				t.Errorf("%s: let in", name)
			}
		}
		for _, end := range []func(in *token.Introspection){
			func(in *token.Introspection) { in.Active = false },
			func(in *token.Introspection) { in.AuthTime = time.Now().Add(-12 * time.Hour) }, // session 12h
		} {
			who := person(1)
			c := g.session(t, "wiki.localhost", who)
			g.passed(t, g.open(t, "wiki.localhost", "/", "Cookie: "+c))
			g.fake.set(func() { end(who) })
			g.refused(t, g.open(t, "wiki.localhost", "/", "Cookie: "+c), http.StatusFound)
		}
	})
	// Another request takes the last use, or the person loses the group, between the lookup and the use.
	g.attack(t, "a token that changes while it is used", func(t *testing.T) {
		for name, tt := range map[string]struct {
			used *token.Introspection
			want int
		}{
			"used up":       {&token.Introspection{}, http.StatusUnauthorized},
			"group removed": {limited(person(1)), http.StatusForbidden},
			"unchanged":     {limited(person(1, "staff")), http.StatusOK},
		} {
			raw := newToken(t, secret.AccessToken)
			g.fake.set(func() {
				g.fake.tokens[raw] = limited(person(1, "staff"))
				g.fake.uses = map[string]*token.Introspection{raw: tt.used}
			})
			a := g.raw(t, "GET / HTTP/1.1", "Host: staff.test", "Authorization: Bearer "+raw)
			if a.StatusCode != tt.want {
				t.Errorf("%s: status = %d, want %d", name, a.StatusCode, tt.want)
			}
			if passed := g.take(); (len(passed) > 0) != (tt.want == http.StatusOK) {
				t.Errorf("%s: the upstream got %d requests", name, len(passed))
			}
		}
	})
	g.attack(t, "attack 207: many unknown tokens leave nothing behind", func(t *testing.T) {
		late := newToken(t, secret.AccessToken)
		request := func(raw string) string {
			return "GET / HTTP/1.1\r\nHost: open.test\r\nAuthorization: Bearer " + raw + "\r\n\r\n"
		}
		conn := caddytest.Dial(t, g.addr)
		g.refused(t, exchange(t, conn, request(late)), http.StatusUnauthorized)
		before := 0
		g.fake.set(func() { before = g.fake.asked })
		for range 1000 {
			if a := exchange(t, conn, request(newToken(t, secret.AccessToken))); a.StatusCode != http.StatusUnauthorized {
				t.Fatalf("status = %d, want 401", a.StatusCode)
			}
		}
		g.fake.set(func() {
			if n := g.fake.asked - before; n < 1000 { // a request that lasts is looked up again
				t.Errorf("%d look-ups for 1000 requests: something is remembered", n)
			}
			g.fake.tokens[late] = person(1)
		})
		g.passed(t, exchange(t, conn, request(late)))
	})
	g.attack(t, "attack 208: when it cannot be told, nobody gets in", func(t *testing.T) {
		c := g.session(t, "wiki.localhost", person(1))
		g.fake.set(func() { g.fake.err = errors.New("disk on fire") })
		for range 3 {
			a := g.get(t, "open.test", "/")
			g.refused(t, a, http.StatusServiceUnavailable)
			if a.Header.Get("Retry-After") == "" || strings.Contains(a.body, "fire") {
				t.Errorf("Retry-After %q, body %q: want the one and nothing of the cause", a.Header.Get("Retry-After"), a.body)
			}
			a = g.open(t, "wiki.localhost", "/", "Cookie: "+c)
			g.refused(t, a, http.StatusServiceUnavailable)
			if !strings.Contains(a.Header.Get("Content-Type"), "text/html") || a.Header.Get("Retry-After") == "" ||
				strings.Contains(a.body, "fire") {
				t.Errorf("the page is %q with Retry-After %q", a.body, a.Header.Get("Retry-After"))
			}
			g.refused(t, g.open(t, "wiki.localhost", "/"), http.StatusServiceUnavailable)
			g.refused(t, g.open(t, "wiki.localhost", "/?gatehouse_code="+newToken(t, secret.SiteCode), "Cookie: "+c),
				http.StatusServiceUnavailable, http.StatusBadRequest)
		}
		g.fake.set(func() { g.fake.err = nil })
		g.passed(t, g.get(t, "open.test", "/"))
	})
	g.attack(t, "attack 209: an upstream neither sees nor sets our cookies", func(t *testing.T) {
		c := g.session(t, "wiki.localhost", person(1))
		name, _, _ := strings.Cut(c, "=")
		set := "Set-Cookie: " + name + "=evil; Path=/\r\nset-cookie: __Host-" + name + "=evil; Path=/; Secure\r\n" +
			"Set-Cookie: =" + name + "=evil; Path=/\r\nSet-Cookie:  = " + name + "=evil\r\nSet-Cookie: fine=1\r\n"
		g.reply("/cookies", "HTTP/1.1 200 OK\r\n"+set+"Content-Length: 2\r\n\r\nok")
		g.reply("/early", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n"+set+"\r\nHTTP/1.1 200 OK\r\n"+set+"Content-Length: 2\r\n\r\nok")
		g.reply("/chunks", "HTTP/1.1 200 OK\r\n"+set+"Transfer-Encoding: chunked\r\nTrailer: Set-Cookie\r\n\r\n2\r\nok\r\n0\r\nSet-Cookie: "+name+
			"=evil\r\n\r\n")
		for _, path := range []string{"/cookies", "/chunks"} {
			a := g.open(t, "wiki.localhost", path, "Cookie: a=1; "+c+"; b=2")
			if got := a.Header["Set-Cookie"]; !slices.Equal(got, []string{"fine=1"}) {
				t.Errorf("%s: Set-Cookie = %q, want the upstream's own only", path, got)
			}
			if got := a.Trailer["Set-Cookie"]; slices.ContainsFunc(got, func(v string) bool { return strings.Contains(v, "evil") }) {
				t.Errorf("%s: trailer Set-Cookie = %q, want none of ours", path, got)
			}
			one(t, g.passed(t, a), "Cookie", "a=1; b=2")
		}
		conn := caddytest.Dial(t, g.addr)
		if _, err := io.WriteString(conn, "GET /early HTTP/1.1\r\nHost: open.test\r\nConnection: close\r\nAuthorization: Bearer "+g.user+
			"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(conn)
		if err != nil || strings.Contains(string(all), "evil") || !strings.Contains(string(all), "103 Early Hints") ||
			strings.Count(string(all), "fine=1") != 2 {
			t.Errorf("early hints came through as %q, %v", all, err)
		}
		g.take()
		// Authorization goes on unless the site strips it.
		one(t, g.passed(t, g.get(t, "open.test", "/")), "Authorization", "Bearer "+g.user)
		none(t, g.passed(t, g.get(t, "strip.test", "/")), "Authorization")
		s := g.passed(t, g.get(t, "open.test", "/", "Cookie: "+c))
		none(t, s, "Cookie")
		none(t, g.passed(t, g.get(t, "open.test", "/", "Cookie: ="+c)), "Cookie") // the value of a cookie without a name
	})
	t.Run("a panic lets nobody in", func(t *testing.T) {
		g.fake.set(func() { g.fake.panics = true })
		a := g.get(t, "open.test", "/")
		g.refused(t, a, http.StatusInternalServerError)
		if strings.Contains(a.body, "fake") || strings.Contains(a.body, "goroutine") {
			t.Errorf("body = %q, want nothing of the cause", a.body)
		}
		g.fake.set(func() { g.fake.panics = false })
		g.passed(t, g.get(t, "open.test", "/"))
	})
}
