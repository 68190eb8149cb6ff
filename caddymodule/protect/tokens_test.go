package protect

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// TestWhichTokensOpenASite tells the attack of a client that registered itself, whose consent page reads "sign in": its
// token must not open what its person can open. A site with login is closed to tokens that it does not name.
func TestWhichTokensOpenASite(t *testing.T) {
	g := startGateway(t)
	made := func(change func(*token.Introspection)) string {
		raw, who := newToken(t, secret.AccessToken), person(1, "staff")
		who.Scope = []string{"openid", "profile"}
		change(who)
		g.fake.set(func() { g.fake.tokens[raw] = who })
		return raw
	}
	stranger := func(who *token.Introspection) { who.Stranger, who.ClientID = true, "self" }
	tokens := map[string]string{
		"a stranger":             made(stranger),
		"a stranger with a":      made(func(who *token.Introspection) { stranger(who); who.Scope = []string{"a"} }),
		"a stranger for the API": made(func(who *token.Introspection) { stranger(who); who.Audience = []string{"https://aud.test"} }),
		"shop":                   made(func(*token.Introspection) {}),
		"shop with a":            made(func(who *token.Introspection) { who.Scope = []string{"a"} }),
		"shop for the API":       made(func(who *token.Introspection) { who.Audience = []string{"https://aud.test"} }),
		"shop for another": made(func(who *token.Introspection) {
			who.Audience, who.Scope = []string{"https://mcp.test/mcp"}, []string{"a", "openid"}
		}),
		"another client": made(func(who *token.Introspection) { who.ClientID = "other" }),
		"a machine":      made(func(who *token.Introspection) { who.Person, who.Level = nil, 0 }),
	}
	for site, want := range map[string]map[string]int{
		"only.localhost": {"a machine": 403},
		"wiki.localhost": {"shop": 200, "shop with a": 200, "a machine": 200},
		"named.localhost": {
			"a stranger": 403, "a stranger with a": 200, "shop": 403, "shop with a": 200, "another client": 403, "a machine": 403,
		},
		"openid.localhost": {"shop": 200, "another client": 200, "a machine": 200, "shop with a": 403, "a stranger with a": 403},
		"any.localhost": {
			"a stranger": 200, "a stranger with a": 200, "shop": 200, "shop with a": 200, "another client": 200, "a machine": 200,
		},
		"aud.localhost":    {"shop for the API": 200, "a stranger for the API": 200},
		"byrule.localhost": {"shop": 200, "shop with a": 200, "a machine": 200},
		"open.test":        {"shop": 200, "shop with a": 200, "another client": 200, "a machine": 200},
		"bearer.test": {
			"a stranger": 403, "a stranger with a": 200, "shop": 403, "shop with a": 200,
			"another client": 403, "a machine": 403,
		},
	} {
		host := site
		if strings.HasSuffix(site, ".localhost") {
			host += ":" + g.port
		}
		for name, raw := range tokens {
			for _, method := range []string{"GET", "POST"} {
				status := 401
				if s, ok := want[name]; ok {
					status = s
				}
				a := g.raw(t, method+" /x HTTP/1.1", "Host: "+host, "Authorization: Bearer "+raw, "Content-Length: 0")
				if a.StatusCode != status {
					t.Errorf("%s at %s by a token of %s: status = %d, want %d; %s", method, site, name, a.StatusCode, status, a.body)
				}
				if n := len(g.take()); (n > 0) != (status == 200) {
					t.Errorf("%s at %s by a token of %s: the upstream saw %d requests", method, site, name, n)
				}
			}
		}
	}
	own := made(func(who *token.Introspection) { who.Audience = []string{g.origin("only.localhost")} })
	g.passed(t, g.raw(t, "GET /x HTTP/1.1", "Host: only.localhost:"+g.port, "Authorization: Bearer "+own))
	strangers := made(func(who *token.Introspection) { stranger(who); who.Audience = []string{g.origin("only.localhost")} })
	g.refused(t, g.raw(t, "GET /x HTTP/1.1", "Host: only.localhost:"+g.port, "Authorization: Bearer "+strangers), http.StatusUnauthorized)
	g.refused(t, g.raw(t, slices.Concat([]string{
		"GET /ws HTTP/1.1", "Host: only.localhost:" + g.port,
		"Authorization: Bearer " + tokens["shop"],
	}, handshake)...), http.StatusUnauthorized)
}

