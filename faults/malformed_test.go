package faults

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// paths are every endpoint and page that strangers can reach.
var paths = []string{
	"/oauth/authorize", "/oauth/v1/authorize", "/oauth/token", "/oauth/v1/token", "/oauth/revoke", "/oauth/v1/revoke",
	"/oauth/api/v2/token/introspect", "/oauth/userinfo", "/oauth/jwks", "/oauth/logout", "/oauth/consent", "/oauth/site",
	"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server",
	"/sign-in", "/sign-out", "/account", "/assets/none.css", "/healthz", "/", "/no/such/page",
}

// malformedRequests returns requests for one path with every kind of defect.
func malformedRequests(host, path string) map[string][]byte {
	long := strings.Repeat("a", 10_000)
	get := func(query string, h ...string) []byte { return lab.Request("GET", host, path+query, "", h...) }
	raw := func(contentType, body string, h ...string) []byte {
		h = append(h, "Content-Length", fmt.Sprint(len(body)))
		if contentType != "" {
			h = append(h, "Content-Type", contentType)
		}
		b := lab.Request("PUT", host, path, "", h...)
		return append([]byte("POST"+string(b[3:])), body...)
	}
	form := func(body string, h ...string) []byte { return raw("application/x-www-form-urlencoded", body, h...) }
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	return map[string][]byte{
		"long query value":     get("?client_id=" + long + "&state=" + long),
		"repeated parameters":  get("?client_id=a&client_id=b&redirect_uri=x&redirect_uri=y"),
		"broken escapes":       get("?client_id=%zz&state=%&scope=%00"),
		"invalid UTF-8 query":  get("?client_id=%ff%fe&state=%c0%80"),
		"semicolons":           get("?a=b;c=d;client_id=x"),
		"placeholders":         get("?client_id={env.HOME}&state={{.}}&language={file./etc/passwd}"),
		"long bearer":          get("", "Authorization", "Bearer "+long),
		"bearer alone":         get("", "Authorization", "Bearer"),
		"binary cookie":        get("", "Cookie", "gh=\xff\xfe; __Host-gh-x="+long),
		"empty body":           form(""),
		"long form value":      form("grant_type=" + long + "&token=" + long + "&username=" + long + "&csrf=" + long),
		"oversized form":       form("a=" + strings.Repeat("b", 2<<20)),
		"many fields":          form(strings.Repeat("a=b&", 20_000)),
		"repeated form fields": form("grant_type=client_credentials&grant_type=x&token=a&token=b"),
		"invalid UTF-8 form":   form("grant_type=\xff\xfe&token=%ff&username=%c0%80"),
		"NUL and line ends":    form("grant_type=a%00b&token=a%0d%0ab&username=a%00"),
		"broken escapes form":  form("grant_type=%zz&token=%"),
		"JSON body":            raw("application/json", `{"grant_type":"client_credentials"}`),
		"multipart body": raw("multipart/form-data; boundary=x",
			"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n"),
		"no content type":       raw("", "grant_type=client_credentials"),
		"other charset":         raw("application/x-www-form-urlencoded; charset=utf-16", "grant_type=client_credentials"),
		"broken content type":   raw(";;;=/", "a=b"),
		"Basic without colon":   form("token=x", "Authorization", basic("nocolon")),
		"Basic not base64":      form("token=x", "Authorization", "Basic !!!"),
		"Basic with bad escape": form("token=x", "Authorization", basic("%zz:%")),
		"Basic of NULs":         form("token=x", "Authorization", basic("\x00:\x00")),
		"long Basic":            form("token=x", "Authorization", basic(long+":"+long)),
		"two Authorizations":    form("token=x", "Authorization", basic("a:b"), "Authorization", "Bearer x"),
		"HEAD":                  lab.Request("HEAD", host, path, ""),
		"OPTIONS": lab.Request("OPTIONS", host, path, "", "Origin", "https://evil.example",
			"Access-Control-Request-Method", "POST"),
		"DELETE":         lab.Request("DELETE", host, path, ""),
		"unknown method": lab.Request("FOO", host, path, ""),
		"odd path":       lab.Request("GET", host, path+"/%2e%2e/%00%ff//x", ""),
	}
}

var innards = regexp.MustCompile(`goroutine \d|\.go:\d+|runtime error|badger|/storage/|\*authz\.|\*identity\.`)

