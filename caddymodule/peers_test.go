package caddymodule_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// An authorization service that a gateway asks: what cannot be decided is no yes.
func TestPeersPermission(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	t.Run("peer 1: asking for permission without being a proxy that may", func(t *testing.T) {
		for _, path := range []string{
			"/oauth/forward-auth", "/oauth/forward-auth?login", "/oauth/forward-auth?login&proxy=nginx",
			"/oauth/ext-authz", "/oauth/x", "/outpost.goauthentik.io/auth/nginx",
		} {
			for _, header := range []string{"", "X-Original-URI", "X-Original-URL", "X-Forwarded-Uri"} {
				r := s.Request(http.MethodGet, s.Issuer()+path, nil)
				if header != "" {
					r.Header.Set(header, "/oauth/x")
				}
				if res, _ := s.Do(r); res.StatusCode < http.StatusBadRequest {
					t.Errorf("%s with %s = %d, want a refusal", path, header, res.StatusCode)
				}
			}
		}
	})
	t.Run("peer 39: Authorization without a value, of another kind, twice", func(t *testing.T) {
		credentials := [][]string{
			{"Bearer"},
			{"Bearer "},
			{"bearer  "},
			{"Basic"},
			{"Basic "},
			{"Basic ="},
			{"Basic Og=="},
			{"DPoP"},
			{"DPoP "},
			{"Negotiate"},
			{"Digest username"},
			{""},
			{" "},
			{","},
			{"="},
			{"Bearer", "Bearer"},
			{"Bearer x", "Basic eDp5"},
			{"Basic eDp5", "Basic eDp5"},
			{"Bearer \xff"},
			{strings.Repeat("B", 4000)},
		}
		for _, target := range []string{
			"GET /oauth/userinfo", "POST /oauth/userinfo", "POST /oauth/token", "POST /oauth/revoke", "POST /oauth/api/v2/token/introspect",
			"POST /oauth/api/v1/token/introspect", "GET /oauth/api/v1/users/x/tokens",
			"GET /api/v2/config", "POST /api/v2/config", "GET /api/config", "GET /api/events?limit=1&offset=0", "POST /api/credentials",
			"GET /scim/v2/Users", "POST /scim/v2/Bulk", "GET /scim/v2/Groups", "POST /api/persons/x/tokens",
			"GET /oauth/logout", "GET /oauth/authorize", "GET /account", "GET /sign-in", "GET /healthz", "GET /oauth/jwks",
		} {
			method, path, _ := strings.Cut(target, " ")
			for _, values := range credentials {
				r := s.Request(method, s.Issuer()+path, nil)
				r.Header["Authorization"] = values
				if strings.Contains(values[0], "\xff") {
					r.Header["Authorization"] = []string{"Bearer é"}
				}
				res, body := s.Do(r)
				if res.StatusCode >= http.StatusInternalServerError || strings.Contains(body, "panic") {
					t.Errorf("%s with %.40q = %d %s", target, values, res.StatusCode, body)
				}
				api := strings.Contains(path, "/api/") || strings.Contains(path, "/scim/") || strings.HasSuffix(path, "userinfo")
				if api && res.StatusCode < http.StatusBadRequest {
					t.Errorf("%s with %.40q = %d, want a refusal", target, values, res.StatusCode)
				}
			}
		}
		for _, values := range credentials {
			r := s.Request(http.MethodGet, "http://"+s.API+"/", nil)
			r.Header["Authorization"] = values
			if strings.Contains(values[0], "\xff") {
				continue
			}
			if res, body := s.Do(r); res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusBadRequest {
				t.Errorf("protect with %.40q = %d %s, want 401 or 400", values, res.StatusCode, body)
			}
		}
	})
	t.Run("peer 49: headers by which a proxy names another host", func(t *testing.T) {
		changing := regexp.MustCompile(`name="csrf" value="[^"]*"|flow=[\w-]+|reference: [A-Z0-9-]+|"ref":"[^"]*"`)
		read := func(path, header, value string) string {
			r := s.Request(http.MethodGet, s.Issuer()+path, nil)
			if header != "" {
				r.Header.Set(header, value)
			}
			res, body := s.Do(r)
			return changing.ReplaceAllString(res.Status+" "+res.Header.Get("Location")+" "+body, "")
		}
		names := []string{
			"Forwarded", "X-Forwarded-Host", "X-Forwarded-Server", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Path",
			"X-Forwarded-Uri", "X-Forwarded-Scheme", "X-Forwarded-Ssl",
			"X-Forwarded-By", "X-Forwarded-For", "X-Forwarded", "X-Host", "X-Original-Host", "X-Original-Url", "X-Original-Uri", "X-Rewrite-Url",
			"X-HTTP-Host-Override", "X-Http-Host", "X-Url-Scheme",
			"X-Scheme", "Front-End-Https", "X-Proxy-Url", "X-ProxyUser-Ip", "X-Real-Ip", "X-Real-Host", "X-Client-Ip", "X-Cluster-Client-Ip",
			"True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip",
			"X-Zitadel-Forward-Host", "X-Zitadel-Instance-Host", "X-Zitadel-Public-Host", "X-Envoy-Original-Path", "X-Envoy-External-Address",
			"X-Azure-Fdid", "X-Wap-Profile", "X-Backend-Host", "Base-Url", "Destination",
		}
		for _, path := range []string{
			"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/oauth/jwks", "/sign-out",
			"/nothing", "/account", "/oauth/authorize?client_id=x",
		} {
			want := read(path, "", "")
			for _, name := range names {
				for _, value := range []string{"evil.example", "for=1.2.3.4;host=evil.example;proto=https", "https", "/evil"} {
					if got := read(path, name, value); got != want {
						t.Errorf("%s with %s: %s is %s, want %s", path, name, value, got, want)
					}
				}
			}
		}
	})
}

