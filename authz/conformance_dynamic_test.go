package authz_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

// stranger is a client that registers itself, with what it publishes at rp.example.
type stranger struct {
	*authztest.Harness
	t  *testing.T
	b  *authztest.Browser
	id string

	mu        sync.Mutex        // guards what follows
	published map[string]string // by path
	asked     []string          // addresses that were fetched
}

const strangerRedirect = "https://rp.example/cb"

// RoundTrip implements http.RoundTripper: it is where documents are fetched from.
func (s *stranger) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.String())
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	if text := s.published[r.URL.Path]; text == "" || r.URL.Host != "rp.example" {
		w.WriteHeader(http.StatusNotFound)
	} else {
		w.WriteString(text) //nolint:errcheck // to memory
	}
	return w.Result(), nil
}

func (s *stranger) publish(path string, v any) {
	s.t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published[path] = string(raw)
}

// register registers with these members besides the redirect URI.
func (s *stranger) register(members authztest.Object) map[string]any {
	s.t.Helper()
	all := authztest.Object{"redirect_uris": []string{strangerRedirect}}
	for name, v := range members {
		all[name] = v
	}
	raw, err := json.Marshal(all)
	if err != nil {
		s.t.Fatal(err)
	}
	got := authztest.MustRegister(s.t, s.Harness, string(raw))
	s.id, _ = got["client_id"].(string)
	return got
}

// params are those of an authorization request.
func (s *stranger) params(redirect, scope string) url.Values {
	v := authztest.RegisteredParams(s.id, redirect, scope)
	v.Del("resource")
	return v
}

// code runs an authorization request. An empty value removes a parameter.
func (s *stranger) code(scope string, changes ...string) string {
	s.t.Helper()
	v := s.params(strangerRedirect, scope)
	for i := 0; i+1 < len(changes); i += 2 {
		v.Set(changes[i], changes[i+1])
	}
	target, params := s.b.Follow("/oauth/authorize?" + v.Encode()).Redirect()
	if target != strangerRedirect || params.Get("code") == "" {
		s.t.Fatalf("authorize = %s %v, want a code; log: %s", target, params, s.Log())
	}
	return params.Get("code")
}

// tokens redeems a code with the secret of the registration.
func (s *stranger) tokens(got map[string]any, code string) *authztest.Response {
	s.t.Helper()
	text, _ := got["client_secret"].(string)
	res := authztest.RedeemRegistered(s.Harness, s.id, code, strangerRedirect, authztest.Basic(s.id, text)...)
	authztest.WantStatus(s.t, "token", res, http.StatusOK)
	return res
}

// assertion authenticates a form by a key.
func (s *stranger) assertion(k *authztest.Signer, f url.Values) url.Values {
	s.t.Helper()
	k.Client.ID = s.id
	f.Set("client_assertion_type", authztest.AssertionType)
	f.Set("client_assertion", k.Sign(s.t, k.Claims(s.Harness), ""))
	return f
}

func (s *stranger) codeForm(code string) url.Values {
	return url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {strangerRedirect},
		"code_verifier": {authztest.Verifier},
	}
}

// TestConformanceDynamic runs the modules of the plan Dynamic OP: each client registers itself.
func TestConformanceDynamic(t *testing.T) {
	t.Parallel()
	for plan, modules := range map[string]map[string]func(*stranger){
		"oidcc-dynamic-certification-test-plan": dynamicPlan, "oidcc-3rdparty-init-login-certification-test-plan": initiatedPlan,
	} {
		for module, run := range modules {
			t.Run(plan+"/"+module, func(t *testing.T) {
				t.Parallel()
				s := &stranger{t: t, published: map[string]string{}}
				s.Harness = authztest.New(t, authztest.WithAddresses(), authztest.WithHTTP(&http.Client{Transport: s}),
					authztest.WithConfig(func(c *authz.Config) {
						c.Registration.Who, c.Registration.Management = "open", true
						c.Registration.RedirectHosts = []string{"rp.example"} // which errors are redirected to
					}))
				s.b = s.Browser(authztest.Demo)
				run(s)
				s.Invariants(t)
			})
		}
	}
}