// TestSessionBesideAForeignToken: the scripts of an application send tokens of their own, and the session decides.
func TestSessionBesideAForeignToken(t *testing.T) {
	g := startGateway(t)
	jwt := func(claims string) string {
		return "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
	}
	cookie := g.session(t, "wiki.localhost", person(2, "staff"))
	stripped := g.session(t, "twice.localhost", person(2, "staff"))
	send := func(host, authorization string, more ...string) answer {
		return g.raw(t, slices.Concat([]string{
			"GET /api/states HTTP/1.1", "Host: " + host + ":" + g.port, "Authorization: " + authorization,
			"Sec-Fetch-Mode: cors",
		}, more)...)
	}
	for name, authorization := range map[string]string{
		"opaque": "Bearer token-of-the-application", "a JWT of its own": "Bearer " + jwt(`{"iss":"home"}`),
		"a JWT without issuer": "Bearer " + jwt(`{}`),
		"malformed":            "Bearer token with spaces", "DPoP": "DPoP token-of-the-application",
		"long": "Bearer " + strings.Repeat("x", maxBearer+1),
	} {
		if got := g.passed(t, send("wiki.localhost", authorization, "Cookie: "+cookie)).values("Authorization"); !slices.Equal(got,
			[]string{authorization}) {
			t.Errorf("%s: the upstream got Authorization %q", name, got)
		}
		g.passed(t, send("twice.localhost", authorization, "Cookie: "+stripped))
		g.refused(t, send("wiki.localhost", authorization), http.StatusUnauthorized, http.StatusBadRequest)
		g.refused(t, send("wiki.localhost", authorization, "Cookie: "+cookie+"x"), http.StatusUnauthorized)
	}
	revoked := newToken(t, secret.AccessToken)
	for name, own := range map[string]string{
		"revoked": revoked, "cut": revoked[:20], "a refresh token": newToken(t, secret.RefreshToken),
		"a JWT of ours": jwt(`{"iss":"https://issuer.test"}`),
	} {
		if a := send("wiki.localhost", "Bearer "+own, "Cookie: "+cookie); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s of this issuer beside a session: status = %d, want 401", name, a.StatusCode)
		}
	}
	g.take()
	g.refused(t, send("wiki.localhost", "Bearer a", "Authorization: Bearer b", "Cookie: "+cookie),
		http.StatusUnauthorized, http.StatusBadRequest)
	g.refused(t, g.raw(t, "GET / HTTP/1.1", "Host: open.test", "Authorization: Bearer token-of-the-application"), http.StatusUnauthorized)
}