// A part of the configuration cannot be had. The site must not be served without its protection.
func TestPeersMissingParts(t *testing.T) {
	s := servertest.NewServer(t)
	t.Run("peer 12: what protect needs cannot be loaded", func(t *testing.T) {
		for name, site := range map[string]string{
			"groups": "groups {$GATEHOUSE_NOT_SET}", "groups at run time": "groups {env.GATEHOUSE_NOT_SET}",
			"a file of groups": "groups {file./nonexistent/groups}", "scopes": "scopes {env.GATEHOUSE_NOT_SET}",
			"level": "level {env.GATEHOUSE_NOT_SET}", "partition": "partition {env.GATEHOUSE_NOT_SET}",
			"audience": "audience {env.GATEHOUSE_NOT_SET}", "public": "public {env.GATEHOUSE_NOT_SET}",
			"another authorization server": "introspect https://auth.example.com/x",
			"its secret":                   "introspect https://auth.example.com/x {\n\t\t\tclient ops {env.GATEHOUSE_NOT_SET}\n\t\t}",
			"a header":                     "headers {env.GATEHOUSE_NOT_SET} sub", "an empty list": "groups",
		} {
			s.Site = "protect {\n\t\t" + site + "\n\t}"
			if err := s.TryLoad(); err == nil {
				t.Errorf("%s: the configuration is served", name)
				r := s.Request(http.MethodGet, "http://"+s.API+"/", nil)
				if res, body := s.Do(r); res.StatusCode < http.StatusBadRequest {
					t.Errorf("%s: the site answers %d %s", name, res.StatusCode, body)
				}
			}
		}
		// A policy can be in the storage, which is known after the start: the site is served, and refuses everybody.
		s.Site = "protect {\n\t\tpolicy staff\n\t\tpublic /\n\t}"
		if err := s.TryLoad(); err != nil {
			t.Errorf("a policy: %v", err)
		} else if res, body := s.Do(s.Request(http.MethodGet, "http://"+s.API+"/", nil)); res.StatusCode != http.StatusForbidden {
			t.Errorf("a policy: the site answers %d %s, want 403", res.StatusCode, body)
		}
		s.Site = ""
		for name, more := range map[string]string{
			"a secret":           "client late {\n\t\t\tsecret {env.GATEHOUSE_NOT_SET}\n\t\t\tgrants client_credentials\n\t\t\tscopes a\n\t\t}",
			"a secret in a file": "api_client late {\n\t\t\tsecret {file./nonexistent/secret}\n\t\t\tapis events\n\t\t}",
		} {
			s.Extra = more
			if err := s.TryLoad(); err == nil {
				t.Errorf("%s: the configuration is served", name)
			}
		}
		// Metadata can come later: the rest is served, and the provider signs in no one.
		s.Extra = "idp late saml {\n\t\t\tmetadata /nonexistent/metadata.xml\n\t\t}"
		s.MustLoad()
		s.WantFinding("warning", "Caddyfile:", "idp late: no one can sign in")
		s.Transport.CloseIdleConnections() // those of the configuration before
		if res, body := s.Do(s.Request(http.MethodGet, "http://"+s.API+"/", nil)); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("without metadata: %d %s, want 401", res.StatusCode, body)
		}
		s.Extra = ""
		// So can the key that asks another authorization server: the rest is served, and the site lets no one in.
		s.Site = "protect {\n\t\tintrospect https://auth.example.com/x {\n\t\t\tclient ops\n\t\t\tkey /nonexistent/key.pem\n\t\t}\n\t}"
		s.MustLoad()
		s.WantFinding("warning", "Caddyfile:", "introspect key", "/nonexistent/key.pem")
		s.Transport.CloseIdleConnections() // those of the configuration before
		for auth, want := range map[string]int{"": http.StatusUnauthorized, "Bearer of-another-server": http.StatusServiceUnavailable} {
			r := s.Request(http.MethodGet, "http://"+s.API+"/", nil)
			r.Header.Set("Authorization", auth)
			if res, body := s.Do(r); res.StatusCode != want {
				t.Errorf("without the key of introspect: Authorization %q: %d %s, want %d", auth, res.StatusCode, body, want)
			}
		}
		s.Site = ""
		s.MustLoad()
		s.Transport.CloseIdleConnections() // those of the configuration before
		if res, body := s.Do(s.Request(http.MethodGet, "http://"+s.API+"/", nil)); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("with all its parts: %d %s, want 401", res.StatusCode, body)
		}
	})
}
