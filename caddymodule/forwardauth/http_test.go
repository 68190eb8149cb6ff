package forwardauth_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
)

const (
	askPath = "/oauth/forward-auth"

	decisionHeader = "Gatehouse-Decision"
	removeHeader   = "X-Envoy-Auth-Headers-To-Remove"
)

// check is the request by which a proxy asks.
type check struct {
	path   string
	peer   string
	host   string // of ext-authz
	method string
	header http.Header
}

// by is a check of a kind of proxy about a request, as its guide configures it.
func by(kind, gate string, q forwardauth.Question) check {
	h := q.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	c := check{peer: "127.0.0.1:4711", host: "auth.test", method: http.MethodGet, header: h}
	if q.Client.IsValid() {
		h.Set("X-Forwarded-For", q.Client.String())
	}
	switch kind {
	case "nginx":
		h.Set("X-Original-Method", q.Method)
		h.Set("X-Original-Url", q.Scheme+"://"+q.Host+q.Target)
	case "envoy":
		h.Set("X-Forwarded-Proto", q.Scheme)
		c.path, c.host, c.method = "/oauth/ext-authz"+q.Target, q.Host, q.Method
		if gate != "" && gate != "wiki" {
			c.path = "/oauth/policy/" + gate + "/ext-authz" + q.Target
		}
		return c
	default:
		h.Set("X-Forwarded-Method", q.Method)
		h.Set("X-Forwarded-Proto", q.Scheme)
		h.Set("X-Forwarded-Host", q.Host)
		h.Set("X-Forwarded-Uri", q.Target)
	}
	if c.path = askPath + "?profile=" + kind; gate != "" {
		c.path += "&policy=" + gate
	}
	for name, values := range q.Narrow {
		for _, v := range values {
			c.path += "&" + name + "=" + v
		}
	}
	return c
}

var kinds = []string{"traefik", "caddy", "haproxy", "nginx", "envoy"}

func (c check) do(g *forwardauth.Gates) *http.Response {
	r := httptest.NewRequest(c.method, "http://x/", nil)
	u, err := r.URL.Parse(c.path)
	if err != nil {
		r.URL.Path = c.path
	} else {
		r.URL.Path, r.URL.RawQuery = u.Path, u.RawQuery
	}
	r.RequestURI, r.Host, r.RemoteAddr, r.Header = c.path, c.host, c.peer, c.header
	w := httptest.NewRecorder()
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
	g.ServeHTTP(w, r)
	return w.Result()
}

// holds checks what each answer must be, whatever was asked.
func holds(t *testing.T, what string, res *http.Response) {
	t.Helper()
	passed := res.StatusCode == http.StatusOK
	if got := res.Header.Get(decisionHeader); got != map[bool]string{true: "allow", false: "deny"}[passed] {
		t.Errorf("%s: status %d with %s: %s", what, res.StatusCode, decisionHeader, got)
	}
	if !passed && res.StatusCode < http.StatusMultipleChoices {
		t.Errorf("%s: the status %d is taken for consent", what, res.StatusCode)
	}
	if res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("Vary") == "" {
		t.Errorf("%s: the answer can be stored: %v", what, res.Header)
	}
	for _, name := range []string{"Remote-User", "Remote-Name", "Remote-Email", "Remote-Groups"} {
		if _, there := res.Header[name]; there != passed {
			t.Errorf("%s: status %d, and %s is there: %t", what, res.StatusCode, name, there)
		}
	}
}

