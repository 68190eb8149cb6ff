package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestMain is also what a run starts: the upstream and the other roles, and stand-ins of peers by their names.
func TestMain(m *testing.M) {
	if stand := standIns[filepath.Base(os.Args[0])]; stand != nil {
		fmt.Fprintln(os.Stderr, stand(os.Args))
		os.Exit(1)
	}
	flag.Parse()
	if child, err := asChild(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	} else if child {
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// standIns answer as the peers do, as far as a run asks.
var standIns = map[string]func(args []string) error{
	"dex": func(args []string) error {
		config, err := os.ReadFile(args[2])
		if err != nil {
			return err
		}
		return serve(regexp.MustCompile(`http: "([^"]*)"`).FindSubmatch(config)[1], dexStandIn())
	},
	"node": func([]string) error {
		return serve([]byte("127.0.0.1:"+os.Getenv("PORT")), nodeStandIn(os.Getenv("SECRET")))
	},
	"oauth2-proxy": func(args []string) error {
		for _, a := range args {
			if at, ok := strings.CutPrefix(a, "--http-address="); ok {
				return serve([]byte(at), gatewayStandIn())
			}
		}
		return errors.New("no address")
	},
}

func serve(addr []byte, h http.Handler) error {
	return (&http.Server{Addr: string(addr), Handler: h, ReadHeaderTimeout: time.Minute}).ListenAndServe()
}

// dexStandIn is dex with a provider that signs everybody in: several redirects, a code, an ID token.
func dexStandIn() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /dex/auth", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "flow", Value: r.URL.RawQuery})
		http.Redirect(w, r, "/dex/callback?"+r.URL.RawQuery, http.StatusFound)
	})
	m.HandleFunc("GET /dex/callback", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if c, err := r.Cookie("flow"); err != nil || c.Value != r.URL.RawQuery {
			http.Error(w, "another browser", http.StatusForbidden)
			return
		}
		back := url.Values{"code": {q.Get("code_challenge")}, "state": {q.Get("state")}}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
	})
	m.HandleFunc("POST /dex/token", func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != "bench" || secret != peerSecret || r.FormValue("code") == "" || r.FormValue("code_verifier") == "" {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"access_token": "a", "id_token": "h.p.s"})
	})
	return m
}

func nodeStandIn(secret string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, got, _ := r.BasicAuth(); r.URL.Path != "/token" || id != "bench" || got != secret ||
			r.FormValue("grant_type") != "client_credentials" {
			http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"access_token": "opaque"})
	})
}

func gatewayStandIn() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("_oauth2_proxy"); err == nil && c.Value == "signed-in" {
			_, _ = w.Write([]byte("ok\n"))
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "_oauth2_proxy", Value: "signed-in"})
		http.Redirect(w, r, r.URL.Path, http.StatusFound)
	})
}

// peers makes a directory of stand-ins.
func peers(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name := range standIns {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "node_modules", "oidc-provider"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func set(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	was := f.Value.String()
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(was) })
}