// malformed is F40: whatever the request, the process survives, answers below 500, and reveals no internals. Then a
// build with a panic point: the upstream receives nothing of that request, and other requests continue.
func malformed(t *testing.T, rep *report) {
	s := start(t, lab.Config{}, 2)
	good := s.Server.Issue(t.Context()).Text("access_token")
	before, err := lab.CPU(s.Server.PID())
	if err != nil {
		t.Fatal(err)
	}
	issuer := fmt.Sprintf("localhost:%d", s.Server.Ports.Issuer)
	sent := 0
	for _, p := range paths {
		sent += s.abuse(t, issuer, p)
	}
	for _, site := range []int{s.Server.Ports.API, s.Server.Ports.Wiki} {
		for _, p := range []string{"/", "/?gatehouse_code=x", "/.gatehouse/logout"} {
			sent += s.abuse(t, fmt.Sprintf("localhost:%d", site), p)
		}
	}
	after, err := lab.CPU(s.Server.PID())
	if err != nil {
		t.Fatal(err)
	}
	each := (after - before) / time.Duration(sent)
	if each > 50*time.Millisecond {
		t.Errorf("a rejected request costs %v of processor time, want at most 50 ms", each)
	}
	if active, told := s.Server.Introspect(t.Context(), good).Active(); !told || !active {
		t.Errorf("a good token after the malformed requests: active %t, told %t", active, told)
	}
	if !s.Server.Alive() {
		t.Error("the process is gone")
	}
	rep.add("%d malformed requests, %d µs of processor each, panics %d", sent, each.Microseconds(), len(s.Server.Panics()))
	if !testing.Short() {
		panicPoint(t, rep)
	}
}

func (s setup) abuse(t *testing.T, host, path string) (sent int) {
	t.Helper()
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		t.Fatal(err)
	}
	for name, req := range malformedRequests(host, path) {
		c, err := lab.Dial("127.0.0.1:" + port)
		if err != nil {
			t.Fatalf("after %d requests: %v", sent, err)
		}
		sent++
		c.Keep = !strings.HasPrefix(string(req), "HEAD")
		status, err := c.DoClosing(req)
		switch {
		case err != nil && !(name == "oversized form" && status != 0):
			t.Errorf("%s, %s: no answer: %v", path, name, err)
		case status >= 500 && !(path == "/healthz" && status == http.StatusServiceUnavailable) && status != http.StatusNotImplemented:
			t.Errorf("%s, %s = %d, want below 500", path, name, status)
		case innards.Match(c.Body):
			t.Errorf("%s, %s reveals internals: %.300s", path, name, c.Body)
		}
		c.Close()
	}
	return sent
}

// panicPoint builds the program with a panic in the introspection of one token.
func panicPoint(t *testing.T, rep *report) {
	out := filepath.Join(t.TempDir(), "gatehouse-panics")
	if err := Build("..", out, panicking); err != nil {
		t.Fatal(err)
	}
	echo, err := lab.NewEcho()
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	server, err := lab.New(lab.Config{Binary: out, Dir: t.TempDir(), Echo: echo.Addr})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	if _, err := server.StartReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	good := server.Issue(t.Context()).Text("access_token")
	ctx, cancel := context.WithCancel(t.Context())
	var others, disturbed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if a := server.Call(t.Context(), good); a.Status != http.StatusOK {
					disturbed.Add(1)
				}
				others.Add(1)
			}
		})
	}
	panics := 0
	for range 50 {
		for _, a := range []lab.Answer{server.Introspect(ctx, "lab-panic"), server.Call(ctx, "lab-panic", lab.MustNotArrive, "1")} {
			panics++
			if a.Status != http.StatusInternalServerError {
				t.Errorf("a panicking handler answers %d, want 500: %v", a.Status, a.Err)
			}
			if innards.Match(a.Body) {
				t.Errorf("a panicking handler reveals internals: %.300s", a.Body)
			}
		}
	}
	cancel()
	wg.Wait()
	if n := echo.Forbidden.Load(); n > 0 {
		t.Errorf("%d requests whose check panicked reached the upstream", n)
	}
	if n := disturbed.Load(); n > 0 || !server.Alive() {
		t.Errorf("%d of %d other requests failed, alive %t", n, others.Load(), server.Alive())
	}
	rep.add("%d panics: upstream hits %d, %d other requests, %d failed, alive %t", panics, echo.Forbidden.Load(), others.Load(),
		disturbed.Load(), server.Alive())
}
