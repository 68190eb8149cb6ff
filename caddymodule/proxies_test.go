package caddymodule_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestAddressBehindAProxyThatAppends tells the attack of a client that writes an address of its own into
// X-Forwarded-For, to which the proxy appends the true one.
func TestAddressBehindAProxyThatAppends(t *testing.T) {
	s := servertest.NewServer(t)
	s.Options = "servers {\n\t\ttrusted_proxies static 127.0.0.1/32\n\t}"
	s.Site = "protect orders.read {\n\t\tdeny {\n\t\t\tmatch client_ip 203.0.113.0/24\n\t\t}\n\t}"
	s.MustLoad()
	token := s.Token()
	for forwarded, want := range map[string]int{
		"203.0.113.9":                        http.StatusForbidden,
		"192.0.2.1, 203.0.113.9":             http.StatusForbidden,
		"192.0.2.1, 203.0.113.9, 127.0.0.1":  http.StatusForbidden,
		"203.0.113.9, 192.0.2.1":             http.StatusOK,
		"192.0.2.1":                          http.StatusOK,
		"not an address, 203.0.113.9":        http.StatusForbidden,
		"2001:db8::1, 2001:db8::2, 10.0.0.1": http.StatusOK,
	} {
		r := s.Request(http.MethodGet, "http://"+s.API+"/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("X-Forwarded-For", forwarded)
		if resp, body := s.Do(r); resp.StatusCode != want {
			t.Errorf("X-Forwarded-For %q: status = %d, want %d; %s", forwarded, resp.StatusCode, want, body)
		}
	}
}

// TestAddressInTheFormOfIPv6: a proxy that listens on IPv6 alone writes the address of a client of IPv4 in the form of
// IPv6.
func TestAddressInTheFormOfIPv6(t *testing.T) {
	s := servertest.NewServer(t)
	s.Options = "servers {\n\t\ttrusted_proxies static 127.0.0.1/32\n\t}"
	s.Site = "protect orders.read {\n\t\tdeny {\n\t\t\tmatch client_ip 203.0.113.0/24\n\t\t}\n\t}"
	s.MustLoad()
	token := s.Token()
	for name, tt := range map[string]struct {
		forwarded string
		want      int
	}{
		"attack 3620: mapped":          {"::ffff:203.0.113.9", http.StatusForbidden},
		"attack 3620: in hexadecimals": {"192.0.2.1, ::ffff:cb00:7109", http.StatusForbidden},
		"attack 3620: with a port":     {"[::ffff:203.0.113.9]:4711", http.StatusForbidden},
		"mapped, of another network":   {"::ffff:203.0.113.9, ::ffff:192.0.2.1", http.StatusOK},
		"of IPv6, which ends like it":  {"2001:db8::cb00:7109", http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.Request(http.MethodGet, "http://"+s.API+"/", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("X-Forwarded-For", tt.forwarded)
			if resp, body := s.Do(r); resp.StatusCode != tt.want {
				t.Errorf("X-Forwarded-For %q: status = %d, want %d; %s", tt.forwarded, resp.StatusCode, tt.want, body)
			}
		})
	}
}

// TestEnvoyNamesItsGateOverHTTP: the name stands in front of all that is the client's, who cannot choose another one.
func TestEnvoyNamesItsGateOverHTTP(t *testing.T) {
	s := servertest.NewWalk(t)
	config := s.Config
	_, port, _ := strings.Cut(s.Addr, ":")
	s.Config = func() string {
		return config() + fmt.Sprintf("\nhttp://api.test:%s, http://other.test:%s {\n\tgatehouse\n}\n", port, port)
	}
	s.Extra = "forward_auth_from 127.0.0.1\n\t\tforward_auth api {\n\t\t\torigins https://api.test:" + port +
		"\n\t\t\tscopes orders.read\n\t\t}\n" +
		"\t\tpolicy readers {\n\t\t\tallow {\n\t\t\t\tmatch method GET\n\t\t\t}\n\t\t}\n\t\tpolicy nobody {\n\t\t\tallow {\n\t\t\t\tneed person none\n\t\t\t}\n\t\t}"
	s.Reload()
	token := s.Token()
	for _, tt := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "/oauth/ext-authz/x", "api.test", 200},
		{"GET", "/oauth/ext-authz/x", "other.test", 400},
		{"GET", "/oauth/policy/api/ext-authz/x", "api.test", 200},
		{"GET", "/oauth/policy/api/ext-authz/x", "other.test", 400},
		{"GET", "/oauth/policy/readers/ext-authz/x", "other.test", 200},
		{"POST", "/oauth/policy/readers/ext-authz/x", "other.test", 403},
		{"GET", "/oauth/policy/nobody/ext-authz/x", "other.test", 403},
		{"GET", "/oauth/policy/nobody/ext-authz/oauth/policy/readers/ext-authz/x", "other.test", 403},
		{"GET", "/oauth/policy/nobody/ext-authz/../../readers/ext-authz/x", "other.test", 403},
		{"GET", "/oauth/ext-authz/../policy/readers/ext-authz/x", "other.test", 400},
		{"GET", "/oauth/policy/unknown/ext-authz/x", "other.test", 400},
	} {
		r := s.Request(tt.method, "http://"+s.Addr+tt.path, nil)
		r.Host = tt.host + ":" + port
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header.Set("X-Forwarded-For", "192.0.2.7")
		resp, body := s.Do(r)
		decision := map[bool]string{true: "allow", false: "deny"}[tt.want == http.StatusOK]
		if resp.StatusCode != tt.want || resp.Header.Get("Gatehouse-Decision") != decision {
			t.Errorf("%s %s about %s: status = %d, decision %q, want %d and %s; %s", tt.method, tt.path, tt.host, resp.StatusCode,
				resp.Header.Get("Gatehouse-Decision"), tt.want, decision, body)
		}
	}
}