// TestEveryRowIsMeasured runs the whole benchmark for a moment. What falls short is no failure.
func TestEveryRowIsMeasured(t *testing.T) {
	t.Setenv("PEERS", peers(t))
	set(t, "rounds", "1")
	set(t, "seconds", "0.05")
	set(t, "tokens", "300")
	set(t, "websockets", "50")
	set(t, "devices", "300")
	set(t, "people", "20")
	if binary, err := measured(); err != nil {
		t.Fatal(err)
	} else {
		set(t, "against", binary)
	}
	text, err := run(t.Context())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, row := range []string{
		rowFloor, rowOpen, rowClient, rowPerson, rowCookie, rowJWT, rowProxy, rowNames, rowClean, rowForward, rowRespond,
		rowIntrospect, rowIntrospecting,
		rowBearer, rowProof, rowProofs, "verifying a signature by ES256, alone", rowPoll, rowPollRespond,
		rowSelect, rowPlain16, rowInsert, rowPgRead, rowPgIssue, rowPgFlow, rowBadgerFlow, rowOneNode, rowTwoNodes,
		rowNginx, rowNginxRespond, rowForwardAuth, rowCheck, rowCheckNothing, rowElsewhere,
		"oauth2-proxy, session cookie", "load generator alone, 64 connections", "client_credentials, durable, 64 connections",
		"Badger with SyncWrites", "our group commit", "code flow, new sign-in, RS256", "code flow, new sign-in, ES256",
		"dex in memory, code flow", "client_credentials, JWT, RS256", "client_credentials, JWT, ES256", "node-oidc-provider in memory",
		"one person again and again", "load generator alone, p99 at 1,000/s", "300 tokens issued",
		"quiet WebSocket, memory without and with protect", "50 quiet WebSockets, processor",
		"revoked until its WebSocket has ended", "revoked until all 50 WebSockets of it have ended",
	} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(row) + `.* \d`).MatchString(text) {
			t.Errorf("no row %q", row)
		}
	}
	for _, goal := range []string{
		"protect / the same site without: client token", "… person's token", "… session cookie", "… JWT access token",
		"protect / plain Caddy's reverse_proxy", "processor, this binary / the other: protect, session cookie",
		"introspection / plain Caddy's respond, processor: client", "introspection / plain Caddy's respond, processor: person",
		"protect with DPoP, µs of processor above a bearer token, one request at a time",
		"protect with DPoP, µs of processor above a bearer token",
		"300 devices that wait, % of a processor", "300 devices that wait, % of a processor above plain Caddy's respond",
		"client_credentials / our group commit", "client_credentials, p99 in ms", "code flow with an ID token / dex in memory: RS256",
		"code flow with an ID token / dex in memory: ES256", "JWT by client_credentials / node-oidc-provider: ES256",
		"nginx auth_request to Gatehouse / to plain Caddy's respond", "forward-auth, µs of processor above plain Caddy's respond",
		"Envoy's check over gRPC, µs of processor above a handler that does nothing",
		"protect with introspect, token in the cache / protect, person's token",
		"on PostgreSQL: introspection / SELECT by its key", "plain Caddy's respond and one SELECT, one after the other / SELECT",
		"on PostgreSQL: client_credentials / INSERT", "on PostgreSQL: code flow / on Badger",
		"on PostgreSQL: two nodes on this machine / one", "on PostgreSQL: round trips to read a token",
		"protect, bytes for each of 50 quiet WebSockets", "ms from a revocation until the WebSocket has ended, p99",
		"one person again and again: the last fifth / the first", "introspection, p99 in ms at 1,000/s, 100 sign-ins a second tried",
	} {
		goal = strings.Replace(goal, "… ", "protect / the same site without: ", 1)
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(goal) + ` +[<>]= [\d.]+ +-?[\d.]+`).MatchString(text) {
			t.Errorf("no goal %q", goal)
		}
	}
	if strings.Contains(text, "not run") || !strings.Contains(text, "goals reached") {
		t.Error("a row was not run, or nothing was counted")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestMissingPeerIsNamed: a row says what it lacks.
func TestMissingPeerIsNamed(t *testing.T) {
	t.Setenv("PEERS", t.TempDir())
	b := &bench{dir: t.TempDir()}
	dex, err1 := b.dex()
	node, err2 := b.nodeProvider()
	proxy, err3 := b.oauth2Proxy()
	if dex != nil || node != nil || proxy != nil || err1 != nil || err2 != nil || err3 != nil {
		t.Errorf("peers of an empty directory: %v %v, %v %v, %v %v, want none", dex, err1, node, err2, proxy, err3)
	}
	b.notRun("a row", "dex")
	t.Setenv("PEERS", "")
	b.notRun("a row", "dex")
	if text := b.print(); !strings.Contains(text, "not run: no dex in $PEERS\n") ||
		!strings.Contains(text, "not run: no dex in $PEERS, which is not set\n") {
		t.Errorf("the report says %s", text)
	}
}

// TestReportNamesWhatFallsShort, with the goal and what was reached.
func TestReportNamesWhatFallsShort(t *testing.T) {
	t.Parallel()
	var r report
	r.atLeast("a ratio", 0.94, 0.97)
	r.atLeast("another", 0.97, 0.97)
	r.atMost("a time", 15.4, 5)
	text := r.print()
	for _, line := range []string{
		`a ratio +>= 0\.97 +0\.94  falls short`, `another +>= 0\.97 +0\.97\n`, `a time +<= 5 +15\.4  falls short`,
		`1 of 3 goals reached`,
	} {
		if !regexp.MustCompile(line).MatchString(text) {
			t.Errorf("no line like %q in %s", line, text)
		}
	}
}

// TestFlowOfAPeer: a peer that answers otherwise than asked is an error, not a fast peer.
func TestFlowOfAPeer(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(dexStandIn())
	t.Cleanup(s.Close)
	p := dexParty(s.URL + "/dex")
	h := newHopper()
	t.Cleanup(h.close)
	for range 2 {
		if token, err := h.flow(p); token != "h.p.s" || err != nil {
			t.Errorf("flow = %q, %v, want h.p.s", token, err)
		}
		h.forget()
	}
	p.secret = "wrong"
	if _, err := h.flow(p); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("flow with a wrong secret: %v, want invalid_grant", err)
	}
	p.authorize = s.URL + "/elsewhere"
	if _, err := h.flow(p); err == nil || !strings.Contains(err.Error(), "no code: status 404") {
		t.Errorf("flow at another address: %v, want no code", err)
	}
	for body, ok := range map[string]bool{`{"id_token":"h.p.s"}`: true, `{"id_token":"opaque"}`: false, `{}`: false, ``: false} {
		if token, err := idToken(page{status: http.StatusOK, body: []byte(body)}); (err == nil) != ok || ok != (token != "") {
			t.Errorf("ID token of %q = %q, %v, want ok %t", body, token, err, ok)
		}
	}
}

