package doctor

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gate is a scripted proxy that lets a good token in, with the faults that a test gives it.
type gate struct {
	upstream atomic.Value // its address
	faults   map[string]bool
	down     atomic.Bool
}

func (g *gate) has(fault string) bool { return g.faults[fault] }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, method := r.URL.Path, r.Method
	for header, fault := range map[string]string{"X-Original-Uri": "believes X-Original-URI", "X_forwarded_uri": "believes aliases"} {
		if v := r.Header.Get(header); v != "" && g.has(fault) {
			path = v
		}
	}
	if v := r.Header.Get("X-Forwarded-Method"); v != "" && g.has("believes X-Forwarded-Method") {
		method = v
	}
	good := r.Header.Get("Authorization") == "Bearer good"
	switch {
	case g.down.Load() && g.has("fails open"):
	case g.down.Load():
		http.Error(w, "down", http.StatusInternalServerError)
		return
	case g.has("lets everything in"), g.has("lets OPTIONS in") && r.Method == http.MethodOptions, method == http.MethodOptions &&
		r.Method != method, g.has("public by prefix") && strings.HasPrefix(r.RequestURI, "/healthz/"), path == "/healthz":
	case g.has("lets cookies in") && strings.Contains(r.Header.Get("Cookie"), "%00"):
	case g.has("refuses everything"), !good:
		w.WriteHeader(map[bool]int{true: http.StatusInternalServerError, false: http.StatusUnauthorized}[g.has("breaks")])
		return
	}
	conn, err := new(net.Dialer).DialContext(r.Context(), "tcp", g.upstream.Load().(string)) //nolint:forcetypeassert // see examine
	if err != nil {
		http.Error(w, "no upstream", http.StatusBadGateway)
		return
	}
	defer conn.Close()
	drop := map[string]bool{}
	if g.has("removes what Connection names") {
		for name := range strings.SplitSeq(r.Header.Get("Connection"), ",") {
			drop[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	head := r.Method + " " + r.RequestURI + " HTTP/1.1\r\nHost: " + r.Host + "\r\n"
	for name, values := range r.Header {
		own := strings.HasPrefix(folded(name), "remote-")
		switch {
		case name == "X-Original-Url" || name == "X-Original-Uri" || name == "X-Original-Method" || name == "X-Rewrite-Url":
			if !g.has("hands X-Original-URL on") {
				continue
			}
		case strings.HasSuffix(name, "Client-Cert") || name == "Client-Cert-Chain":
			if !g.has("hands certificates on") {
				continue
			}
		case !own:
		case name == "Remote-Groups" && g.has("forgets a header"):
		case strings.ContainsAny(name, "_.") && g.has("forgets aliases"):
		default:
			continue
		}
		for _, v := range values {
			head += name + ": " + v + "\r\n"
		}
	}
	if !drop["Remote-User"] {
		head += "Remote-User: ada\r\n"
	}
	_, _ = io.WriteString(conn, head+"\r\n")
	answer, _ := io.ReadAll(conn)
	if len(answer) > 0 {
		w.WriteHeader(http.StatusOK)
	}
}

// examine runs all probes at a gate with faults. It returns the names of the probes by verdict.
func examine(t *testing.T, change func(*gate, *Options), faults ...string) map[string][]Result {
	t.Helper()
	g := &gate{faults: map[string]bool{}}
	for _, f := range faults {
		g.faults[f] = true
	}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	o := Options{Proxy: "nginx", URL: server.URL + "/page", Public: "/healthz", Listen: "127.0.0.1:0", Token: "good", Wait: 30 * time.Second}
	o.listening = func(address string) { g.upstream.Store(address) }
	if change != nil {
		change(g, &o)
	}
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]Result{}
	for _, r := range report.Probes {
		out[r.Verdict] = append(out[r.Verdict], r)
	}
	if len(out[Failed]) != report.Failed || len(out[Warning]) != report.Warnings || len(out[Skipped]) != report.Skipped {
		t.Errorf("the report counts %d, %d, %d of %v", report.Failed, report.Warnings, report.Skipped, out)
	}
	return out
}

// TestGoodProxy: nothing to say about a proxy that does all of it.
func TestGoodProxy(t *testing.T) {
	t.Parallel()
	got := examine(t, nil)
	if len(got[OK]) < 30 || len(got) != 1 {
		t.Errorf("a good proxy: %+v", got)
	}
	if got := examine(t, func(g *gate, o *Options) { g.down.Store(true); o.Down = true }); len(got[OK]) != 4 || len(got) != 1 {
		t.Errorf("a good proxy without Gatehouse: %+v", got)
	}
	if got := examine(t, func(_ *gate, o *Options) { o.Token = "" }); len(got[Skipped]) != 11 || len(got[Failed])+len(got[Warning]) > 0 {
		t.Errorf("a good proxy without a token: %+v", got)
	}
}

// TestBadProxies: each mistake is found, by the probe that is about it, with what to do.
func TestBadProxies(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct {
		verdict string
		probes  []string // some of those that must have it
	}{
		"lets everything in":          {Failed, []string{"no one is signed in", "an invalid token", "the method DELETE"}},
		"lets OPTIONS in":             {Failed, []string{"the method OPTIONS"}},
		"lets cookies in":             {Failed, []string{"malformed cookies"}},
		"believes X-Original-URI":     {Failed, []string{"X-Original-URI of a public page"}},
		"believes X-Forwarded-Method": {Failed, []string{"X-Forwarded-Method of a public page"}},
		"believes aliases":            {Failed, []string{"X_Forwarded_Uri of a public page"}},
		"public by prefix":            {Failed, []string{"/../ in the path", "/%2e%2e/ in the path"}},
		"forgets a header":            {Failed, []string{"made-up identity headers", "made-up identity headers in lower case"}},
		"forgets aliases": {
			Failed,
			[]string{"made-up identity headers with _", "made-up identity headers with .", "made-up identity headers as in CGI"},
		},
		"removes what Connection names": {Failed, []string{"Connection names the identity headers"}},
		"hands X-Original-URL on":       {Warning, []string{"headers by which frameworks read another path"}},
		"hands certificates on":         {Warning, []string{"a made-up certificate of the client"}},
		"refuses everything":            {Failed, []string{"a valid token"}},
		"breaks":                        {Warning, []string{"no one is signed in"}},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			got := examine(t, nil, fault)
			for _, name := range want.probes {
				i := slices.IndexFunc(got[want.verdict], func(r Result) bool { return r.Name == name })
				if i < 0 {
					t.Errorf("%q is not %s but: %+v", name, want.verdict, got)
				} else if got[want.verdict][i].Fix == "" {
					t.Errorf("%q does not say what to do", name)
				}
			}
		})
	}
	t.Run("fails open", func(t *testing.T) {
		t.Parallel()
		if got := examine(t, func(g *gate, o *Options) { g.down.Store(true); o.Down = true }, "fails open"); len(got[Failed]) != 4 {
			t.Errorf("a proxy that lets everything in without Gatehouse: %+v", got)
		}
	})
}