func TestEveryProxyIsUnderstood(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := i.gates()
	session := i.session(wiki, ann())
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			res := by(kind, "wiki", onWiki("/page?x=1,2", "Cookie", "a=b; "+session)).do(g)
			holds(t, "with a session", res)
			if res.StatusCode != http.StatusOK || res.Header.Get("Remote-User") != "ann" || res.Header.Get("Cookie") != "a=b" {
				t.Fatalf("status = %d, headers %v", res.StatusCode, res.Header)
			}
			if removed := res.Header.Get(removeHeader); (kind == "envoy") != strings.Contains(removed, "X-Original-Url") {
				t.Errorf("%s: %q", removeHeader, removed)
			}
			res = by(kind, "wiki", onWiki("/page")).do(g)
			holds(t, "a stranger", res)
			want := http.StatusFound
			if kind == "nginx" {
				want = http.StatusUnauthorized // it knows no 302
			}
			if res.StatusCode != want || !strings.HasPrefix(res.Header.Get("Location"), "https://issuer.test/") ||
				len(res.Header["Set-Cookie"]) != 1 {
				t.Errorf("a stranger: status = %d, headers %v", res.StatusCode, res.Header)
			}
			script := onWiki("/page")
			script.Header.Set("Sec-Fetch-Mode", "cors")
			res = by(kind, "wiki", script).do(g)
			holds(t, "a script", res)
			if res.StatusCode != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("a script: status = %d, headers %v", res.StatusCode, res.Header)
			}
			res = by(kind, "wiki", onWiki("/page", "Cookie", i.session(wiki, ann("guests")))).do(g)
			if holds(t, "a guest", res); res.StatusCode != http.StatusForbidden {
				t.Errorf("a guest: status = %d", res.StatusCode)
			}
		})
	}
}

// TestWhatAProxyIsNotBelieved: one source for each kind of proxy, once and well-formed. (The peers' mistakes are in
// docs/attacks/peers.md.)
func TestWhatAProxyIsNotBelieved(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := i.gates()
	session := i.session(wiki, ann())
	requests := map[string]func(set func(part string, values ...string), h http.Header){
		"attack 371: no method":            func(set func(string, ...string), _ http.Header) { set("method") },
		"attack 371: two methods":          func(set func(string, ...string), _ http.Header) { set("method", "GET", "POST") },
		"attack 371: joined methods":       func(set func(string, ...string), _ http.Header) { set("method", "GET, POST") },
		"attack 371: a method with spaces": func(set func(string, ...string), _ http.Header) { set("method", "GET /") },
		"attack 371: no address":           func(set func(string, ...string), _ http.Header) { set("uri") },
		"attack 371: two addresses":        func(set func(string, ...string), _ http.Header) { set("uri", "/open", "/page") },
		"attack 371: joined addresses":     func(set func(string, ...string), _ http.Header) { set("uri", "/open,/page") },
		"attack 371: no slash":             func(set func(string, ...string), _ http.Header) { set("uri", "page") },
		"attack 371: a user in the host":   func(set func(string, ...string), _ http.Header) { set("host", "wiki.test@evil.test") },
		"attack 371: a control character":  func(set func(string, ...string), _ http.Header) { set("uri", "/op\x01en") },
		"attack 371: another site":         func(set func(string, ...string), _ http.Header) { set("host", "evil.test") },
		"peer 8: an alias":                 func(_ func(string, ...string), h http.Header) { h["X_forwarded_proto"] = []string{"https"} },
		"attack 9734: an alias with another sign": func(_ func(string, ...string), h http.Header) {
			h["X-Forwarded!proto"] = []string{"https"}
		},
		"attack 372: an alias with dots": func(_ func(string, ...string),
			h http.Header,
		) {
			h["X.original.url"] = []string{wiki + "/open"}
		},
		"attack 372: an alias of the credentials": func(_ func(string, ...string), h http.Header) { h["Sec_fetch_mode"] = []string{"cors"} },
		"attack 372: an alias of the identity":    func(_ func(string, ...string), h http.Header) { h["Remote_user"] = []string{"root"} },
		"peer 1: another kind's address":          func(_ func(string, ...string), h http.Header) { h.Set("X-Original-Uri", "/open") },
		"attack 372: another kind's method": func(_ func(string, ...string), h http.Header) {
			h.Add("X-Original-Method", "PUT")
			h.Add("X-Forwarded-Method", "PUT")
		},
		"attack 372: another kind's host": func(_ func(string, ...string),
			h http.Header,
		) {
			h.Set("X-Original-Host", "evil.test")
		},
		"peer 3: an open path in the header of another kind": func(_ func(string, ...string),
			h http.Header,
		) {
			h.Add("X-Forwarded-Uri", "/open")
		},
	}
	refusedBy := func(t *testing.T, name string, change func(func(string, ...string), http.Header)) {
		t.Helper()
		for _, kind := range kinds {
			c := by(kind, "wiki", onWiki("/page", "Cookie", session))
			set := func(part string, values ...string) {
				switch {
				case kind == "envoy":
					// The start line and Host are of the protocol: they are there once. X-Forwarded-Proto stands for them.
					c.header["X-Forwarded-Proto"] = values
				case kind == "nginx" && part == "method":
					c.header["X-Original-Method"] = values
				case kind == "nginx":
					var urls []string
					for _, v := range values {
						if part == "host" {
							v = "https://" + v + "/page"
						} else {
							v = wiki + v
						}
						urls = append(urls, v)
					}
					c.header["X-Original-Url"] = urls
				default:
					c.header[map[string]string{"method": "X-Forwarded-Method", "uri": "X-Forwarded-Uri", "host": "X-Forwarded-Host"}[part]] = values
				}
			}
			change(set, c.header)
			res := c.do(g)
			holds(t, kind+": "+name, res)
			want := http.StatusBadRequest
			if kind == "envoy" && strings.HasSuffix(name, "an alias of the identity") {
				want = http.StatusOK // Envoy removes it
				if !strings.Contains(res.Header.Get(removeHeader), "Remote_user") {
					t.Errorf("%s: %s: it is not removed: %v", kind, name, res.Header)
				}
			}
			if res.StatusCode != want {
				t.Errorf("%s: %s: status = %d, want %d", kind, name, res.StatusCode, want)
			}
		}
	}
	for name, change := range requests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusedBy(t, name, change)
		})
	}
}

