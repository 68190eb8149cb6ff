package caddymodule_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	if err := caddy.Load(loggedRequests(t, s), true); err != nil {
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
		"signed-response":      func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/oidc/partner/callback", "response="+canary },
		"signed-request":       func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/oauth/authorize", "request="+canary },
		"device":               func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/oauth/token", "device_code="+canary },
		"token-for-a-token":    func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/oauth/token", "subject_token="+canary },
		"token-of-an-actor":    func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/oauth/token", "actor_token="+canary },
		"sign-out-elsewhere":   func(r *http.Request) { r.URL.Path, r.URL.RawQuery = "/oidc/partner/logout", "logout_token="+canary },
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
	if n := strings.Count(string(log), "kept out of the access log"); n != 17 {
		t.Errorf("%d lines take the place of 17 requests", n)
	}
}

// A signed response (JARM) has the code inside, so the Location that takes it to the client is a secret as a whole.
func TestAccessLogHoldsNoSignedResponse(t *testing.T) {
	application := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(application.Close)
	s := servertest.NewServer(t)
	s.Extra = "client signed {\n\t\t\tsecret a-secret-of-the-client-of-this-test\n\t\t\tredirect_uris " + application.URL +
		"/in\n\t\t\tgrants authorization_code\n\t\t\tscopes openid\n\t\t\tconsent off\n\t\t}"
	file := filepath.Join(s.Dir, "log")
	s.Options = "log {\n\t\toutput file " + file + "\n\t}"
	if err := caddy.Load(loggedRequests(t, s), true); err != nil {
		t.Fatalf("load: %v", err)
	}
	digest := sha256.Sum256([]byte(strings.Repeat("v", 43)))
	ask := url.Values{
		"client_id": {"signed"}, "redirect_uri": {application.URL + "/in"}, "response_type": {"code"}, "scope": {"openid"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(digest[:])}, "code_challenge_method": {"S256"},
	}
	b := servertest.NewBrowser(t)
	for i, mode := range []string{"jwt", "query.jwt", "fragment.jwt"} {
		ask.Set("response_mode", mode)
		target := s.Issuer() + "/oauth/authorize?" + ask.Encode()
		if i == 0 {
			b.SignIn(target)
		} else {
			b.Open(target)
		}
		_, response, sent := strings.Cut(b.Hops[len(b.Hops)-1], "response=")
		if !sent {
			t.Fatalf("response_mode %s: no signed response: %q", mode, b.Hops)
		}
		log, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(log), response) {
			t.Errorf("attack 7146: response_mode %s: the access log has the response", mode)
		}
	}
}

// loggedRequests returns the configuration of a server whose issuer has an access log.
func loggedRequests(t *testing.T, s *servertest.Server) []byte {
	t.Helper()
	config := strings.Replace(s.Caddyfile(), "\tgatehouse\n}", "\tgatehouse\n\tlog\n}", 1)
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatalf("adapt: %v", err)
	}
	return raw
}