// TestLive: an application at work gets no request that could change something, and what gets past is found by the
// answers.
func TestLive(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		page   http.HandlerFunc // of the site, to someone who is not signed in
		failed []string
		warned []string
	}{
		"a good one": {page: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://auth.example.com/oauth/site?id="+r.Header.Get(markHeader), http.StatusFound)
		}},
		"an open page": {
			page:   func(http.ResponseWriter, *http.Request) {},
			failed: []string{"no one is signed in", "malformed cookies"},
		},
		"one that lets HEAD in": {
			page:   let(func(r *http.Request) bool { return r.Method == http.MethodHead }, http.StatusOK),
			failed: []string{"the method HEAD"},
		},
		"one that believes": {
			page:   let(func(r *http.Request) bool { return r.Header.Get("X-Original-Uri") != "" }, http.StatusNotFound),
			warned: []string{"X-Original-URI of a public page"},
		},
		"an application that is": {
			page:   let(func(r *http.Request) bool { return r.Header.Get("Cookie") != "" }, http.StatusSeeOther),
			warned: []string{"malformed cookies"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var methods sync.Map
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				methods.Store(r.Method, true)
				if r.Header.Get("Authorization") == "Bearer good" {
					t.Error("a token was sent")
				}
				tt.page(w, r)
			}))
			t.Cleanup(server.Close)
			report, err := Run(t.Context(),
				Options{Live: true, Proxy: Protect, URL: server.URL + "/page", Public: "/healthz", Token: "good", Wait: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			methods.Range(func(method, _ any) bool {
				if !slices.Contains(harmless, method.(string)) { //nolint:forcetypeassert // see above
					t.Errorf("%s was sent to an application at work", method)
				}
				return true
			})
			verdicts := map[string]string{}
			for _, r := range report.Probes {
				if verdicts[r.Name] = r.Verdict; (r.Fix == "") != (r.Verdict == OK) {
					t.Errorf("%s: %s with the fix %q", r.Name, r.Verdict, r.Fix)
				}
			}
			for _, want := range tt.failed {
				if verdicts[want] != Failed {
					t.Errorf("%s: %s, want failed", want, verdicts[want])
				}
			}
			for _, want := range tt.warned {
				if verdicts[want] != Warning {
					t.Errorf("%s: %s, want a warning", want, verdicts[want])
				}
			}
			if len(report.Probes) < 20 || len(tt.failed) == 0 && report.Failed > 0 || len(tt.warned) == 0 &&
				report.Warnings > 0 || report.Skipped > 0 {
				t.Errorf("the report is %+v", report)
			}
		})
	}
}

