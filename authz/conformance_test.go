package authz_test

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

// suite is the server and relying party of one module.
type suite struct {
	*authztest.Harness
	t     *testing.T
	b     *authztest.Browser
	party *authztest.Party
	mode  string // response_mode. "": none is sent
}

// TestConformance runs the checks of the OpenID Foundation's conformance suite for providers: the plans Basic, Form
// Post, Config, RP-initiated logout, back-channel and front-channel logout. Each module is a subtest of its name below
// that of its plan; `make conformance` prints them.
func TestConformance(t *testing.T) {
	t.Parallel()
	for plan, modules := range map[string][]map[string]func(*suite){
		"oidcc-basic-certification-test-plan":          {basicPlan, parameterPlan},
		"oidcc-formpost-basic-certification-test-plan": {basicPlan, parameterPlan},
		"oidcc-config-certification-test-plan":         {configPlan}, "oidcc-rp-initiated-logout-certification-test-plan": {logoutPlan},
		"oidcc-backchannel-rp-initiated-logout-certification-test-plan":  {backchannelPlan},
		"oidcc-frontchannel-rp-initiated-logout-certification-test-plan": {frontchannelPlan},
	} {
		mode := ""
		if strings.Contains(plan, "formpost") {
			mode = "form_post"
		}
		for _, some := range modules {
			for module, run := range some {
				t.Run(plan+"/"+module, func(t *testing.T) {
					t.Parallel()
					p := authztest.NewParty(t)
					framed := authztest.PairwiseClient("framed", "framed.example.com")
					framed.SubjectType, framed.FrontchannelLogoutURI = "", "https://framed.example.com/frontchannel_logout"
					h := authztest.New(t, authztest.WithClients(p.Hears("listener"), framed))
					run(&suite{h, t, h.Browser(authztest.Demo), p, mode})
					h.Invariants(t)
				})
			}
		}
	}
}

// flow runs a code flow with client_secret_basic in the suite's browser, without PKCE as the suite does.
func (s *suite) flow(client string, with ...string) authztest.Tokens {
	s.t.Helper()
	return s.exchange(client, s.code(client, with...))
}

var withoutPKCE = []string{"code_challenge", "", "code_challenge_method", ""}

// authorize runs an authorization request to its answer.
func (s *suite) authorize(client string, with ...string) (target string, params url.Values) {
	s.t.Helper()
	return s.answer(s.b.Authorize(client, append([]string{"response_mode", s.mode}, with...)...))
}

// answer reads an authorization response, which must come in the way that was asked for.
func (s *suite) answer(res *authztest.Response) (target string, params url.Values) {
	s.t.Helper()
	if s.mode != "form_post" {
		return res.Redirect()
	}
	if res.Status != http.StatusOK || res.Location() != "" || !strings.Contains(res.Body, ` method="post"`) {
		s.t.Fatalf("authorize = %d %q %s, want a form that posts the answer", res.Status, res.Location(), res.Body)
	}
	return authztest.Form(res.Body)
}

func (s *suite) code(client string, with ...string) string {
	s.t.Helper()
	target, params := s.authorize(client, append(slices.Clone(withoutPKCE), with...)...)
	if params.Get("code") == "" || params.Get("state") != "the state" || !strings.HasSuffix(target, "/callback") {
		s.t.Fatalf("authorize(%q) = %s %v, want a code and the state at the redirect URI; log: %s", client, target, params, s.Log())
	}
	return params.Get("code")
}

func (s *suite) exchange(client, code string) authztest.Tokens {
	s.t.Helper()
	f := s.CodeForm(client, code)
	f.Del("code_verifier")
	res := s.Token(client, f)
	if res.Status != http.StatusOK || !strings.EqualFold(res.Text("token_type"), "bearer") || res.Header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("Token(%q) = %d %s", client, res.Status, res.Body)
	}
	return authztest.Tokens{Access: res.Text("access_token"), Refresh: res.Text("refresh_token"), ID: res.Text("id_token")}
}

