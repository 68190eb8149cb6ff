package forwardauth_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
)

// A transport puts a question as a kind of proxy does, and returns what the upstream of that proxy gets. nil: it gets
// nothing, and the client gets status.
type transport struct {
	name string
	ask  func(gate string, q forwardauth.Question) (upstream http.Header, status int)
	// removes reports whether the proxy takes headers out that the client has spelled otherwise.
	removes bool
}

// transports are all ways to ask.
func transports(t testing.TB, g *forwardauth.Gates) (out []transport) {
	t.Helper()
	out = append(out, transport{"Envoy over gRPC", envoyOver(t, g), true})
	for _, kind := range kinds {
		out = append(out, transport{
			kind, func(gate string, q forwardauth.Question) (http.Header, int) { return overHTTP(g, kind, gate, q) },
			kind == "envoy",
		})
	}
	return append(out, transport{"the question itself", func(gate string, q forwardauth.Question) (http.Header, int) {
		q.Gate = gate
		a, err := g.Ask(context.Background(), q)
		switch {
		case err != nil:
			return nil, http.StatusBadRequest
		case !a.Passed:
			return nil, a.Status
		}
		up := q.Header.Clone()
		for _, name := range a.Remove {
			delete(up, name)
		}
		for name, values := range a.Identity {
			up[name] = values
		}
		if a.Cookie != "" {
			up["Cookie"] = []string{a.Cookie}
		}
		return up, a.Status
	}, true})
}

// overHTTP does the work of a proxy with the answer: it copies the headers of the answer over those of the client.
func overHTTP(g *forwardauth.Gates, kind, gate string, q forwardauth.Question) (http.Header, int) {
	res := by(kind, gate, q).do(g)
	if res.StatusCode != http.StatusOK {
		return nil, res.StatusCode
	}
	up := q.Header.Clone()
	for _, name := range []string{
		"Remote-User", "Remote-Name", "Remote-Email", "Remote-Groups", "Remote-Assertion",
		"Authorization", "Cookie",
	} {
		if values, there := res.Header[name]; there {
			up[name] = values
		}
	}
	if kind == "envoy" {
		for name := range strings.SplitSeq(res.Header.Get(removeHeader), ", ") {
			delete(up, name)
		}
	}
	return up, res.StatusCode
}

// inFront puts a question to a protect in front of an upstream of its own.
func inFront(p *protect.Protect, q forwardauth.Question) (upstream http.Header, status int) {
	u, err := url.ParseRequestURI(q.Target)
	if err != nil {
		return nil, http.StatusBadRequest
	}
	r := httptest.NewRequest(q.Method, "http://x/", nil)
	r.URL = u
	r.RequestURI, r.Host, r.RemoteAddr, r.Header = q.Target, q.Host, netip.AddrPortFrom(q.Client, 99).String(), q.Header.Clone()
	if q.Scheme == "https" {
		r.TLS = httptest.NewRequest(http.MethodGet, "https://x/", nil).TLS
	}
	w := httptest.NewRecorder()
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
	err = p.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		upstream = r.Header
		return nil
	}))
	if err != nil {
		return nil, http.StatusInternalServerError
	}
	return upstream, w.Code
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// someRequest makes up a request. spoofs tells that it says something that only a proxy may say, or spells a header so
// that some upstream takes it for another.
func someRequest(r *rand.Rand, sessions, bearers []string) (gate string, q forwardauth.Question, spoofs bool) {
	gate = pick(r, "wiki", "wiki", "api", "office")
	q = forwardauth.Question{
		Method: pick(r, "GET", "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND"),
		Scheme: "https", Host: pick(r, "wiki.test", "wiki.test:443", "WIKI.test"),
		Target: pick(r, "/", "/open", "/page", "/", "/open", "/page", "/a/b", "/x.html", "/open/", "/OPEN", "/page", "/a/../open", "//open",
			"/open;x", "/%6fpen", "/open%2f", "/.gatehouse/logout", "/.gatehouse/x", "/open/../page", "/page%00", "/a%20b", "/%c3%a4"),
		Client: netip.MustParseAddr(pick(r, "192.0.2.7", "203.0.113.9", "2001:db8::1")), Header: http.Header{},
	}
	q.Target += pick(r, "", "", "", "?x=1", "?x=2", "?a=b&c", "?y", "?access_token=abc", "?gatehouse_code=none",
		"?x=1&gatehouse_code=a&gatehouse_code=b")
	h := q.Header
	switch r.IntN(6) {
	case 0, 1:
		h.Set("Cookie", pick(r, sessions...))
	case 2:
		h.Set("Cookie", pick(r, "a=b", "=", sessions[0][:20], sessions[0][:len(sessions[0])-1], sessions[0]+"x; "+sessions[0], ";;;",
			"theme=dark; "+pick(r, sessions...)+"; "+pick(r, sessions...)))
	case 3:
		h.Add("Cookie", "a=b")
		h.Add("Cookie", pick(r, sessions...))
	}
	if r.IntN(3) == 0 {
		h.Add("Authorization", pick(r,
			append([]string{"Bearer", "Bearer x", "bearer  y=", "Basic YTpi", "Bearer x y", "BEARER " + bearers[0]}, bearers...)...))
		if r.IntN(8) == 0 {
			h.Add("Authorization", "Bearer "+pick(r, bearers...))
		}
	}
	switch r.IntN(4) {
	case 0, 1:
		h.Set("Sec-Fetch-Mode", pick(r, "navigate", "cors", "no-cors"))
	case 2:
		h.Set("Accept", pick(r, "text/html", "application/json", "text/event-stream"))
	}
	if r.IntN(4) == 0 {
		h.Set("Origin", pick(r, wiki, "https://evil.test", "null"))
		h.Set("Access-Control-Request-Method", "PUT")
	}
	if r.IntN(3) == 0 {
		h.Set(pick(r, "Remote-User", "remote-user", "REMOTE-GROUPS", "Remote-Email", "Remote-Name", "Remote-Assertion"), "root")
	}
	if r.IntN(12) == 0 {
		spoofs = true
		name := pick(r, "Remote_user", "remote.user", "REMOTE_GROUPS", "X-Forwarded-Uri", "X-Original-Url", "X-Original-Uri", "X-Original-Method",
			"X-Rewrite-Url", "X_forwarded_for", "X.Forwarded.Host", "Authorization_", "Sec_Fetch_Mode", "X_Original_URL")
		h[http.CanonicalHeaderKey(name)] = []string{pick(r, "/open", "root", "GET", "evil.test")}
	}
	return gate, q, spoofs
}

