package protect

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// setCookie returns name=value of a cookie that an answer sets, or "".
func setCookie(a answer, name string) string {
	for _, c := range a.Cookies() {
		if c.Name == name && c.MaxAge >= 0 {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}

// code makes a one-time code for the last flow, as the issuer would.
func (g *gateway) code(t testing.TB) string {
	t.Helper()
	c := newToken(t, secret.SiteCode)
	g.fake.set(func() {
		f := g.fake.flows[len(g.fake.flows)-1]
		g.fake.codes[c] = fakeCode{f.Origin, f.binding, f.Return}
	})
	return c
}

func withCode(target, code string) string {
	sep := "?"
	if strings.Contains(target, "?") {
		sep = "&"
	}
	return target + sep + "gatehouse_code=" + code
}

func TestProtectLogin(t *testing.T) {
	g := startGateway(t)
	const host = "wiki.localhost"
	jar := cookie.For(g.origin(host))

	t.Run("a browser signs in and comes back to the very URL", func(t *testing.T) {
		for _, target := range []string{"/", "/a/b.c?x=1&y=%2F%7e+z", "//double", "/x/../y", "/%61?", "/?q", "/caf%c3%a9?a&&b=;", "/a?c={d}"} {
			a := g.open(t, host, target)
			g.refused(t, a, http.StatusFound)
			if !strings.HasPrefix(a.Header.Get("Location"), "https://issuer.test/oauth/site?flow=") || a.Header.Get("Cache-Control") != "no-store" {
				t.Fatalf("%s: sent to %q", target, a.Header.Get("Location"))
			}
			browser := setCookie(a, jar.Name(cookie.KindBrowser))
			if browser == "" {
				t.Fatalf("%s: no cookie binds the flow to the browser", target)
			}
			a = g.open(t, host, withCode(target, g.code(t)), "Cookie: "+browser)
			g.refused(t, a, http.StatusSeeOther)
			if got, want := a.Header.Get("Location"), g.origin(host)+target; got != want {
				t.Errorf("came back to %q, want %q", got, want)
			}
			for _, c := range a.Cookies() {
				if c.Domain != "" || c.Path != "/" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || len(c.String()) > 200 {
					t.Errorf("cookie %s is not small and host-only", c)
				}
			}
			session := setCookie(a, jar.Name(kindSession))
			s := g.passed(t, g.open(t, host, target, "Cookie: "+browser+"; "+session, "Referer: "+g.origin(host)+withCode("/", "spent")))
			none(t, s, "Referer")
			one(t, s, "Remote-User", demoName)
			none(t, s, "Cookie")
			if s.target != target {
				t.Errorf("the upstream saw %q, want %q", s.target, target)
			}
			if want := demoID + "|Demo Pérson|"; !slices.Equal(s.values("X-Placeholder"), []string{want}) {
				t.Errorf("placeholders = %q, want %q", s.values("X-Placeholder"), want)
			}
		}
	})
	t.Run("a sign-in ends at the site, wherever its record leads", func(t *testing.T) {
		for _, to := range []string{
			"https://evil.example/", g.origin(host) + ".evil.example/", g.origin(host) + "@evil.example/",
			"//evil.example/", "javascript:alert(1)", "",
		} {
			browser := "Cookie: " + setCookie(g.open(t, host, "/here"), jar.Name(cookie.KindBrowser))
			code := g.code(t)
			g.fake.set(func() {
				c := g.fake.codes[code]
				c.to = to
				g.fake.codes[code] = c
			})
			if got := g.open(t, host, withCode("/here", code), browser).Header.Get("Location"); got != g.origin(host)+"/here" {
				t.Errorf("a return to %q leads to %q", to, got)
			}
		}
	})
	t.Run("several tabs share one binding", func(t *testing.T) {
		a := g.open(t, host, "/one")
		browser := "Cookie: " + setCookie(a, jar.Name(cookie.KindBrowser))
		first := g.code(t)
		b := g.open(t, host, "/two", browser)
		if setCookie(b, jar.Name(cookie.KindBrowser)) != "" {
			t.Error("a second tab changed the binding")
		}
		second := g.code(t)
		for target, code := range map[string]string{"/one": first, "/two": second} {
			a := g.open(t, host, withCode(target, code), browser)
			if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != g.origin(host)+target {
				t.Errorf("%s: %d to %q", target, a.StatusCode, a.Header.Get("Location"))
			}
		}
	})
	t.Run("only navigations are sent away", func(t *testing.T) {
		for name, lines := range map[string][]string{
			"fetch":       {"GET / HTTP/1.1", "Accept: text/html", "Sec-Fetch-Mode: cors", "Sec-Fetch-Site: same-origin"},
			"script":      {"GET / HTTP/1.1", "Accept: text/html", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"},
			"XHR of old":  {"GET / HTTP/1.1", "Accept: application/json"},
			"curl":        {"GET / HTTP/1.1", "Accept: */*"},
			"form":        {"POST / HTTP/1.1", "Accept: text/html", "Sec-Fetch-Mode: navigate", "Content-Length: 0"},
			"delete":      {"DELETE / HTTP/1.1", "Accept: text/html"},
			"bad token":   {"GET / HTTP/1.1", "Accept: text/html", "Sec-Fetch-Mode: navigate", "Authorization: Bearer " + g.expired},
			"WebSocket":   {"GET / HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA=="},
			"two of them": {"GET / HTTP/1.1", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Mode: navigate"},
		} {
			a := g.raw(t, slices.Concat(lines, []string{"Host: " + host + ":" + g.port})...)
			if a.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer ") ||
				a.Header.Get("Location") != "" {
				t.Errorf("%s: status = %d, Location %q, want 401 and a challenge", name, a.StatusCode, a.Header.Get("Location"))
			}
		}
		g.refused(t, g.raw(t, "HEAD / HTTP/1.1", "Host: "+host+":"+g.port, "Accept: text/html"), http.StatusFound)
	})
	t.Run("a code is no good in another browser", func(t *testing.T) {
		a := g.open(t, host, "/x")
		g.refused(t, a, http.StatusFound)
		code := g.code(t)
		// without any binding: a page, since a browser without cookies would go round for ever
		a = g.open(t, host, withCode("/x", code))
		g.refused(t, a, http.StatusBadRequest)
		if !strings.Contains(a.body, `href="/x"`) || !strings.Contains(a.body, "/.gatehouse/assets/") ||
			setCookie(a, jar.Name(kindSession)) != "" {
			t.Errorf("the page is %q, want one that starts again", a.body)
		}
		// with another's: once more from the start, then a page
		g.open(t, host, "/x")
		code = g.code(t)
		other := "Cookie: " + jar.Name(cookie.KindBrowser) + "=" + strings.Repeat("o", 43)
		a = g.open(t, host, withCode("/x", code), other)
		g.refused(t, a, http.StatusFound)
		a = g.open(t, host, withCode("/x", code), other+"; "+setCookie(a, jar.Name(kindTries)))
		g.refused(t, a, http.StatusBadRequest)
	})
	t.Run("a spent code leads whoever is signed in to the clean URL", func(t *testing.T) {
		a := g.open(t, host, "/x?a=1")
		browser := setCookie(a, jar.Name(cookie.KindBrowser))
		code := g.code(t)
		a = g.open(t, host, withCode("/x?a=1", code), "Cookie: "+browser)
		session := setCookie(a, jar.Name(kindSession))
		a = g.open(t, host, withCode("/x?a=1", code), "Cookie: "+browser+"; "+session)
		g.refused(t, a, http.StatusSeeOther)
		if got := a.Header.Get("Location"); got != g.origin(host)+"/x?a=1" {
			t.Errorf("sent to %q, want the clean URL", got)
		}
		g.refused(t, g.open(t, host, withCode("/x", code)+"&gatehouse_code="+code, "Cookie: "+browser), http.StatusFound)
		g.refused(t, g.raw(t, "GET "+withCode("/x", code)+" HTTP/1.1", "Host: "+host+":"+g.port, "Cookie: "+session), http.StatusBadRequest)
	})
	t.Run("a session that is not kept ends in a page, not in a loop", func(t *testing.T) {
		cookies := map[string]string{}
		for i := range 10 {
			keep := func(a answer) {
				for _, c := range a.Cookies() {
					if cookies[c.Name] = c.Value; c.Name == jar.Name(kindSession) || c.MaxAge < 0 {
						delete(cookies, c.Name)
					}
				}
			}
			line := func() string {
				var l []string
				for k, v := range cookies {
					l = append(l, k+"="+v)
				}
				return "Cookie: " + strings.Join(l, "; ")
			}
			a := g.open(t, host, "/loop", line())
			keep(a)
			if a.StatusCode == http.StatusBadRequest {
				if i != maxTries {
					t.Errorf("the page came after %d rounds, want %d", i, maxTries)
				}
				return
			}
			keep(g.open(t, host, withCode("/loop", g.code(t)), line()))
		}
		t.Error("the browser goes round for ever")
	})
	t.Run("signing in and out five times in a row meets no page of an expired sign-in", func(t *testing.T) {
		cookies := map[string]string{}
		keep := func(a answer) {
			for _, c := range a.Cookies() {
				if cookies[c.Name] = c.Value; c.MaxAge < 0 {
					delete(cookies, c.Name)
				}
			}
		}
		line := func() string {
			var l []string
			for k, v := range cookies {
				l = append(l, k+"="+v)
			}
			return "Cookie: " + strings.Join(l, "; ")
		}
		for i := range maxKept + 1 {
			a := g.open(t, host, "/again", line())
			if i == maxKept {
				g.refused(t, a, http.StatusBadRequest) // a loop ends all the same
				break
			}
			g.refused(t, a, http.StatusFound)
			keep(a)
			a = g.open(t, host, withCode("/again", g.code(t)), line())
			g.refused(t, a, http.StatusSeeOther)
			keep(a)
			token := cookies[jar.Name(kindSession)]
			g.fake.set(func() { delete(g.fake.sessions, g.origin(host)+" "+token) }) // signed out at the issuer
		}
	})
	t.Run("a higher level is asked for, a missing group is a page", func(t *testing.T) {
		const host = "step.localhost"
		c := g.session(t, host, person(1, "staff"))
		a := g.open(t, host, "/", "Cookie: "+c)
		g.refused(t, a, http.StatusFound)
		g.fake.set(func() {
			if f := g.fake.flows[len(g.fake.flows)-1]; f.Level != 2 {
				t.Errorf("level asked = %d, want 2", f.Level)
			}
		})
		c = g.session(t, host, person(2, "guests"))
		a = g.open(t, host, "/", "Cookie: "+c)
		g.refused(t, a, http.StatusForbidden)
		if !strings.Contains(a.Header.Get("Content-Type"), "text/html") ||
			!strings.Contains(a.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("the answer is %q, want a page", a.Header)
		}
		for link, kind := range map[string]string{`rel="stylesheet" href="`: "text/css", `rel="preload" href="`: "font/woff2"} {
			_, rest, _ := strings.Cut(a.body, link)
			path, _, _ := strings.Cut(rest, `"`)
			asset := g.open(t, host, path)
			g.refused(t, asset, http.StatusOK)
			if !strings.HasPrefix(path, "/.gatehouse/assets/") || !strings.Contains(asset.Header.Get("Content-Type"), kind) ||
				len(asset.body) < 1000 {
				t.Errorf("%s %q is %q, want %s", link, path, asset.Header, kind)
			}
		}
		g.refused(t, g.open(t, host, "/.gatehouse/nothing", "Cookie: "+c), http.StatusNotFound)
	})
	t.Run("signing out", func(t *testing.T) {
		c := g.session(t, host, person(1))
		at := func(method string, lines ...string) answer {
			return g.raw(t, slices.Concat([]string{
				method + " /.gatehouse/logout HTTP/1.1", "Host: " + host + ":" + g.port, "Cookie: " + c,
				"Content-Length: 0",
			}, lines)...)
		}
		a := at("POST", "Sec-Fetch-Site: cross-site", "Origin: https://evil.test")
		g.refused(t, a, http.StatusForbidden)
		g.refused(t, at("POST"), http.StatusForbidden)
		a = at("GET", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate")
		g.refused(t, a, http.StatusSeeOther) // to the issuer, which asks
		if !strings.HasPrefix(a.Header.Get("Location"), "https://issuer.test/oauth/logout?") || len(a.Cookies()) > 0 {
			t.Errorf("sent to %q with cookies %v", a.Header.Get("Location"), a.Cookies())
		}
		g.passed(t, g.open(t, host, "/", "Cookie: "+c))
		a = at("GET", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate")
		g.refused(t, a, http.StatusSeeOther)
		g.refused(t, g.open(t, host, "/", "Cookie: "+c), http.StatusFound)
		if c := a.Cookies(); len(c) == 0 || c[0].MaxAge >= 0 {
			t.Errorf("cookies = %v, want them cleared", c)
		}
		c = g.session(t, host, person(1))
		g.refused(t, at("POST", "Origin: "+g.origin(host)), http.StatusSeeOther)
		g.refused(t, g.open(t, host, "/", "Cookie: "+c), http.StatusFound)
	})
	t.Run("public paths of a site with login", func(t *testing.T) {
		g.passed(t, g.open(t, "pub.localhost", "/public/x"))
		g.refused(t, g.open(t, "pub.localhost", "/private"), http.StatusFound)
		g.refused(t, g.open(t, "pub.localhost", "/.gatehouse/logout"), http.StatusSeeOther)
	})
	t.Run("two protects on one way", func(t *testing.T) {
		const host = "twice.localhost"
		staff, guest := g.session(t, host, person(1, "staff")), g.session(t, host, person(1, "guests"))
		s := g.passed(t, g.open(t, host, "/", "Cookie: a=1; "+staff))
		one(t, s, "Cookie", "a=1")
		one(t, s, "Remote-Groups", "staff")
		g.refused(t, g.open(t, host, "/", "Cookie: "+guest), http.StatusForbidden)
		none(t, g.passed(t, g.get(t, host+":"+g.port, "/")), "Authorization", "Cookie")
	})
	t.Run("https origins", func(t *testing.T) {
		if a := g.open(t, host, "/"); len(a.Header["Strict-Transport-Security"]) > 0 {
			t.Error("a site of localhost holds the browser to https")
		}
		a := g.raw(t, "GET /x HTTP/1.1", "Host: tls.test", "Accept: text/html")
		g.refused(t, a, http.StatusFound)
		signedOut := g.raw(t, "GET "+authz.SiteSignedOut+" HTTP/1.1", "Host: tls.test", "Accept: text/html")
		for _, a := range []answer{a, signedOut} {
			if a.Header.Get("Strict-Transport-Security") != "max-age=31536000" || a.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("the headers of %d are %q, want the browser to be held to https", a.StatusCode, a.Header)
			}
		}
		for name, want := range map[string]string{"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			if got := signedOut.Header.Get(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
		for _, c := range a.Cookies() {
			if !c.Secure || !strings.HasPrefix(c.Name, "__Host-gh-") {
				t.Errorf("cookie %s is not bound to the host over https", c)
			}
		}
		g.fake.set(func() {
			if f := g.fake.flows[len(g.fake.flows)-1]; f.Return != "https://tls.test/x" {
				t.Errorf("return = %q", f.Return)
			}
		})
	})
	g.invariants(t)
}
