package caddymodule_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// A gateway asks the issuer under another name than its own, such as 127.0.0.1 for localhost. It must not take the
// answer for a yes.
func TestIssuerUnderAnotherHost(t *testing.T) {
	s := servertest.NewServer(t)
	_, port, _ := strings.Cut(s.Addr, ":")
	s.Site = fmt.Sprintf(`protect orders.read
	}
	http://other.localhost:%[1]s {
		respond "other"
	}
	http://*.wild.localhost:%[1]s {
		respond "wild"
	}
	http://paths.localhost:%[1]s {
		respond /one "one"`, port)
	s.MustLoad()
	ask := func(host, path string) (int, string) {
		r := s.Request(http.MethodGet, "http://"+s.Addr+path, nil)
		r.Host = host
		res, body := s.Do(r)
		return res.StatusCode, body
	}
	for _, path := range []string{"/", "/healthz", "/oauth/forward-auth", "/.well-known/openid-configuration", "/nothing"} {
		for _, host := range []string{
			"127.0.0.1:" + port, "[::1]:" + port, "evil.example", "localhost.:" + port, "xlocalhost:" + port,
			"b.a.wild.localhost:" + port,
		} {
			if status, body := ask(host, path); status != http.StatusMisdirectedRequest {
				t.Errorf("%s of %s = %d %q, want 421", path, host, status, body)
			}
		}
	}
	for host, want := range map[string]string{
		"localhost:" + port + "/healthz": "ok", "LOCALHOST:" + port + "/healthz": "ok", "other.localhost:" + port + "/": "other",
		"a.wild.localhost:" + port + "/":   "wild",
		"paths.localhost:" + port + "/one": "one", "paths.localhost:" + port + "/two": "",
	} {
		host, path, _ := strings.Cut(host, "/")
		if status, body := ask(host, "/"+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("/%s of %s = %d %q, want 200 and %q", path, host, status, body, want)
		}
	}
	// A reload provisions the server again.
	s.MustLoad()
	if status, _ := ask("127.0.0.1:"+port, "/"); status != http.StatusMisdirectedRequest {
		t.Errorf("after a reload: %d, want 421", status)
	}
}