// TestAnswersOfASessionArePrivate: a cache between here and the browser serves nothing that one person was shown to
// another one.
func TestAnswersOfASessionArePrivate(t *testing.T) {
	g := startGateway(t)
	wiki := "Cookie: " + g.session(t, "wiki.localhost", person(2, "staff"))
	for name, tt := range map[string]struct{ sent, want string }{
		"nothing":             {"", "private"},
		"public":              {"Cache-Control: public, max-age=60\r\n", "private, max-age=60"},
		"for shared caches":   {"Cache-Control: s-maxage=60, max-age=5\r\n", "private, max-age=5"},
		"an hour":             {"Cache-Control: max-age=3600\r\n", "private, max-age=3600"},
		"private":             {"Cache-Control: private, max-age=3600\r\n", "private, max-age=3600"},
		"private for a field": {"Cache-Control: private=\"X-A\", max-age=3600\r\n", "private, private=\"X-A\", max-age=3600"},
		"no-store":            {"Cache-Control: no-store\r\n", "no-store"},
		"two lines":           {"Cache-Control: max-age=1\r\nCache-Control: public\r\n", "private, max-age=1"},
		"a field of a CDN":    {"CDN-Cache-Control: max-age=60\r\n", "private"},
	} {
		g.reply("/c", "HTTP/1.1 200 OK\r\n"+tt.sent+"Content-Length: 2\r\n\r\nok")
		a := g.open(t, "wiki.localhost", "/c", wiki)
		if got := strings.Join(a.Header.Values("Cache-Control"), " | "); got != tt.want || a.Header.Get("CDN-Cache-Control") != "" {
			t.Errorf("%s: Cache-Control = %q, CDN-Cache-Control = %q, want %q", name, got, a.Header.Get("CDN-Cache-Control"), tt.want)
		}
	}
	g.reply("/public/c", "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=60\r\nContent-Length: 2\r\n\r\nok")
	pub := "Cookie: " + g.session(t, "pub.localhost", person(2, "staff"))
	if got := g.open(t, "pub.localhost", "/public/c", pub).Header.Get("Cache-Control"); got != "public, max-age=60" {
		t.Errorf("an open path: Cache-Control = %q, want it as the upstream has written it", got)
	}
	if got := g.get(t, "open.test", "/public/c").Header.Get("Cache-Control"); got != "public, max-age=60" {
		t.Errorf("a token: Cache-Control = %q, want it as the upstream has written it", got)
	}
}

// TestWhatUpstreamsReadOtherwise: where a part of a request decides, a request is refused that an upstream could read
// otherwise.
func TestWhatUpstreamsReadOtherwise(t *testing.T) {
	g := startGateway(t)
	for _, tt := range []struct {
		host, line string
		header     string
		status     int
	}{
		{"method.test", "DELETE /x", "", 403},
		{"method.test", "delete /x", "", 400},
		{"method.test", "Delete /x", "", 400},
		{"method.test", "POST /x", "X-HTTP-Method-Override: DELETE", 400},
		{"method.test", "POST /x", "X-Method-Override: DELETE", 400},
		{"method.test", "POST /x?_method=DELETE", "", 400},
		{"method.test", "POST /x?%5Fmethod=DELETE", "", 400},
		{"method.test", "POST /x?a=1;_method=DELETE", "", 400},
		{"method.test", "POST /x?_method%00=DELETE", "", 400},
		{"method.test", "POST /x?a=1;b=2", "", 200},
		{"method.test", "POST /x?a=1&%", "", 200},
		{"method.test", "POST /x", "", 200},
		{"open.test", "POST /x", "X-HTTP-Method-Override: DELETE", 200},
		{"query.test", "GET /x?debug=1", "", 403},
		{"query.test", "GET /x?debug=1&%", "", 400},
		{"query.test", "GET /x?debug=1;a", "", 400},
		{"query.test", "GET /x?debug=1&a=%zz", "", 400},
		{"query.test", "GET /x?a=1&Debug=1", "", 400},
		{"query.test", "GET /x?debug[]=1", "", 400},
		{"query.test", "GET /x?%20debug=1", "", 400},
		{"query.test", "GET /x?a=%00", "", 400},
		{"query.test", "GET /x?a=1&a=2", "", 200},
		{"query.test", "GET /x?a=%20b+c", "", 200},
		{"open.test", "GET /x?debug=1&%", "", 200},
		{"host.test", "GET /x", "", 200},
		{"rules.test", "GET /admin./x", "", 400},
		{"rules.test", "GET /admin%20/x", "", 400},
	} {
		lines := []string{tt.line + " HTTP/1.1", "Host: " + tt.host, "Authorization: Bearer " + g.user, "Content-Length: 0"}
		if tt.header != "" {
			lines = append(lines, tt.header)
		}
		if a := g.raw(t, lines...); a.StatusCode != tt.status {
			t.Errorf("%s at %s with %q: status = %d, want %d; %s", tt.line, tt.host, tt.header, a.StatusCode, tt.status, a.body)
		}
		if n := len(g.take()); (n > 0) != (tt.status == 200) {
			t.Errorf("%s at %s with %q: the upstream saw %d requests", tt.line, tt.host, tt.header, n)
		}
	}
}