// redirects runs a request with a redirect URI where another is registered.
func redirects(registered, sent, want string) func(*stranger) {
	return func(s *stranger) {
		s.register(authztest.Object{"redirect_uris": []string{registered}})
		res := s.b.Follow("/oauth/authorize?" + s.params(sent, "openid").Encode())
		target, params := res.Redirect()
		if want == "" && (res.Status != http.StatusBadRequest || res.Location() != "") || target != want ||
			(want != "") != (params.Get("code") != "" && params.Get("foo") == "bar") {
			s.t.Errorf("authorize = %d %s, want a code at %q", res.Status, res.Location(), want)
		}
	}
}

// initiatedPlan is oidcc-3rdparty-init-login-certification-test-plan: our pages lead to where a sign-in begins.
var initiatedPlan = map[string]func(*stranger){
	"oidcc-3rd_party-init-login": func(s *stranger) {
		got := s.register(authztest.Object{"initiate_login_uri": "https://rp.example/login?from=op"})
		if got["initiate_login_uri"] != "https://rp.example/login?from=op" {
			s.t.Errorf("the registration answers %v", got["initiate_login_uri"])
		}
		s.tokens(got, s.code("openid"))
		list := applications(s.t, s.Harness, authztest.Demo)
		if len(list) != 1 || list[0].Start != "https://rp.example/login?from=op&iss="+url.QueryEscape(s.Issuer) {
			s.t.Fatalf("the applications of the person are %+v, want one that begins a sign-in with our issuer", list)
		}
		s.tokens(got, s.code("openid")) // which the client does there
	},
	"oidcc-3rd_party-init-login-nohttps": func(s *stranger) {
		for name, uri := range map[string]string{
			"http": "http://rp.example/login", "a script": "javascript:alert(1)", "another host": "https://evil.example/login",
			"another port": "https://rp.example:8443/login",
			"a path alone": "/login", "credentials": "https://user@rp.example/login", "a fragment": "https://rp.example/login#x",
		} {
			raw := `{"redirect_uris":["` + strangerRedirect + `"],"initiate_login_uri":"` + uri + `"}`
			if res := authztest.Registers(s.Harness, raw); res.Status != http.StatusBadRequest {
				s.t.Errorf("%s: the registration = %d %s, want it refused", name, res.Status, res.Body)
			}
		}
	},
}

