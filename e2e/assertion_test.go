package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAssertionGuide follows docs/assertion.md. The programs in Go, Node.js and Python accept what an application gets
// from the gateway, and refuse what has not come through it.
func TestAssertionGuide(t *testing.T) {
	t.Parallel()
	var (
		mu  sync.Mutex
		got = map[string]string{} // the assertion for method and target
	)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.Method+" "+r.RequestURI] = r.Header.Get("Remote-Assertion")
	}))
	t.Cleanup(app.Close)
	g := follow(t, "../docs/assertion.md", nil, map[string]string{"localhost:9000": app.Listener.Addr().String()})
	origin := g.local.Replace("https://wiki.example.com")
	token := g.clientCredentials("reports", g.value("REPORTS_SECRET"))
	for _, line := range []string{"GET /report?x=1", "POST /a%2Fb", "GET /"} {
		method, target, _ := strings.Cut(line, " ")
		if status, _ := ask(t, origin, "", method, target,
			map[string]string{"Authorization": "Bearer " + token, "Remote_Assertion": "forged"}); status != http.StatusOK {
			t.Fatalf("%s through the gateway: status = %d", line, status)
		}
	}
	mu.Lock()
	passed := got["GET /report?x=1"]
	posted := got["POST /a%2Fb"]
	mu.Unlock()
	if passed == "" || posted == "" || passed == posted {
		t.Fatalf("the application got %q and %q", passed, posted)
	}
	host := strings.TrimPrefix(origin, "http://")

	dir := t.TempDir()
	g.save(dir)
	modules(t, dir)
	for language, command := range map[string][]string{
		"Go": {g.goBuild(filepath.Join(dir, "main.go"))}, "Node.js": {"node", "main.mjs"}, "Python": {"/usr/bin/python3", "main.py"},
	} {
		port := freePorts(t, 1)[0]
		at := fmt.Sprintf("http://localhost:%d", port)
		g.launch(at, dir, []string{"ISSUER=" + g.Issuer, "ORIGIN=" + origin, fmt.Sprintf("PORT=%d", port)}, command[0], command[1:]...)
		for _, tt := range []struct {
			name, host, method, target, assertion string
			want                                  int
		}{
			{"as it came", host, "GET", "/report?x=1", passed, 200},
			{"another query", host, "GET", "/report", passed, 200},
			{"as it was posted", host, "POST", "/a%2Fb", posted, 200},
			{"none", host, "GET", "/report", "", 401},
			{"nonsense", host, "GET", "/report", "a.b.c", 401},
			{"another path", host, "GET", "/admin", passed, 401},
			{"another spelling of the path", host, "POST", "/a/b", posted, 401},
			{"another method", host, "POST", "/report", passed, 401},
			{"another host", "localhost:1", "GET", "/report", passed, 401},
			{"an access token of the same issuer", host, "GET", "/report", token, 401},
			{"a damaged signature", host, "GET", "/report", passed[:len(passed)-8] + "AAAAAAAA", 401},
		} {
			header := map[string]string{}
			if tt.assertion != "" {
				header["Remote-Assertion"] = tt.assertion
			}
			if status, body := ask(t, at, tt.host, tt.method, tt.target, header); status != tt.want ||
				strings.Contains(body, "Hello, reports") != (tt.want == 200) {
				t.Errorf("%s: %s: status = %d, %q, want %d", language, tt.name, status, body, tt.want)
			}
		}
	}
}

// ask sends one request and returns the answer.
func ask(t *testing.T, base, host, method, target string, header map[string]string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, base+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	for k, v := range header {
		req.Header[k] = []string{v}
	}
	res, err := (&http.Client{
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}