// let is a site that refuses, but for requests that fit, which get this status.
func let(fits func(*http.Request) bool, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !fits(r):
			w.WriteHeader(http.StatusUnauthorized)
		case status == http.StatusSeeOther:
			http.Redirect(w, r, "/login", status)
		default:
			w.WriteHeader(status)
		}
	}
}

// TestWrongUpstream: when the proxy passes requests elsewhere, refusals prove nothing.
// TestHostileAnswer: an application that answers without an end fills no memory, and is not taken for one that refuses.
func TestHostileAnswer(t *testing.T) {
	t.Parallel()
	const far = 64 << 20
	for name, tt := range map[string]struct{ begin, more string }{
		"attack 892: a head without an end": {"HTTP/1.1 401 Unauthorized\r\n", "X-Filler: " + strings.Repeat("x", 4<<10) + "\r\n"},
		"attack 892: a body without an end": {
			"HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n",
			"1000\r\n" + strings.Repeat("x", 4<<10) + "\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var most atomic.Int64 // bytes of one answer
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack() //nolint:forcetypeassert // of net/http
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				n, err := io.WriteString(conn, tt.begin)
				for sent := int64(n); err == nil && sent < far; sent += int64(n) {
					n, err = io.WriteString(conn, tt.more)
					most.Store(max(most.Load(), sent))
				}
			}))
			t.Cleanup(server.Close)
			report, err := Run(t.Context(),
				Options{Live: true, Proxy: Protect, URL: server.URL + "/page", Public: "/healthz", Wait: 30 * time.Second})
			if head := strings.Contains(tt.more, "X-Filler"); head && (err == nil || !strings.Contains(err.Error(), "256 KiB")) || !head &&
				(err != nil || report.Failed > 0) {
				t.Errorf("Run = %+v, %v", report, err)
			}
			if n := most.Load(); n > far/2 { // what the system holds between the two comes on top
				t.Errorf("%d bytes of an answer were taken", n)
			}
		})
	}
}

func TestWrongUpstream(t *testing.T) {
	t.Parallel()
	got := examine(t, func(g *gate, o *Options) {
		g.faults["lets everything in"] = true
		g.upstream.Store("127.0.0.1:1") // no one is there
		o.listening = nil
	})
	if len(got[Failed]) == 0 || !strings.Contains(got[Failed][0].What, "502") && !strings.Contains(got[Warning][0].What, "502") {
		t.Errorf("the upstream is elsewhere: %+v", got)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	good := Options{Proxy: "nginx", URL: "http://127.0.0.1:1/", Public: "/healthz", Listen: "127.0.0.1:0", Wait: time.Second}
	for name, tt := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no address":       {func(o *Options) { o.URL = "wiki.example.com" }, "is not the address of a page"},
		"a query":          {func(o *Options) { o.URL = "http://127.0.0.1:1/?a" }, "is not the address of a page"},
		"an unknown proxy": {func(o *Options) { o.Proxy = "apache" }, "known are nginx"},
		"no path":          {func(o *Options) { o.Public = "healthz" }, "is not a path"},
		"a line end":       {func(o *Options) { o.Token = "a\r\nb" }, "no line ends"},
		"nobody there":     {func(*Options) {}, "the proxy: "},
		"a taken address":  {func(o *Options) { o.Listen = "256.0.0.1:1" }, "the recording upstream: "},
	} {
		o := good
		tt.change(&o)
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestMends: there is something to say about every kind of failure.
func TestMends(t *testing.T) {
	t.Parallel()
	for k := aboutGate; k <= aboutCertificate; k++ {
		for _, proxy := range Proxies {
			if fixOf(proxy, k) == "" {
				t.Errorf("nothing to do about %d with %s", k, proxy)
			}
		}
		for proxy := range fixes[k] {
			if proxy != "" && !slices.Contains(Proxies, proxy) {
				t.Errorf("a fix for the unknown proxy %s", proxy)
			}
		}
	}
}