func TestWhoMayAsk(t *testing.T) {
	t.Parallel()
	t.Run("attack 373: a peer that is no proxy", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)
		g := i.gates()
		c := func(peer, secret string) check {
			out := by("traefik", "wiki", onWiki("/page", "Cookie", i.session(wiki, ann())))
			if out.peer = peer; secret != "" {
				out.header.Set("Gatehouse-Secret", secret)
			}
			return out
		}
		for _, test := range []struct {
			peer, secret string
			want         int
		}{
			{"127.0.0.1:1", "", 200},
			{"192.0.2.1:1", "", 403},
			{"192.0.2.1:1", "a-secret-of-the-gateway-that-is-long", 200},
			{"192.0.2.1:1", "a-secret-of-the-gateway-that-is-lonG", 403},
			{"@", "", 403},
		} {
			res := c(test.peer, test.secret).do(g)
			if holds(t, test.peer, res); res.StatusCode != test.want {
				t.Errorf("%s with %q: status = %d, want %d", test.peer, test.secret, res.StatusCode, test.want)
			}
		}
	})
}

func TestParametersOfForwardAuth(t *testing.T) {
	t.Parallel()
	t.Run("attack 374: parameters that would let more people in", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)
		g := i.gates()
		session := i.session(wiki, ann())
		for more, want := range map[string]int{
			"": 200, "&login": 200, "&group=writers": 200, "&group=admins": 403, "&level=2": 200, "&level=3": 302, "&level=9": 400,
			"&public=/": 400, "&policy=api": 400,
			"&proxy=nginx": 400, "&group=": 400, "&scope=": 400, "&audience=": 400, "&policy=": 400, "&%zz": 400, "&profile=apache": 400,
		} {
			c := by("traefik", "wiki", onWiki("/page", "Cookie", session))
			c.path += more
			res := c.do(g)
			if holds(t, more, res); res.StatusCode != want {
				t.Errorf("%s: status = %d, want %d", more, res.StatusCode, want)
			}
		}
		c := by("traefik", "api", forwardauth.Question{Method: "GET", Scheme: "https", Host: "api.test", Target: "/"})
		c.path += "&login"
		if res := c.do(g); res.StatusCode != http.StatusBadRequest {
			t.Errorf("login at a gate without it: status = %d, want 400", res.StatusCode)
		}
		c = by("traefik", "", onWiki("/", "Cookie", session))
		if res := c.do(g); res.StatusCode != http.StatusOK {
			t.Errorf("by the origin alone: status = %d, want 200", res.StatusCode)
		}
		c = by("nginx", "wiki", onWiki("/"))
		c.path = askPath + "?login&proxy=nginx&policy=wiki"
		if res := c.do(g); res.StatusCode != http.StatusUnauthorized || res.Header.Get("Location") == "" {
			t.Errorf("login&proxy=nginx: status = %d, headers %v", res.StatusCode, res.Header)
		}
	})
}