// TestRequestOfAPeer: the answer of the other provider is counted if it is a token.
func TestRequestOfAPeer(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(nodeStandIn(peerSecret))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var port int
	if _, err := fmt.Sscanf(u.Port(), "%d", &port); err != nil {
		t.Fatal(err)
	}
	n := nodeTarget(port)
	n.pid = os.Getpid()
	if got, err := load(n, 0, 200); err != nil || got.requests != 200 {
		t.Errorf("load = %+v, %v, want 200 requests", got, err)
	}
	n.request = []byte(strings.Replace(string(n.request), base64.StdEncoding.EncodeToString([]byte("bench:"+peerSecret)), "eDp5", 1))
	if _, err := load(n, 0, 10); err == nil || !strings.Contains(err.Error(), "status 401") {
		t.Errorf("load with wrong credentials: %v, want status 401", err)
	}
	if _, err := gatewayTarget(s.URL); err == nil {
		t.Error("a gateway that answers 401 is measured")
	}
}

func TestFifths(t *testing.T) {
	t.Parallel()
	var ends []time.Time
	at := time.Unix(0, 0)
	for i := range 100 {
		at = at.Add(time.Duration(10+i/80*10) * time.Millisecond)
		ends = append(ends, at)
	}
	if first, last := fifths(ends); first < 99 || first > 101 || last < 49 || last > 51 {
		t.Errorf("fifths = %v, %v, want 100, 50", first, last)
	}
}

// TestDocumentGetsTheRun: the run before is replaced, and a document without a place for it stays as it is.
func TestDocumentGetsTheRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(path, []byte("above\n"+beginsRun+"old\n"+endsRun+"below\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := intoDocument(path, "\nthe figures\n", time.Unix(0, 0).UTC()); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	want := `^above\n<!-- run: begin -->\n\n1970-01-01, on \d+ processors \(.+\), \d+ GiB .*\n\n` + "```text\nthe figures\n```" +
		`\n\n<!-- run: end -->\nbelow\n$`
	if err != nil || !regexp.MustCompile(want).Match(got) {
		t.Errorf("the document is %s, %v, want %s", got, err, want)
	}
	if err := os.WriteFile(path, []byte("above\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := intoDocument(path, "x", time.Now()); err == nil || !strings.Contains(err.Error(), "no place for a run") {
		t.Errorf("a document without a place: %v", err)
	}
}
