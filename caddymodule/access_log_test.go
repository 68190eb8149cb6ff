package caddymodule_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestAccessLogHoldsNoSecret: what leaves a request out of the access log must not hide who sent it.
func TestAccessLogHoldsNoSecret(t *testing.T) {
	s := servertest.NewServer(t)
	file := filepath.Join(s.Dir, "log")
	s.Options = "log {\n\t\toutput file " + file + "\n\t}"
	config := strings.Replace(s.Caddyfile(), "\tgatehouse\n}", "\tgatehouse\n\tlog\n}", 1)
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatalf("adapt: %v", err)
	}
	if err := caddy.Load(raw, true); err != nil {
		t.Fatalf("load: %v", err)
	}
	const canary = "a-value-that-no-log-may-hold"
	_, port, _ := strings.Cut(s.Addr, ":")
	for name, send := range map[string]func(*http.Request){
		"query":            nil,
		"page-with-a-hint": func(r *http.Request) { r.Header.Set("Referer", s.Issuer()+"/oauth/logout?id_token_hint="+canary) },
		"page-in-a-mad-query": func(r *http.Request) {
			r.Header.Set("Referer", s.Issuer()+"/oauth/authorize?x=%zz&id_token_hint="+canary)
		},
		"no-page":              func(r *http.Request) { r.Header.Set("Referer", "::"+canary) },
		"another-host":         func(r *http.Request) { r.Host, r.URL.RawQuery = "localhost:1"+port[:2], "token="+canary },
		"health":               func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/healthz", "code="+canary },
		"query-of-a-form":      func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/oauth/token", "client_secret="+canary },
		"query-hard-to-decode": func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/oauth/logout", "id_token_hint="+canary+"&x=%zz" },
		"code-of-a-device":     func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/device", "user_code="+canary },
		"sign-out":             func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/saml/partner/slo", "SAMLRequest="+canary },
		"artifact":             func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/saml/partner/acs", "SAMLart="+canary },
	} {
		r := s.Request(http.MethodGet, s.Issuer()+"/"+name, nil)
		if send == nil {
			r.URL.RawQuery = "refresh_token=" + canary
		} else {
			send(r)
		}
		s.Do(r)
	}
	log, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, canary) {
			t.Errorf("a secret is in the log: %s", line)
		}
		if strings.Contains(line, "kept out of the access log") && !strings.Contains(line, `"client_ip":"127.0.0.1"`) &&
			!strings.Contains(line, `"client_ip":"::1"`) {
			t.Errorf("a line says nothing of who sent the request: %s", line)
		}
	}
	if n := strings.Count(string(log), "kept out of the access log"); n != 11 {
		t.Errorf("%d lines take the place of 11 requests", n)
	}
}
