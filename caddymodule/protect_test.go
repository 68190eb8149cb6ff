package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// walk is a whole Gatehouse: issuer, a wiki and a shop behind sign-in, an API, and an upstream that shows what it
// received.
type walk struct {
	*server
	wiki, shop string // origins
	log        string
	config     func() string
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"header": r.Header, "target": r.RequestURI}) //nolint:errcheck // to a test
	}))
	t.Cleanup(upstream.Close)
	s := newServer(t)
	w := &walk{server: s, wiki: "http://" + freeAddr(t), shop: "http://" + freeAddr(t), log: filepath.Join(s.dir, "log")}
	s.options = "log {\n\t\toutput file " + w.log + "\n\t\tlevel DEBUG\n\t}"
	w.config = func() string {
		up := strings.TrimPrefix(upstream.URL, "http://")
		return s.caddyfile() + fmt.Sprintf(`
%s {
	log
	protect {
		login
		groups staff
	}
	reverse_proxy %s
}
%s {
	log
	handle_path /app/* {
		reverse_proxy %s
	}
	protect {
		login
		headers X-Auth-User sub
	}
}
`, w.wiki, up, w.shop, up)
	}
	w.reload()
	return w
}

func (w *walk) reload() {
	w.t.Helper()
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(w.config()), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		w.t.Fatalf("adapt: %v", err)
	}
	if err := caddy.Load(keepSockets(w.t, raw), true); err != nil {
		w.t.Fatalf("load: %v", err)
	}
}

// browser is a browser without script: it keeps cookies and follows redirects.
type browser struct {
	t *testing.T
	*http.Client
	hops []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t}
	b.Client = &http.Client{Jar: jar, Transport: patient{&http.Transport{MaxIdleConnsPerHost: 4}}, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		b.hops = append(b.hops, r.URL.String())
		r.Header.Del("Referer") // net/http names the redirecting URL, which no browser does
		if len(via) > 12 {
			return fmt.Errorf("round and round: %q", b.hops)
		}
		return nil
	}}
	t.Cleanup(b.CloseIdleConnections)
	return b
}