// dynamicPlan is oidcc-dynamic-certification-test-plan.
var dynamicPlan = map[string]func(*stranger){
	"oidcc-redirect-uri-query-OK":       redirects(strangerRedirect+"?foo=bar", strangerRedirect+"?foo=bar", strangerRedirect),
	"oidcc-redirect-uri-query-mismatch": redirects(strangerRedirect+"?foo=bar", strangerRedirect+"?bar=foo", ""),
	"oidcc-redirect-uri-query-added":    redirects(strangerRedirect+"?foo=bar", strangerRedirect+"?foo=bar&bar=foo", ""),
	"oidcc-redirect-uri-regfrag": func(s *stranger) {
		if res := authztest.Registers(s.Harness, `{"redirect_uris":["https://rp.example/cb#foobar"]}`); res.Status != http.StatusBadRequest ||
			!strings.Contains(res.Body, `"invalid_redirect_uri"`) {
			s.t.Errorf("register = %d %s, want invalid_redirect_uri", res.Status, res.Body)
		}
	},
	"oidcc-ensure-redirect-uri-in-authorization-request": func(s *stranger) {
		s.register(authztest.Object{"redirect_uris": []string{strangerRedirect, strangerRedirect + "/other"}})
		v := s.params("", "openid")
		v.Del("redirect_uri")
		if res := s.b.Follow("/oauth/authorize?" + v.Encode()); res.Status != http.StatusBadRequest || res.Location() != "" {
			s.t.Errorf("authorize without redirect_uri = %d %s, want an error page", res.Status, res.Location())
		}
	},
	"oidcc-discovery-endpoint-verification": func(s *stranger) {
		doc := s.Get("/.well-known/openid-configuration").JSON()
		if doc["registration_endpoint"] != s.Issuer+"/oauth/register" || doc["issuer"] != s.Issuer {
			s.t.Errorf("discovery = %v, want the registration endpoint", doc)
		}
	},
	"oidcc-server": func(s *stranger) {
		for range 2 {
			res := s.tokens(s.register(nil), s.code("openid"))
			claims := authztest.IDClaimsFor(s.t, s.Harness, res.Text("id_token"), s.id)
			if info := s.Get("/oauth/userinfo", "Authorization", "Bearer "+res.Text("access_token")); info.Text("sub") != claims["sub"] ||
				claims["sub"] == "" {
				s.t.Errorf("userinfo = %d %s, want the sub of %v", info.Status, info.Body, claims)
			}
		}
	},
	"oidcc-idtoken-rs256": func(s *stranger) {
		got := s.register(authztest.Object{"id_token_signed_response_alg": "RS256"})
		if alg := jwtHeader(s.t, s.tokens(got, s.code("openid")).Text("id_token"))["alg"]; alg != "RS256" ||
			got["id_token_signed_response_alg"] != "RS256" {
			s.t.Errorf("ID token is signed with %s after the registration %v", alg, got)
		}
	},
	"oidcc-idtoken-unsigned": func(s *stranger) { // not offered, so refused
		res := authztest.Registers(s.Harness, `{"redirect_uris":["`+strangerRedirect+`"],"id_token_signed_response_alg":"none"}`)
		algs := s.Get("/.well-known/openid-configuration").JSON()["id_token_signing_alg_values_supported"]
		if res.Status != http.StatusBadRequest || slices.Contains(algs.([]any), any("none")) {
			s.t.Errorf("register = %d %s with the algorithms %v, want none of them to be none", res.Status, res.Body, algs)
		}
	},
	"oidcc-userinfo-rs256": func(s *stranger) {
		got := s.register(authztest.Object{"userinfo_signed_response_alg": "RS256"})
		tokens := s.tokens(got, s.code("openid"))
		res := s.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Text("access_token"))
		if header := jwtHeader(s.t, res.Body); header["alg"] != "RS256" ||
			!strings.HasPrefix(res.Header.Get("Content-Type"), "application/jwt") || got["userinfo_signed_response_alg"] != "RS256" {
			s.t.Fatalf("userinfo = %d %s %s after the registration %v, want a JWT", res.Status, res.Header.Get("Content-Type"), res.Body, got)
		}
		claims := authztest.IDClaimsFor(s.t, s.Harness, tokens.Text("id_token"), s.id)
		if _, info := authztest.ReadSigned(s.t, s.Harness, res.Body, jose.RS256); info["sub"] != claims["sub"] ||
			info["iss"] != s.Issuer || info["aud"] != s.id {
			s.t.Errorf("userinfo says %v, want iss, aud and the sub of %v", info, claims)
		}
	},
	"oidcc-registration-jwks-uri": func(s *stranger) {
		k := authztest.NewSigner(s.t, "rp", jose.RS256)
		s.publish("/jwks", k.Set())
		got := s.register(authztest.Object{"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://rp.example/jwks"})
		authztest.WantStatus(s.t, "token", s.Post("/oauth/token", s.assertion(k, s.codeForm(s.code("openid")))), http.StatusOK)
		if got["jwks_uri"] != "https://rp.example/jwks" || got["jwks"] != nil || !slices.Equal(s.asked, []string{"https://rp.example/jwks"}) {
			s.t.Errorf("registration = %v; fetched %q, want jwks_uri once", got, s.asked)
		}
	},
	"oidcc-refresh-token-rp-key-rotation": func(s *stranger) {
		old, next := authztest.NewSigner(s.t, "first", jose.RS256), authztest.NewSigner(s.t, "second", jose.RS256)
		s.publish("/jwks", old.Set())
		s.register(authztest.Object{
			"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://rp.example/jwks",
			"grant_types": []string{"authorization_code", "refresh_token"},
		})
		res := s.Post("/oauth/token", s.assertion(old, s.codeForm(s.code("openid offline_access", "prompt", "consent"))))
		authztest.WantStatus(s.t, "token", res, http.StatusOK)
		s.publish("/jwks", next.Set())
		s.Clock.Advance(61 * time.Second)
		res = s.Post("/oauth/token", s.assertion(next, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {res.Text("refresh_token")}}))
		if authztest.WantStatus(s.t, "refresh with the new key", res, http.StatusOK); res.Text("access_token") == "" {
			s.t.Errorf("refresh = %s", res.Body)
		}
	},
	"oidcc-ensure-client-assertion-with-iss-aud-succeeds": func(s *stranger) {
		k := authztest.NewSigner(s.t, "rp", jose.RS256)
		s.register(authztest.Object{"token_endpoint_auth_method": "private_key_jwt", "jwks": k.Set()})
		authztest.WantStatus(s.t, "token", s.Post("/oauth/token", s.assertion(k, s.codeForm(s.code("openid")))), http.StatusOK)
	},
	"oidcc-server-rotate-keys": func(s *stranger) {
		kids := func() (kids []string) {
			var set jose.JSONWebKeySet
			if err := json.Unmarshal([]byte(s.Get("/oauth/jwks").Body), &set); err != nil {
				s.t.Fatal(err)
			}
			for _, key := range set.Keys {
				kids = append(kids, key.KeyID)
			}
			return kids
		}
		before := kids()
		if err := s.Keys.Rotate(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		after := kids()
		if len(after) != 2*len(before) || slices.ContainsFunc(before, func(kid string) bool { return !slices.Contains(after, kid) }) {
			s.t.Errorf("keys %q, and after a rotation %q: want a new one beside each", before, after)
		}
		s.tokens(s.register(nil), s.code("openid"))
	},
	"oidcc-refresh-token": func(s *stranger) {
		got := s.register(authztest.Object{"grant_types": []string{"authorization_code", "refresh_token"}})
		text, _ := got["client_secret"].(string)
		first := s.tokens(got, s.code("openid offline_access", "prompt", "consent"))
		before := authztest.IDClaimsFor(s.t, s.Harness, first.Text("id_token"), s.id)
		s.Clock.Advance(time.Minute)
		f := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {first.Text("refresh_token")}}
		authztest.WantError(s.t, "another client", s.Post("/oauth/token", f, authztest.Basic("other", authztest.Secret("other"))...),
			http.StatusBadRequest, "invalid_grant")
		res := s.Post("/oauth/token", f, authztest.Basic(s.id, text)...)
		authztest.WantStatus(s.t, "refresh", res, http.StatusOK)
		after := authztest.IDClaimsFor(s.t, s.Harness, res.Text("id_token"), s.id)
		for _, name := range []string{"iss", "sub", "aud", "auth_time"} {
			if before[name] != after[name] {
				s.t.Errorf("%s = %v after a refresh, want %v", name, after[name], before[name])
			}
		}
	},
	"oidcc-ensure-request-object-with-redirect-uri": func(s *stranger) {
		s.register(nil)
		v := s.params(strangerRedirect, "openid")
		v.Set("request", authztest.PlainObject(s.t,
			authztest.Object{"client_id": s.id, "redirect_uri": "https://evil.example/cb", "response_type": "code"}))
		if target, params := s.b.Follow("/oauth/authorize?" + v.Encode()).Redirect(); strings.Contains(target, "evil") ||
			params.Get("code") != "" || params.Get("error") != "request_not_supported" {
			s.t.Errorf("authorize = %s %v, want request_not_supported and nothing at the other address", target, params)
		}
	},
	"oidcc-request-uri-unsigned": func(s *stranger) { s.refusesReference(authztest.PlainObject(s.t, authztest.Object{"client_id": "x"})) },
	"oidcc-request-uri-signed-rs256": func(s *stranger) {
		s.refusesReference(authztest.NewSigner(s.t, "rp", jose.RS256).Sign(s.t, authztest.Object{"client_id": "x"}, authztest.RequestType))
	},
}

// refusesReference: a reference to a request object elsewhere is refused as the metadata say, and no one fetches it.
func (s *stranger) refusesReference(object string) {
	s.t.Helper()
	s.publish("/request.jwt", object)
	s.register(nil)
	v := s.params(strangerRedirect, "openid")
	v.Set("request_uri", "https://rp.example/request.jwt")
	target, params := s.b.Follow("/oauth/authorize?" + v.Encode()).Redirect()
	if target != strangerRedirect || params.Get("error") != "request_uri_not_supported" || len(s.asked) > 0 ||
		s.Get("/.well-known/openid-configuration").JSON()["request_uri_parameter_supported"] != false {
		s.t.Errorf("authorize = %s %v, fetched %q; want request_uri_not_supported", target, params, s.asked)
	}
}