// TestNginxComesBackByTheCallback: nginx copies no cookie of an answer that refuses, so the browser gets its session at
// a path that nginx passes on.
func TestNginxComesBackByTheCallback(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := i.gates()
	res := by("nginx", "wiki", onWiki("/page?x=1")).do(g)
	binding, _, _ := strings.Cut(res.Header.Get("Set-Cookie"), ";")
	back := i.returns[len(i.returns)-1]
	if want := wiki + "/.gatehouse/callback?to=%2Fpage%3Fx%3D1"; back != want {
		t.Fatalf("the browser comes back to %s, want %s", back, want)
	}
	own := func(target, cookies string) *http.Response {
		c := check{
			path: "/oauth/forward-auth/site" + target, peer: "127.0.0.1:1", host: "auth.test", method: http.MethodGet,
			header: onWiki("/", "Cookie", cookies).Header,
		}
		c.header.Set("X-Forwarded-Proto", "https")
		c.header.Set("X-Forwarded-Host", "wiki.test")
		return c.do(g)
	}
	res = own(strings.TrimPrefix(back, wiki)+"&gatehouse_code=code", binding)
	if to := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || to != back || len(res.Header["Set-Cookie"]) != 2 {
		t.Fatalf("with the code: status = %d, headers %v", res.StatusCode, res.Header)
	}
	session, _, _ := strings.Cut(res.Header["Set-Cookie"][0], ";")
	res = own(strings.TrimPrefix(back, wiki), session)
	if to := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || to != wiki+"/page?x=1" {
		t.Fatalf("without the code: status = %d, Location %q", res.StatusCode, to)
	}
	if res = by("nginx", "wiki", onWiki("/page?x=1", "Cookie", session)).do(g); res.StatusCode != http.StatusOK {
		t.Errorf("with the session: status = %d", res.StatusCode)
	}
	res = own("/.gatehouse/callback?to=https://evil.test/", session)
	if to := res.Header.Get("Location"); to != wiki+"/" {
		t.Errorf("a callback leads to %q", to)
	}
	if res = own("/.gatehouse/signed-out", ""); res.StatusCode != http.StatusOK {
		t.Errorf("the page after the sign-out: status = %d", res.StatusCode)
	}
	if res = own("/.gatehouse/logout", session); res.StatusCode != http.StatusSeeOther {
		t.Errorf("sign out: status = %d", res.StatusCode)
	}
	if res = own("/page", session); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a page of the application: status = %d", res.StatusCode)
	}
}

// TestDeviceWhoseAnswerIsLost: a proxy that asks about the paths by which a browser binds its session, and does not
// pass them on, would keep the answer to itself. Nothing is bound then.
func TestDeviceWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := i.gates()
	session := i.session(wiki, ann())
	for _, profile := range []string{"traefik", "caddy", "nginx"} {
		for _, path := range []string{dbsc.RegisterPath, dbsc.RefreshPath} {
			res := by(profile, "wiki", onWiki(path, "Cookie", session)).do(g)
			if holds(t, profile, res); res.StatusCode != http.StatusForbidden {
				t.Errorf("%s, %s: status = %d, want 403", profile, path, res.StatusCode)
			}
		}
	}
}