// TestOneDecisionForEveryGateway: whichever proxy asks, the answer is that of protect in front of the application, and
// the application learns the same. GATEHOUSE_GATEWAYS says how many requests; make faults puts a million.
func TestOneDecisionForEveryGateway(t *testing.T) {
	t.Parallel()
	t.Run("attack 376: the same request through every kind of proxy", func(t *testing.T) {
		t.Parallel()
		count := 2_000
		if s := os.Getenv("GATEHOUSE_GATEWAYS"); s != "" {
			var err error
			if count, err = strconv.Atoi(s); err != nil {
				t.Fatal(err)
			}
		}
		i := newIssuer(t)
		g := i.gates()
		fronts := map[string]*protect.Protect{}
		for _, name := range []string{"wiki", "api", "office"} {
			_, front, err := g.Decider(name, "https", "wiki.test")
			if err != nil {
				t.Fatal(err)
			}
			fronts[name] = front
		}
		sessions := []string{
			i.session(wiki, ann()), i.session(wiki, ann("staff")), i.session(wiki, ann("staff", "x")),
			i.session(wiki, ann("guests")), i.session("https://other.test", ann()),
		}
		bearers := []string{i.bearer(ann()), i.bearer(ann("staff")), i.bearer(ann("guests"))}
		for n, b := range bearers {
			bearers[n] = "Bearer " + b
		}
		r := rand.New(rand.NewPCG(15, 2))
		ways := transports(t, g)
		passed, refused := 0, 0
		for n := range count {
			gate, q, spoofs := someRequest(r, sessions, bearers)
			up, status := inFront(fronts[gate], q)
			if up != nil {
				passed++
			} else {
				refused++
			}
			for _, way := range ways {
				gotUp, got := way.ask(gate, q)
				if got == 0 {
					continue
				}
				what := fmt.Sprintf("request %d by %s: %s %s%s %v at %s", n, way.name, q.Method, q.Host, q.Target, q.Header, gate)
				if gotUp == nil && got == http.StatusBadRequest && spoofs {
					continue // a proxy would hand on what protect removes
				}
				if (gotUp != nil) != (up != nil) {
					t.Fatalf("%s: status %d, and %d in front", what, got, status)
				}
				if gotUp == nil && got != status && !(way.name == "nginx" && status < 400 && got == 401) && !(status == 200 && got == 403) {
					t.Fatalf("%s: refused with %d, and with %d in front", what, got, status)
				}
				if gotUp != nil {
					sameArrives(t, what, gotUp, up)
				}
			}
		}
		if passed < count/12 || refused < count/10 {
			t.Errorf("%d requests passed and %d did not: they say little", passed, refused)
		}
	})
}

// sameArrives compares what the application learns of the caller, in every spelling that it may read.
func sameArrives(t *testing.T, what string, got, want http.Header) {
	t.Helper()
	for name, values := range got {
		plain := http.CanonicalHeaderKey(strings.NewReplacer("_", "-", ".", "-").Replace(name))
		if !slices.Contains([]string{
			"Remote-User", "Remote-Name", "Remote-Email", "Remote-Groups", "Remote-Assertion", "Cookie",
			"Authorization",
		}, plain) || strings.Join(values, "") == "" {
			continue
		}
		if plain == "Remote-Assertion" || strings.Join(values, "; ") != strings.Join(want[plain], "; ") {
			t.Fatalf("%s: the application gets %s: %q, and %q in front", what, name, values, want[plain])
		}
	}
	for _, name := range []string{"Remote-User", "Remote-Name", "Remote-Groups", "Cookie"} {
		if len(want[name]) > 0 && len(got[name]) == 0 {
			t.Fatalf("%s: the application does not get %s: %q", what, name, want[name])
		}
	}
}
