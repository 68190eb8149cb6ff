package cli_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestDiagnosticsAreForOperators: what tells about the server, or changes it, is served by Caddy's admin endpoint
// alone: at no site, and there to no page of a browser.
func TestDiagnosticsAreForOperators(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	source, err := os.ReadFile("../adminapi/routes.go")
	if err != nil {
		t.Fatal(err)
	}
	routes := regexp.MustCompile(`"(GET|POST) (/gatehouse/[^"]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(routes) < 40 {
		t.Fatalf("only %d routes are found", len(routes))
	}
	routes = append(routes, []string{"", "GET", "/metrics"}, []string{"", "GET", "/config/"}, []string{"", "POST", "/load"},
		[]string{"", "GET", "/debug/pprof/"})
	body := func(method string) *strings.Reader {
		if method == http.MethodGet {
			return strings.NewReader("")
		}
		return strings.NewReader("{}")
	}
	t.Run("peer 61: the administration by a page of a browser", func(t *testing.T) {
		for _, route := range routes {
			method, path := route[1], route[2]
			for _, site := range []string{s.Issuer(), "http://" + s.API} {
				for _, sent := range []string{path, "/api" + path, "/oauth" + path, path + "/"} {
					r := s.Request(method, site+sent, body(method))
					r.Header.Set("Content-Type", "application/json")
					res, text := s.Do(r)
					if res.StatusCode < http.StatusBadRequest && res.StatusCode != http.StatusSeeOther ||
						res.StatusCode >= http.StatusInternalServerError || strings.Contains(text, "go_goroutines") {
						t.Errorf("%s %s at %s = %d %.200s", method, sent, site, res.StatusCode, text)
					}
				}
			}
			if !strings.HasPrefix(path, "/gatehouse/") {
				continue
			}
			for name, edit := range map[string]func(r *http.Request){
				"a page of another site":        func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
				"a page without an origin":      func(r *http.Request) { r.Header.Set("Origin", "null") },
				"a name that leads to loopback": func(r *http.Request) { r.Host = "evil.example:2019" },
			} {
				r := s.Request(method, "http://"+s.Admin+path, body(method))
				r.Header.Set("Content-Type", "application/json")
				edit(r)
				if res, text := s.Do(r); res.StatusCode != http.StatusForbidden && res.StatusCode != http.StatusBadRequest {
					t.Errorf("%s %s by %s = %d %.200s, want a refusal", method, path, name, res.StatusCode, text)
				}
			}
			if method == http.MethodGet {
				continue
			}
			r := s.Request(method, "http://"+s.Admin+path, body(method))
			r.Header.Set("Content-Type", "text/plain") // what a form of a page can send without a preflight
			if res, text := s.Do(r); res.StatusCode != http.StatusUnsupportedMediaType {
				t.Errorf("%s %s as text = %d %.200s, want 415", method, path, res.StatusCode, text)
			}
		}
	})
}