// id verifies an ID token and returns its claims, those that OpenID Connect Core 2 requires among them.
func (s *suite) id(client string, tokens authztest.Tokens) map[string]any {
	s.t.Helper()
	claims := authztest.IDClaimsFor(s.t, s.Harness, tokens.ID, client)
	for _, name := range []string{"iss", "sub", "aud", "exp", "iat"} {
		if claims[name] == nil {
			s.t.Errorf("ID token has no %s", name)
		}
	}
	return claims
}

func (s *suite) userinfo(token string) map[string]any {
	s.t.Helper()
	res := s.Get("/oauth/userinfo", "Authorization", "Bearer "+token)
	if res.Status != http.StatusOK {
		s.t.Errorf("userinfo = %d %s", res.Status, res.Body)
	}
	return res.JSON()
}

// refused runs an authorization request that must fail by redirect with one of these errors.
func (s *suite) refused(with []string, codes ...string) {
	s.t.Helper()
	target, params := s.authorize("shop", with...)
	if target != "https://shop.example.com/callback" || !slices.Contains(codes, params.Get("error")) || params.Get("state") != "the state" {
		s.t.Errorf("Authorize(%q) = %s %v, want one of %v", with, target, params, codes)
	}
}

func (s *suite) discovery() map[string]any {
	s.t.Helper()
	return s.Get("/.well-known/openid-configuration").JSON()
}

// scope runs a flow with a scope, whose claims must come from userinfo.
func scope(asked string, claims ...string) func(*suite) {
	return func(s *suite) {
		info := s.userinfo(s.flow("shop", "scope", asked).Access)
		for _, name := range append(claims, "sub") {
			if info[name] == nil {
				s.t.Errorf("userinfo = %v, want %s in it", info, name)
			}
		}
	}
}

// accepted runs a flow with parameters that must not cause an error.
func accepted(with ...string) func(*suite) {
	return func(s *suite) { s.id("shop", s.flow("shop", with...)) }
}