func TestAuthorizationServerInDoubt(t *testing.T) {
	t.Parallel()
	t.Run("attack 378: the store fails", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)
		g := i.gates()
		session := i.session(wiki, ann())
		i.set(func() { i.doubt = errors.New("disk") })
		for _, kind := range kinds {
			res := by(kind, "wiki", onWiki("/", "Cookie", session)).do(g)
			if holds(t, kind, res); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
				t.Errorf("%s: status = %d, headers %v, want 503 with Retry-After", kind, res.StatusCode, res.Header)
			}
		}
	})
}

func TestUseOfATokenIsCountedOnce(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := i.gates()
	who := ann()
	who.UsageLimit = 5
	bearer := i.bearer(who)
	q := forwardauth.Question{
		Method: "GET", Scheme: "https", Host: "api.test", Target: "/", Header: headers("Authorization", "Bearer "+bearer),
	}
	c := by("traefik", "api", q)
	c.path += "&scope=read&group=staff"
	if res := c.do(g); res.StatusCode != http.StatusOK {
		t.Fatalf("status = %d", res.StatusCode)
	}
	if i.used[bearer] != 1 {
		t.Errorf("one request counts as %d uses", i.used[bearer])
	}
}

func TestClientAddressBehindProxies(t *testing.T) {
	t.Parallel()
	t.Run("attack 377: addresses that the client has written", func(t *testing.T) {
		t.Parallel()
		g := newIssuer(t).gates()
		for list, want := range map[string]string{
			"192.0.2.1": "192.0.2.1", "10.1.1.1, 192.0.2.1": "192.0.2.1", "192.0.2.1,127.0.0.1": "192.0.2.1", "[2001:db8::1]:443": "2001:db8::1",
			"192.0.2.1:99": "192.0.2.1",
			"192.0.2.1, x": "invalid IP", "": "invalid IP", "127.0.0.1": "127.0.0.1",
		} {
			if got := g.ClientBehind(netip.MustParseAddr("127.0.0.1"), []string{list}).String(); got != want {
				t.Errorf("X-Forwarded-For: %s: client = %s, want %s", list, got, want)
			}
		}
	})
}

// FuzzForwardAuth: whatever is sent, the answer is one of those that are documented, and lets no one in.
func FuzzForwardAuth(f *testing.F) {
	i := newIssuer(f)
	g := i.gates()
	for _, kind := range kinds {
		c := by(kind, "wiki", onWiki("/page"))
		f.Add(c.path, c.method, c.header.Get("X-Forwarded-Method"), c.header.Get("X-Forwarded-Host"), c.header.Get("X-Forwarded-Uri"),
			c.header.Get("X-Original-Url"), "Cookie", "a=b")
	}
	f.Fuzz(func(t *testing.T, path, method, forwarded, host, uri, original, name, value string) {
		if !strings.HasPrefix(path, "/") || method == "" {
			return
		}
		c := check{path: path, peer: "127.0.0.1:1", host: host, method: http.MethodGet, header: http.Header{name: {value}}}
		for name, v := range map[string]string{
			"X-Forwarded-Method": forwarded, "X-Forwarded-Proto": "https", "X-Forwarded-Host": host,
			"X-Forwarded-Uri": uri, "X-Original-Method": method, "X-Original-Url": original,
		} {
			if v != "" {
				c.header[name] = []string{v}
			}
		}
		res := c.do(g)
		open := slices.ContainsFunc([]string{uri, original, path}, func(s string) bool { return strings.Contains(s, "/open") })
		if !open {
			holds(t, fmt.Sprintf("%q", path), res)
		}
		if res.StatusCode == http.StatusOK && !open {
			t.Fatalf("%q passes: %v", path, c.header)
		}
	})
}
