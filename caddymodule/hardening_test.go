package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// A browser that opens an https issuer is held to https from then on, and its pages allow nothing that they do not
// need. A proxy in front ends TLS here.
func TestHeadersOfHTTPSIssuer(t *testing.T) {
	s := servertest.NewServer(t)
	_, port, _ := strings.Cut(s.Addr, ":")
	text := strings.Replace(s.Caddyfile(), "issuer "+s.Issuer(), "issuer https://auth.example.com", 1)
	text = strings.Replace(text, "\nhttp://"+s.Addr+" {", "\nhttp://auth.example.com:"+port+" {", 1)
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(raw, true); err != nil {
		t.Fatal(err)
	}
	ask := func(path string) http.Header {
		t.Helper()
		r := s.Request(http.MethodGet, "http://"+s.Addr+path, nil)
		r.Host = "auth.example.com"
		res, _ := s.Do(r)
		if res.StatusCode == http.StatusMisdirectedRequest {
			t.Fatalf("%s = 421", path)
		}
		return res.Header
	}
	for _, path := range []string{
		"/sign-in", "/account", "/healthz", "/.well-known/openid-configuration", "/oauth/authorize",
		"/scim/v2/Users", "/nothing", "/oauth/jwks",
	} {
		if h := ask(path); h.Get("Strict-Transport-Security") != "max-age=31536000" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers = %q, want HSTS and nosniff", path, h)
		}
	}
	for _, path := range []string{"/sign-out", "/nothing"} {
		h := ask(path)
		for name, want := range map[string]string{
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Permissions-Policy": "camera=()",
		} {
			if got := h.Get(name); !strings.Contains(got, want) {
				t.Errorf("%s: %s = %q, want %q", path, name, got, want)
			}
		}
	}
}

// The issuer of a developer's machine does not hold every port of localhost to https.
func TestHeadersOfLoopbackIssuer(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	res, _ := s.Do(s.Request(http.MethodGet, s.Issuer()+"/sign-in", nil))
	if got := res.Header.Values("Strict-Transport-Security"); len(got) > 0 {
		t.Errorf("Strict-Transport-Security = %q, want none", got)
	}
}