// basicPlan are the modules of oidcc-basic-certification-test-plan about tokens.
var basicPlan = map[string]func(*suite){
	"oidcc-server": func(s *suite) {
		for _, client := range []string{"shop", "other"} {
			tokens := s.flow(client)
			claims := s.id(client, tokens)
			if claims["nonce"] != "the nonce" || s.userinfo(tokens.Access)["sub"] != claims["sub"] {
				s.t.Errorf("ID token of %s = %v, want its nonce and the sub of userinfo", client, claims)
			}
		}
	},
	"oidcc-response-type-missing": func(s *suite) {
		s.refused([]string{"response_type", ""}, "invalid_request", "unsupported_response_type")
	},
	"oidcc-idtoken-signature": func(s *suite) {
		header := jwtHeader(s.t, s.flow("shop").ID)
		if header["alg"] != "RS256" || !strings.Contains(s.Get("/oauth/jwks").Body, `"kid":"`+header["kid"]+`"`) {
			s.t.Errorf("ID token has header %v, want RS256 and a published kid", header)
		}
	},
	"oidcc-idtoken-unsigned": func(s *suite) { // not offered, so never given
		if algs, err := json.Marshal(s.discovery()["id_token_signing_alg_values_supported"]); err != nil ||
			strings.Contains(string(algs), "none") {
			s.t.Errorf("algorithms %s, want none of them to be none", algs)
		}
	},
	"oidcc-userinfo-get": func(s *suite) { s.userinfo(s.flow("shop").Access) },
	"oidcc-userinfo-post-header": func(s *suite) {
		res := s.Do(http.MethodPost, "/oauth/userinfo", "", "Authorization", "Bearer "+s.flow("shop").Access)
		authztest.WantStatus(s.t, "userinfo by POST", res, http.StatusOK)
	},
	"oidcc-userinfo-post-body": func(s *suite) {
		res := s.Post("/oauth/userinfo", url.Values{"access_token": {s.flow("shop").Access}})
		authztest.WantStatus(s.t, "userinfo by POST with the token in the body", res, http.StatusOK)
	},
	"oidcc-ensure-request-without-nonce-succeeds-for-code-flow": func(s *suite) {
		if claims := s.id("shop", s.flow("shop", "nonce", "")); claims["nonce"] != nil {
			s.t.Errorf("nonce = %v, which nobody sent", claims["nonce"])
		}
	},
	"oidcc-scope-profile": scope("openid profile", "name", "given_name", "family_name", "preferred_username", "updated_at"),
	"oidcc-scope-email":   scope("openid email", "email", "email_verified"),
	"oidcc-scope-address": scope("openid address", "address"),
	"oidcc-scope-phone":   scope("openid phone", "phone_number", "phone_number_verified"),
	"oidcc-scope-all":     scope("openid profile email address phone", "name", "email", "address", "phone_number"),
	"oidcc-alternate-happy-flow": func(s *suite) {
		params := s.Params("shop", append(slices.Clone(withoutPKCE), "response_mode", s.mode, "scope", "phone address email profile openid")...)
		var pairs []string
		for _, name := range []string{"state", "scope", "response_type", "response_mode", "redirect_uri", "nonce", "client_id"} {
			if !params.Has(name) {
				continue
			}
			pairs = append(pairs, name+"="+strings.ReplaceAll(url.QueryEscape(params.Get(name)), "+", "%20"))
		}
		_, answer := s.answer(s.b.Follow("/oauth/authorize?" + strings.Join(pairs, "&")))
		s.id("shop", s.exchange("shop", answer.Get("code")))
	},
	"oidcc-codereuse": func(s *suite) {
		code := s.code("shop")
		s.exchange("shop", code)
		f := s.CodeForm("shop", code)
		f.Del("code_verifier")
		authztest.WantError(s.t, "second use", s.Token("shop", f), http.StatusBadRequest, "invalid_grant")
	},
	"oidcc-codereuse-30seconds": func(s *suite) {
		code := s.code("shop")
		tokens := s.exchange("shop", code)
		s.Clock.Advance(31 * time.Second)
		f := s.CodeForm("shop", code)
		f.Del("code_verifier")
		authztest.WantError(s.t, "second use", s.Token("shop", f), http.StatusBadRequest, "invalid_grant")
		authztest.WantStatus(s.t, "userinfo afterwards", s.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Access),
			http.StatusUnauthorized)
	},
	"oidcc-server-client-secret-post": func(s *suite) {
		f := s.CodeForm("poster", s.code("poster"))
		f.Del("code_verifier")
		f.Set("client_id", "poster")
		f.Set("client_secret", authztest.Secret("poster"))
		res := s.Post("/oauth/token", f)
		authztest.WantStatus(s.t, "token", res, http.StatusOK)
		s.id("poster", authztest.Tokens{ID: res.Text("id_token")})
	},
	"oidcc-refresh-token": func(s *suite) {
		tokens := s.flow("shop")
		before := s.id("shop", tokens)
		s.Clock.Advance(time.Minute)
		authztest.WantError(s.t, "another client", s.Refresh("other", tokens.Refresh), http.StatusBadRequest, "invalid_grant")
		res := s.Refresh("shop", tokens.Refresh)
		authztest.WantStatus(s.t, "refresh", res, http.StatusOK)
		after := s.id("shop", authztest.Tokens{ID: res.Text("id_token")})
		for _, name := range []string{"iss", "sub", "aud", "auth_time"} {
			if before[name] != after[name] {
				s.t.Errorf("%s = %v after a refresh, want %v", name, after[name], before[name])
			}
		}
		s.userinfo(res.Text("access_token"))
		authztest.WantStatus(s.t, "rotated", s.Refresh("shop", res.Text("refresh_token")), http.StatusOK)
	},
	"oidcc-ensure-request-with-valid-pkce-succeeds": func(s *suite) {
		_, answer := s.authorize("shop")
		res := s.Redeem("shop", answer.Get("code"))
		authztest.WantStatus(s.t, "token", res, http.StatusOK)
		s.id("shop", authztest.Tokens{ID: res.Text("id_token")})
	},
}