func (b *browser) send(r *http.Request, err error) (*http.Response, string) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	b.hops = nil
	r.Header.Set("Accept", "text/html")
	res, err := b.Do(r.WithContext(b.t.Context()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, string(body)
}

func (b *browser) open(target string) (*http.Response, string) {
	b.t.Helper()
	return b.send(http.NewRequest(http.MethodGet, target, nil)) //nolint:noctx // set in send
}

var (
	formAction = regexp.MustCompile(`<form method="post" action="([^"]+)"`)
	hidden     = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// submit sends the form of a page, as the page's own origin would.
func (b *browser) submit(page *http.Response, body string, fields url.Values) (*http.Response, string) {
	b.t.Helper()
	m := formAction.FindStringSubmatch(body)
	if m == nil {
		b.t.Fatalf("%s: status %d, no form in %s", page.Request.URL, page.StatusCode, body)
	}
	to, err := page.Request.URL.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
	if err != nil {
		b.t.Fatal(err)
	}
	_, form, _ := strings.Cut(body, m[0])
	form, _, _ = strings.Cut(form, "</form>") // others have fields of the same names
	for _, h := range hidden.FindAllStringSubmatch(form, -1) {
		fields.Set(h[1], html.UnescapeString(h[2]))
	}
	r, err := http.NewRequest(http.MethodPost, to.String(), strings.NewReader(fields.Encode())) //nolint:noctx // set in send
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", page.Request.URL.Scheme+"://"+page.Request.URL.Host)
	}
	return b.send(r, err)
}

func (b *browser) signIn(target string) (*http.Response, string) {
	b.t.Helper()
	res, body := b.open(target)
	return b.submit(res, body, url.Values{"username": {"demo@example.com"}, "password": {testPassword}})
}

func TestProtectWithBrowser(t *testing.T) {
	w := newWalk(t)
	b := newBrowser(t)
	const path = "/a%20page?x=1&y=%2F"

	res, body := b.signIn(w.wiki + path)
	var got struct {
		Header http.Header `json:"header"`
		Target string      `json:"target"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK || res.Request.URL.String() != w.wiki+path {
		t.Fatalf("after sign-in: %d at %s by way of %q: %s", res.StatusCode, res.Request.URL, b.hops, body)
	}
	if got.Target != path || got.Header.Get("Remote-User") != "demo@example.com" || got.Header.Get("Remote-Name") != "Demo Person" || got.Header.Get("Remote-Groups") != "staff" || got.Header.Get("Cookie") != "" {
		t.Errorf("the upstream saw %s with %v", got.Target, got.Header)
	}
	// The second site signs in without a question.
	res, body = b.open(w.shop + "/app/cart?id=7")
	if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK || res.Request.URL.String() != w.shop+"/app/cart?id=7" || got.Target != "/cart?id=7" {
		t.Fatalf("the second site: %d at %s by way of %q: %s", res.StatusCode, res.Request.URL, b.hops, body)
	}
	if user := got.Header.Get("X-Auth-User"); len(user) != 36 || got.Header.Get("Cookie") != "" {
		t.Errorf("the upstream saw X-Auth-User %q, Cookie %q", user, got.Header.Get("Cookie"))
	}
	// A reload ends no session.
	w.reload()
	if res, _ := b.open(w.wiki + "/"); res.StatusCode != http.StatusOK || len(b.hops) != 0 {
		t.Errorf("after a reload: %d by way of %q", res.StatusCode, b.hops)
	}
	// Signing out at one site leads to the issuer, which asks, and ends the sessions of all sites.
	res, body = b.open(w.wiki + "/.gatehouse/logout")
	if !strings.HasPrefix(res.Request.URL.String(), w.issuer()) {
		t.Fatalf("sign-out led to %s", res.Request.URL)
	}
	b.submit(res, body, url.Values{})
	for _, site := range []string{w.wiki, w.shop} {
		if res, _ := b.open(site + "/"); !strings.HasPrefix(res.Request.URL.String(), w.issuer()+"/sign-in") {
			t.Errorf("after sign-out: %s leads to %s, want the sign-in page", site, res.Request.URL)
		}
	}
	log, err := os.ReadFile(w.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"ghsc_", "ghsi_", "ghss_", "panic", testPassword} {
		if strings.Contains(string(log), s) {
			i := strings.Index(string(log), s)
			t.Errorf("%q is in the log: %s", s, log[strings.LastIndexByte(string(log[:i]), 10)+1:i+20])
		}
	}
}

func TestProtectCodeInAnotherBrowser(t *testing.T) {
	w := newWalk(t)
	thief, victim := newBrowser(t), newBrowser(t)
	// The thief signs in and stops the browser where it would bring the code home.
	thief.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Query().Has("gatehouse_code") {
			return http.ErrUseLastResponse
		}
		return nil
	}
	res, _ := thief.signIn(w.wiki + "/")
	link := res.Header.Get("Location")
	if !strings.Contains(link, "gatehouse_code=") {
		t.Fatalf("no code in %d to %q", res.StatusCode, link)
	}
	if res, _ := victim.open(link); res.StatusCode == http.StatusOK && !strings.HasPrefix(res.Request.URL.String(), w.issuer()) {
		t.Errorf("another browser is let in at %s", res.Request.URL)
	}
	// It was burned by that.
	thief.CheckRedirect = nil
	if res, _ := thief.open(link); res.StatusCode != http.StatusOK || res.Request.URL.String() != w.wiki+"/" {
		t.Errorf("the thief, who is signed in at the issuer, ends at %s with %d", res.Request.URL, res.StatusCode)
	}
}

func TestProtectBlockedPerson(t *testing.T) {
	w := newWalk(t)
	b := newBrowser(t)
	if res, body := b.signIn(w.wiki + "/"); res.StatusCode != http.StatusOK || res.Request.URL.String() != w.wiki+"/" {
		t.Fatalf("after sign-in: %d at %s: %s", res.StatusCode, res.Request.URL, body)
	}
	state := func(to string) {
		t.Helper()
		r := w.request(http.MethodPost, "http://"+w.admin+"/gatehouse/persons/state", strings.NewReader(`{"person":"demo@example.com","state":"`+to+`"}`))
		r.Header.Set("Content-Type", "application/json")
		if res, body := w.do(r); res.StatusCode != http.StatusOK {
			t.Fatalf("state %s: %d %s", to, res.StatusCode, body)
		}
	}
	state("BLOCKED")
	if res, _ := b.open(w.wiki + "/"); !strings.HasPrefix(res.Request.URL.String(), w.issuer()) {
		t.Errorf("a blocked person ends at %s with %d, want the issuer's sign-in", res.Request.URL, res.StatusCode)
	}
	if res, _ := b.signIn(w.wiki + "/"); res.Request.URL.String() == w.wiki+"/" {
		t.Error("a blocked person signs in")
	}
	// A person who is unblocked has to sign in again.
	state("ACTIVE")
	if res, _ := b.open(w.wiki + "/"); !strings.HasPrefix(res.Request.URL.String(), w.issuer()) {
		t.Errorf("the old session is back: %d at %s", res.StatusCode, res.Request.URL)
	}
}

// A site is a client of the issuer: the level of a scope that it asks for holds for browsers too.
func TestProtectScopeWithLevel(t *testing.T) {
	w := newWalk(t)
	config := w.config
	site := "http://" + freeAddr(t)
	w.extra = "scope ledger.read {\n\t\t\tlevel 2\n\t\t}"
	w.config = func() string {
		return config() + fmt.Sprintf(`
%s {
	handle /need/* {
		protect {
			login
			allow {
				match path /need/*
				need  scopes ledger.read
			}
		}
		respond "the ledger"
	}
	handle {
		protect ledger.read {
			login
		}
		respond "the ledger"
	}
}
`, site)
	}
	w.reload()
	b := newBrowser(t)
	if res, body := b.signIn(w.wiki + "/"); res.StatusCode != http.StatusOK || res.Request.URL.String() != w.wiki+"/" {
		t.Fatalf("after sign-in: %d at %s: %s", res.StatusCode, res.Request.URL, body)
	}
	for _, path := range []string{"/", "/need/1", "/", "/need/1"} {
		res, body := b.open(site + path)
		if strings.Contains(body, "the ledger") || res.StatusCode != http.StatusForbidden || !strings.HasPrefix(res.Request.URL.String(), w.issuer()) {
			t.Errorf("%s with level 1: %d at %s: %.3000s, want the issuer's refusal", path, res.StatusCode, res.Request.URL, body)
		}
	}
}