// TestMethodInOtherSpellings: by way of other proxies headers arrive that Caddy itself drops.
func TestMethodInOtherSpellings(t *testing.T) {
	t.Parallel()
	for header, plain := range map[string]bool{
		"X_http_method_override": false, "X.Http.Method.Override": false, "X-HTTP-METHOD": false, "X_method-Override": false,
		"X-Http-Method-Overrides": true, "X-Method": true,
	} {
		r := &http.Request{Method: "POST", URL: new(url.URL), Header: http.Header{header: {"DELETE"}}}
		if got := plainMethod(r); got != plain {
			t.Errorf("plainMethod with the header %s = %t, want %t", header, got, plain)
		}
	}
}

// TestALinkElsewhereEndsNoSession: a page of another site can lead to the sign-out of a site, and gets no further than
// the question.
func TestALinkElsewhereEndsNoSession(t *testing.T) {
	g := startGateway(t)
	for name, tt := range map[string]struct {
		method  string
		headers []string
		ends    bool
	}{
		"a link elsewhere":   {"GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, false},
		"a link of a sister": {"GET", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate"}, false},
		"a picture elsewhere": {
			"GET",
			[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"},
			false,
		},
		"a picture that a person added": {
			"GET",
			[]string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"},
			false,
		},
		"attack 9335: a frame": {
			"GET",
			[]string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"},
			false,
		},
		"attack 9335: a page to come": {
			"GET",
			[]string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Purpose: prefetch"},
			false,
		},
		"attack 9335: a page to show": {
			"GET",
			[]string{"Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Purpose: prefetch;prerender"},
			false,
		},
		"attack 9335: an older hint": {
			"GET",
			[]string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Purpose: prefetch"},
			false,
		},
		"a form elsewhere": {
			"POST",
			[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Origin: https://evil.test"},
			false,
		},
		"an old browser":            {"GET", []string{"Accept: text/html"}, false},
		"an old browser, elsewhere": {"GET", []string{"Accept: text/html", "Referer: https://evil.test/"}, false},
		"an old browser, a form":    {"POST", []string{"Origin: https://evil.test"}, false},
		"two answers":               {"GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"}, false},
		"a link of the site": {
			"GET",
			[]string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"},
			true,
		},
		"a link of the site, shorter": {"GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate"}, true},
		"a form of the site":          {"POST", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate"}, true},
		"a script of the site":        {"POST", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			session := g.session(t, "wiki.localhost", person(2))
			lines := slices.Concat([]string{
				tt.method + " /.gatehouse/logout HTTP/1.1", "Host: wiki.localhost:" + g.port, "Cookie: " + session,
				"Content-Length: 0",
			}, tt.headers)
			a := g.raw(t, lines...)
			_, raw, _ := strings.Cut(session, "=")
			ended := false
			g.fake.set(func() { ended = slices.Contains(g.fake.ended, raw) })
			cleared := slices.ContainsFunc(a.Header.Values("Set-Cookie"), func(c string) bool {
				return strings.HasPrefix(c, cookie.For(g.origin("wiki.localhost")).Name(kindSession)+"=;")
			})
			if ended != tt.ends || cleared != tt.ends {
				t.Errorf("%s: the session has ended: %t, its cookie is cleared: %t, want %t; status %d", name, ended, cleared, tt.ends, a.StatusCode)
			}
		})
	}
}