func jwtHeader(t *testing.T, raw string) (header map[string]string) {
	t.Helper()
	first, _, _ := strings.Cut(raw, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err == nil {
		err = json.Unmarshal(text, &header)
	}
	if err != nil {
		t.Fatal(err)
	}
	return header
}

// parameterPlan are the modules of oidcc-basic-certification-test-plan about parameters of the authorization request.
var parameterPlan = map[string]func(*suite){
	"oidcc-display-page":  accepted("display", "page"),
	"oidcc-display-popup": accepted("display", "popup"),
	"oidcc-prompt-login": func(s *suite) {
		first := s.id("shop", s.flow("shop"))
		s.Clock.Advance(2 * time.Second)
		second := s.id("shop", s.flow("shop", "prompt", "login"))
		if before, after := first["auth_time"].(float64), second["auth_time"].(float64); after <= before || first["sub"] != second["sub"] {
			s.t.Errorf("auth_time %v, then %v, want a later one", before, after)
		}
	},
	"oidcc-prompt-none-not-logged-in": func(s *suite) { s.refused([]string{"prompt", "none"}, "login_required") },
	"oidcc-prompt-none-logged-in": func(s *suite) {
		first := s.id("shop", s.flow("shop"))
		s.Clock.Advance(2 * time.Second)
		s.b.Person = "" // no person is there to answer a page
		second := s.id("shop", s.flow("shop", "prompt", "none"))
		if first["sub"] != second["sub"] || first["auth_time"] != second["auth_time"] {
			s.t.Errorf("ID tokens %v and %v, want the same sign-in", first, second)
		}
	},
	"oidcc-max-age-1": func(s *suite) {
		first := s.id("shop", s.flow("shop"))
		s.Clock.Advance(2 * time.Second)
		second := s.id("shop", s.flow("shop", "max_age", "1"))
		if second["auth_time"] == nil || first["auth_time"] == second["auth_time"] {
			s.t.Errorf("auth_time = %v, then %v, want another sign-in", first["auth_time"], second["auth_time"])
		}
	},
	"oidcc-max-age-10000": func(s *suite) {
		first := s.id("shop", s.flow("shop"))
		s.Clock.Advance(2 * time.Second)
		s.b.Person = ""
		if second := s.id("shop", s.flow("shop", "max_age", "10000")); second["auth_time"] == nil || first["auth_time"] != second["auth_time"] {
			s.t.Errorf("auth_time = %v, then %v, want the same sign-in", first["auth_time"], second["auth_time"])
		}
	},
	"oidcc-ensure-request-with-unknown-parameter-succeeds": accepted("extra", "foobar"),
	"oidcc-id-token-hint": func(s *suite) {
		tokens := s.flow("shop")
		s.b.Person = ""
		if second := s.id("shop", s.flow("shop", "prompt", "none", "id_token_hint", tokens.ID)); second["sub"] != s.id("shop", tokens)["sub"] {
			s.t.Errorf("sub = %v, want that of the hint", second["sub"])
		}
	},
	"oidcc-login-hint":     accepted("login_hint", "demo@example.com"),
	"oidcc-ui-locales":     accepted("ui_locales", "se fr-CA"),
	"oidcc-claims-locales": accepted("claims_locales", "se"),
	"oidcc-ensure-request-with-acr-values-succeeds": func(s *suite) {
		supported := s.discovery()["acr_values_supported"].([]any)
		if claims := s.id("shop", s.flow("shop", "acr_values", supported[0].(string))); claims["acr"] == nil {
			s.t.Error("ID token has no acr")
		}
		s.id("shop", s.flow("shop", "acr_values", "1 2 urn:else"))
	},
	"oidcc-ensure-registered-redirect-uri": func(s *suite) {
		res := s.b.Authorize("shop", "redirect_uri", "https://shop.example.com/callback/unregistered")
		if res.Status != http.StatusBadRequest || res.Location() != "" {
			s.t.Errorf("Authorize = %d %q, want an error page", res.Status, res.Location())
		}
	},
	"oidcc-ensure-post-request-succeeds": func(s *suite) {
		res := s.b.Post("/oauth/authorize", s.Params("shop", append(slices.Clone(withoutPKCE), "response_mode", s.mode)...))
		_, answer := s.answer(s.b.Follow(res.Location()))
		s.id("shop", s.exchange("shop", answer.Get("code")))
	},
	"oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported": func(s *suite) {
		s.refused([]string{"request_uri", s.party.URL + "/logout"}, "request_uri_not_supported")
		if n := len(s.party.Taken()); n != 0 {
			s.t.Errorf("request_uri was fetched %d times", n)
		}
	},
	"oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported": func(s *suite) {
		s.refused([]string{"request", unsigned(s, nil)}, "request_not_supported")
	},
	"oidcc-ensure-request-object-with-redirect-uri": func(s *suite) {
		s.refused([]string{"request", unsigned(s, map[string]any{"redirect_uri": "https://evil.example.com/"})}, "request_not_supported")
	},
	"oidcc-claims-essential": func(s *suite) {
		tokens := s.flow("shop", "claims", `{"userinfo":{"name":{"essential":true}}}`)
		if info := s.userinfo(tokens.Access); info["name"] == nil {
			s.t.Errorf("userinfo = %v, want the name", info)
		}
	},
}

// unsigned is a request object with alg none.
func unsigned(s *suite, with map[string]any) string {
	s.t.Helper()
	claims := map[string]any{"iss": "shop", "aud": s.Issuer, "client_id": "shop", "response_type": "code"}
	for name, value := range with {
		claims[name] = value
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		s.t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
}

// configPlan is oidcc-config-certification-test-plan.
var configPlan = map[string]func(*suite){
	"oidcc-discovery-endpoint-verification": func(s *suite) {
		doc := s.discovery()
		if doc["issuer"] != s.Issuer {
			s.t.Errorf("issuer = %v, want %q, which was asked", doc["issuer"], s.Issuer)
		}
		for _, name := range []string{"authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri"} {
			if at, ok := doc[name].(string); !ok || !strings.HasPrefix(at, s.Issuer+"/") { // https where the issuer is
				s.t.Errorf("%s = %v", name, doc[name])
			}
		}
		for name, want := range map[string]string{
			"response_types_supported": "code", "subject_types_supported": "public", "id_token_signing_alg_values_supported": "RS256",
			"scopes_supported": "openid",
			"claims_supported": "sub", "token_endpoint_auth_methods_supported": "client_secret_basic",
		} {
			if list, ok := doc[name].([]any); !ok || !slices.Contains(list, any(want)) {
				s.t.Errorf("%s = %v, want %s in it", name, doc[name], want)
			}
		}
		keys, _ := s.Get("/oauth/jwks").JSON()["keys"].([]any)
		seen := map[any]bool{}
		for _, k := range keys {
			key := k.(map[string]any)
			if seen[key["kid"]] || key["kid"] == nil || key["kty"] == nil {
				s.t.Errorf("key %v has no kid of its own", key)
			}
			seen[key["kid"]] = true
			for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "k"} {
				if key[private] != nil {
					s.t.Errorf("key %v shows its private part %s", key["kid"], private)
				}
			}
		}
		if len(keys) == 0 {
			s.t.Error("no keys")
		}
	},
}

const home = "https://listener.example.com/"

// leave opens the logout endpoint and presses the button of the confirmation page. It returns the last answer.
func (s *suite) leave(with ...string) *authztest.Response {
	s.t.Helper()
	q := url.Values{}
	for i := 0; i+1 < len(with); i += 2 {
		q.Set(with[i], with[i+1])
	}
	res := s.b.Get("/oauth/logout?" + q.Encode())
	if action, fields := authztest.Form(res.Body); action != "" {
		res = s.b.Post(action, fields)
	}
	return res
}

// gone asserts whether the person is signed out.
func (s *suite) gone(want bool) {
	s.t.Helper()
	_, params := s.b.Authorize("listener", "prompt", "none").Redirect()
	if (params.Get("error") == "login_required") != want {
		s.t.Errorf("prompt=none afterwards: %v, want signed out: %t", params, want)
	}
}

// stays asserts that an answer does not redirect.
func (s *suite) stays(res *authztest.Response) {
	s.t.Helper()
	if res.Location() != "" || res.Header.Get("Refresh") != "" || !strings.Contains(res.Header.Get("Content-Type"), "text/html") {
		s.t.Errorf("logout = %d %q, want a page of ours", res.Status, res.Location())
	}
}

// logoutPlan is oidcc-rp-initiated-logout-certification-test-plan.
var logoutPlan = map[string]func(*suite){
	"oidcc-rp-initiated-logout-discovery-endpoint-verification": func(s *suite) {
		if s.discovery()["end_session_endpoint"] != s.Issuer+"/oauth/logout" {
			s.t.Error("no end_session_endpoint")
		}
	},
	"oidcc-rp-initiated-logout": func(s *suite) {
		hint := s.flow("listener").ID
		res := s.leave("id_token_hint", hint, "post_logout_redirect_uri", home, "state", "s t")
		if target, params := res.Redirect(); target != home || params.Get("state") != "s t" {
			s.t.Errorf("logout = %d %q, want %s with the state", res.Status, res.Location(), home)
		}
		s.gone(true)
	},
	"oidcc-rp-initiated-logout-bad-post-logout-redirect-uri": func(s *suite) {
		s.stays(s.leave("id_token_hint", s.flow("listener").ID, "post_logout_redirect_uri", "https://evil.example.com/", "state", "s"))
	},
	"oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri": func(s *suite) {
		s.stays(s.leave("id_token_hint", s.flow("listener").ID, "post_logout_redirect_uri", home+"?foo=bar", "state", "s"))
	},
	"oidcc-rp-initiated-logout-modified-id-token-hint": func(s *suite) {
		_, rest, _ := strings.Cut(s.flow("listener").ID, ".")
		payload, _, _ := strings.Cut(rest, ".")
		none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + payload + "."
		s.stays(s.leave("id_token_hint", none, "post_logout_redirect_uri", home, "state", "s"))
	},
	"oidcc-rp-initiated-logout-bad-id-token-hint": func(s *suite) {
		s.flow("listener")
		forger := authztest.NewSigner(s.t, "forger", "RS256")
		now := s.Clock.Now().Unix()
		forged := forger.Sign(s.t, map[string]any{"iss": s.Issuer, "sub": authztest.Demo, "aud": "listener", "iat": now, "exp": now + 60}, "JWT")
		s.stays(s.leave("id_token_hint", forged, "post_logout_redirect_uri", home, "state", "s"))
	},
	"oidcc-rp-initiated-logout-no-id-token-hint": func(s *suite) {
		s.flow("listener")
		s.stays(s.leave("post_logout_redirect_uri", home, "state", "s"))
	},
	"oidcc-rp-initiated-logout-no-params": func(s *suite) {
		s.flow("listener")
		s.leave()
		s.gone(true)
	},
	"oidcc-rp-initiated-logout-no-post-logout-redirect-uri": func(s *suite) {
		s.stays(s.leave("id_token_hint", s.flow("listener").ID, "state", "s"))
		s.gone(true)
	},
	"oidcc-rp-initiated-logout-only-state": func(s *suite) {
		s.flow("listener")
		s.leave("state", "s")
		s.gone(true)
	},
	"oidcc-rp-initiated-logout-no-state": func(s *suite) {
		res := s.leave("id_token_hint", s.flow("listener").ID, "post_logout_redirect_uri", home)
		if res.Location() != home {
			s.t.Errorf("logout = %d %q, want %s without a state", res.Status, res.Location(), home)
		}
		s.gone(true)
	},
}

// backchannelPlan is oidcc-backchannel-rp-initiated-logout-certification-test-plan.
var backchannelPlan = map[string]func(*suite){
	"oidcc-backchannel-logout-discovery-endpoint-verification": func(s *suite) {
		doc := s.discovery()
		if doc["backchannel_logout_supported"] != true || doc["backchannel_logout_session_supported"] != true ||
			doc["end_session_endpoint"] == nil {
			s.t.Errorf("discovery = %v", doc)
		}
	},
	"oidcc-backchannel-rp-initiated-logout": func(s *suite) {
		tokens := s.flow("listener")
		id := s.id("listener", tokens)
		s.leave("id_token_hint", tokens.ID, "post_logout_redirect_uri", home)
		authztest.SendLogouts(s.t, s.Harness)
		came := s.party.Taken()
		if len(came) != 1 {
			s.t.Fatalf("%d logout tokens came, want 1", len(came))
		}
		claims := authztest.LogoutToken(s.t, s.Harness, came[0])
		for _, name := range []string{"iss", "sub", "sid"} {
			if claims[name] != id[name] {
				s.t.Errorf("%s = %v, want that of the ID token: %v", name, claims[name], id[name])
			}
		}
		if events, ok := claims["events"].(map[string]any); !ok || events["http://schemas.openid.net/event/backchannel-logout"] == nil ||
			claims["nonce"] != nil ||
			claims["iat"] == nil || claims["jti"] == nil || claims["aud"] != "listener" {
			s.t.Errorf("logout token = %v", claims)
		}
		s.gone(true)
	},
}

// frontchannelPlan is oidcc-frontchannel-rp-initiated-logout-certification-test-plan.
var frontchannelPlan = map[string]func(*suite){
	"oidcc-frontchannel-logout-discovery-endpoint-verification": func(s *suite) {
		doc := s.discovery()
		if doc["frontchannel_logout_supported"] != true || doc["frontchannel_logout_session_supported"] != true ||
			doc["end_session_endpoint"] == nil {
			s.t.Errorf("discovery = %v", doc)
		}
	},
	"oidcc-frontchannel-rp-initiated-logout": func(s *suite) {
		tokens := s.flow("framed")
		sid, _ := s.id("framed", tokens)["sid"].(string)
		res := s.leave("id_token_hint", tokens.ID, "post_logout_redirect_uri", "https://framed.example.com/", "state", "s t")
		frame := regexp.MustCompile(`<iframe src="([^"]*)"`).FindStringSubmatch(res.Body)
		if frame == nil {
			s.t.Fatalf("logout = %d %s, want a page with a frame", res.Status, res.Body)
		}
		at, params := (&authztest.Response{Header: http.Header{"Location": {html.UnescapeString(frame[1])}}}).Redirect()
		if at != "https://framed.example.com/frontchannel_logout" || len(params) != 2 || params.Get("iss") != s.Issuer ||
			params.Get("sid") != sid || sid == "" {
			s.t.Errorf("the frame loads %s %v, want iss and the sid of the ID token: %s", at, params, sid)
		}
		_, next, _ := strings.Cut(res.Header.Get("Refresh"), "url=")
		target, params := (&authztest.Response{Header: http.Header{"Location": {next}}}).Redirect()
		if target != "https://framed.example.com/" || len(params) != 1 || params.Get("state") != "s t" {
			s.t.Errorf("after the frame the page goes to %s %v, want the registered address with the state", target, params)
		}
		s.gone(true)
	},
}
