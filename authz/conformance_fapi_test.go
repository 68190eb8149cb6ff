package authz_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/dpop/dpoptest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// bank is a client of the profile with its key for assertions and its key for proofs.
type bank struct {
	*authztest.Harness
	t      *testing.T
	signer *authztest.Signer
	proofs *dpoptest.Key
	b      *authztest.Browser
	signed bool // its authorization requests are
}

func newBank(t *testing.T, id string) *authztest.Signer {
	t.Helper()
	s := authztest.NewSigner(t, id, jose.ES256)
	s.Client.FAPI2, s.Client.Grants = true, []string{"authorization_code", "refresh_token"}
	s.Client.Scopes = []string{"openid", "profile", "email"}
	return s
}

// TestConformanceFAPI2 runs the modules of the plans fapi2-security-profile-final and fapi2-message-signing-final:
// private_key_jwt, DPoP, plain response; in the second plan all requests are signed. Each is a subtest of its name
// below that of its plan; `make conformance` prints them.
func TestConformanceFAPI2(t *testing.T) {
	t.Parallel()
	for plan, signed := range map[string]bool{"fapi2-security-profile-final-test-plan": false, "fapi2-message-signing-final-test-plan": true} {
		first, second := newBank(t, "bank"), newBank(t, "second")
		first.Client.SignedRequestRequired, second.Client.SignedRequestRequired = signed, signed
		h := authztest.New(t, authztest.WithClients(first.Client, second.Client))
		for module, run := range fapiPlan {
			t.Run(plan+"/"+authztest.FAPIPrefix+module, func(t *testing.T) {
				t.Parallel()
				run(&bank{h, t, first, dpoptest.NewKey(t), h.Browser(authztest.Demo), signed},
					&bank{h, t, second, dpoptest.NewKey(t), h.Browser(authztest.Demo), signed})
			})
		}
		for module, run := range fapiClockPlan { // these move the clock, which the others share
			t.Run(plan+"/"+authztest.FAPIPrefix+module, func(t *testing.T) {
				t.Parallel()
				s := newBank(t, "bank")
				s.Client.SignedRequestRequired = signed
				h := authztest.New(t, authztest.WithClients(s.Client))
				run(&bank{h, t, s, dpoptest.NewKey(t), h.Browser(authztest.Demo), signed})
			})
		}
	}
}

// assert adds a client assertion to a form. Each change is a claim and its value; nil removes it.
func (k *bank) assert(f url.Values, changes ...any) url.Values {
	claims := k.signer.Claims(k.Harness)
	for i := 0; i+1 < len(changes); i += 2 {
		if claims[changes[i].(string)] = changes[i+1]; changes[i+1] == nil {
			delete(claims, changes[i].(string))
		}
	}
	f.Set("client_assertion_type", authztest.AssertionType)
	f.Set("client_assertion", k.signer.Sign(k.t, claims, "JWT"))
	return f
}

func (k *bank) push(changes ...string) *authztest.Response {
	k.t.Helper()
	return k.Post("/oauth/par", k.assert(k.request(changes...)))
}

// request returns the pushed parameters, or an object in which they are signed. A request_uri is next to them.
func (k *bank) request(changes ...string) url.Values {
	k.t.Helper()
	params := k.Params(k.signer.Client.ID, changes...)
	if !k.signed {
		return params
	}
	f := url.Values{"client_id": {k.signer.Client.ID}}
	if params.Has("request_uri") {
		f.Set("request_uri", params.Get("request_uri"))
	}
	claims := k.signer.Request(k.Harness, nil)
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		if k.Params(k.signer.Client.ID).Has(name) {
			delete(claims, name)
		}
	}
	for name := range params {
		if claims[name] = params.Get(name); name == "request_uri" {
			delete(claims, name)
		}
	}
	f.Set("request", k.signer.Sign(k.t, claims, authztest.RequestType))
	return f
}

// pushProved pushes a request with a proof.
func (k *bank) pushProved(changes ...string) *authztest.Response {
	k.t.Helper()
	return k.Post("/oauth/par", k.assert(k.request(changes...)), "DPoP", k.proofs.Proof("POST", k.Issuer+"/oauth/par", "", k.Clock.Now()))
}

// open opens a pushed request and returns its code.
func (k *bank) open(pushed *authztest.Response) string {
	k.t.Helper()
	authztest.WantStatus(k.t, "par", pushed, http.StatusCreated)
	_, params := k.authorize(pushed)
	if params.Get("code") == "" || params.Get("iss") != k.Issuer {
		k.t.Fatalf("authorization = %v, want a code and iss", params)
	}
	return params.Get("code")
}

// pushedWith opens a pushed request with a parameter next to its request_uri, and returns the answer.
func (k *bank) pushedWith(name, value string, changes ...string) url.Values {
	k.t.Helper()
	pushed := k.push(changes...)
	authztest.WantStatus(k.t, "par", pushed, http.StatusCreated)
	_, answer := k.b.Follow(k.address(pushed) + "&" + url.Values{name: {value}}.Encode()).Redirect()
	return answer
}

// resource asks for userinfo, the resource at hand.
func (k *bank) resource(headers ...string) int {
	k.t.Helper()
	return k.Get("/oauth/userinfo", headers...).Status
}

// authorize opens a pushed request in the browser. It returns where that ends.
func (k *bank) authorize(pushed *authztest.Response) (string, url.Values) {
	return k.b.Follow(k.address(pushed)).Redirect()
}

func (k *bank) address(pushed *authztest.Response) string {
	return "/oauth/authorize?" + url.Values{"client_id": {k.signer.Client.ID}, "request_uri": {pushed.Text("request_uri")}}.Encode()
}

func (k *bank) code(changes ...string) string {
	k.t.Helper()
	return k.open(k.push(changes...))
}

func (k *bank) proof(changes ...dpoptest.Claims) []string {
	return []string{"DPoP", k.proofs.Proof("POST", k.Issuer+"/oauth/token", "", k.Clock.Now(), changes...)}
}

// redeem redeems a code. Each change is a parameter and its value; an empty one removes it.
func (k *bank) redeem(code string, changes ...string) *authztest.Response {
	return k.Post("/oauth/token", k.assert(k.form(code, changes...)), k.proof()...)
}

func (k *bank) form(code string, changes ...string) url.Values {
	f := k.CodeForm(k.signer.Client.ID, code)
	for i := 0; i+1 < len(changes); i += 2 {
		if f.Set(changes[i], changes[i+1]); changes[i+1] == "" {
			f.Del(changes[i])
		}
	}
	return f
}

func (k *bank) happy(changes ...string) *authztest.Response {
	k.t.Helper()
	res := k.redeem(k.code(changes...))
	authztest.WantStatus(k.t, "token", res, http.StatusOK)
	if res.Text("token_type") != "DPoP" {
		k.t.Errorf("token_type = %q, want DPoP", res.Text("token_type"))
	}
	if header := jwtHeader(k.t, res.Text("id_token")); header["alg"] != "ES256" {
		k.t.Errorf("ID token is signed with %v, want ES256", header["alg"])
	}
	return res
}

func (k *bank) refused(what string, res *authztest.Response, codes ...string) {
	k.t.Helper()
	if res.Status < 400 || res.Status >= 500 || !slices.Contains(codes, res.Text("error")) {
		k.t.Errorf("%s = %d %s, want one of %v", what, res.Status, res.Body, codes)
	}
}

// pushes runs a pushed request that succeeds or is refused.
func pushes(want string, changes ...string) func(*bank, *bank) {
	return func(k, _ *bank) {
		if want == "" {
			k.happy(changes...)
			return
		}
		k.refused("par", k.push(changes...), want)
	}
}

// asserts runs a token request with a changed assertion.
func asserts(good bool, changes func(k *bank) []any) func(*bank, *bank) {
	return func(k, _ *bank) {
		res := k.Post("/oauth/token", k.assert(k.form(k.code()), changes(k)...), k.proof()...)
		if good {
			authztest.WantStatus(k.t, "token", res, http.StatusOK)
		} else {
			k.refused("token", res, "invalid_client")
		}
	}
}

func claim(name string, of func(k *bank) any) func(*bank) []any {
	return func(k *bank) []any { return []any{name, of(k)} }
}

var fapiPlan = map[string]func(k, other *bank){
	"happy-flow":                        func(k, other *bank) { k.happy(); other.happy() },
	"ensure-other-scope-order-succeeds": pushes("", "scope", "openid"),
	"ensure-authorization-request-without-nonce-success":      pushes("", "nonce", ""),
	"ensure-authorization-request-without-state-success":      pushes("", "state", ""),
	"ensure-authorization-request-with-64-char-nonce-success": pushes("", "nonce", strings.Repeat("n", 64)),
	"par-ensure-pkce-required":                                pushes("invalid_request", "code_challenge", "", "code_challenge_method", ""),
	"par-plain-pkce-rejected":                                 pushes("invalid_request", "code_challenge_method", "plain"),
	"ensure-registered-redirect-uri":                          pushes("invalid_request", "redirect_uri", "https://evil.example.com/callback"),
	"ensure-response-type-code-idtoken-fails":                 pushes("unsupported_response_type", "response_type", "code id_token"),
	"ensure-response-type-token-fails": func(k, _ *bank) {
		k.refused("par", k.push("response_type", "token"), "unsupported_response_type", "unauthorized_client", "invalid_request")
	},
	"ensure-redirect-uri-in-authorization-request": func(k, _ *bank) {
		k.refused("par", k.push("redirect_uri", ""), "invalid_request", "invalid_request_object")
	},
	"par-authorization-request-containing-request_uri-form-param": func(k, _ *bank) {
		k.refused("par", k.push("request_uri", "urn:ietf:params:oauth:request_uri:x"), "invalid_request")
	},
	"par-attempt-invalid-http-method": func(k, _ *bank) { authztest.WantStatus(k.t, "GET", k.Get("/oauth/par"), http.StatusMethodNotAllowed) },
	"ensure-unsigned-authorization-request-without-using-par-fails": func(k, _ *bank) {
		if _, params := k.b.Authorize(k.signer.Client.ID).Redirect(); params.Get("error") != "invalid_request" {
			k.t.Errorf("authorization without PAR = %v, want invalid_request", params)
		}
	},
	"par-attempt-reuse-request_uri": func(k, _ *bank) {
		pushed := k.push()
		k.authorize(pushed)
		if _, params := k.authorize(pushed); params.Get("code") != "" {
			k.t.Error("a request_uri gave a second code")
		}
	},
	"par-attempt-to-use-request_uri-for-different-client": func(k, other *bank) {
		if _, params := other.authorize(k.push()); params.Get("code") != "" {
			k.t.Error("the request_uri of another client gave a code")
		}
	},
	"par-ensure-reused-request-uri-prior-to-auth-completion-succeeds": func(k, _ *bank) {
		pushed := k.push()
		k.b.Get(k.address(pushed))
		if _, params := k.authorize(pushed); params.Get("code") == "" {
			k.t.Error("the sign-in page cannot be loaded twice")
		}
	},
	"ensure-pkce-code-verifier-required": func(k, _ *bank) {
		k.refused("token", k.redeem(k.code(), "code_verifier", ""), "invalid_grant", "invalid_request")
	},
	"incorrect-pkce-code-verifier-rejected": func(k, _ *bank) {
		k.refused("token", k.redeem(k.code(), "code_verifier", strings.Repeat("x", 43)), "invalid_grant")
	},
	"ensure-authorization-code-is-bound-to-client": func(k, other *bank) {
		k.refused("token", other.Post("/oauth/token", other.assert(k.form(k.code())), other.proof()...), "invalid_grant")
	},
	"attempt-reuse-authorization-code-after-one-second": func(k, _ *bank) {
		code := k.code()
		authztest.WantStatus(k.t, "token", k.redeem(code), http.StatusOK)
		k.refused("token", k.redeem(code), "invalid_grant")
	},
	"ensure-holder-of-key-required": func(k, _ *bank) {
		k.refused("token", k.Post("/oauth/token", k.assert(k.form(k.code()))), "invalid_dpop_proof", "invalid_request")
	},
	"ensure-client-id-in-token-endpoint": func(k, other *bank) {
		k.refused("token", k.Post("/oauth/token", k.assert(k.form(k.code(), "client_id", other.signer.Client.ID)), k.proof()...),
			"invalid_client", "invalid_request")
	},
	"ensure-client-assertion-in-token-endpoint": func(k, _ *bank) {
		k.refused("token", k.Post("/oauth/token", k.form(k.code(), "client_id", k.signer.Client.ID), k.proof()...), "invalid_client")
	},
	"ensure-signed-client-assertion-with-RS256-fails": func(k, _ *bank) {
		rsa := authztest.NewSigner(k.t, k.signer.Client.ID, jose.RS256)
		s := newBank(k.t, k.signer.Client.ID)
		s.Client.JWKS.Keys = append(s.Client.JWKS.Keys, rsa.Set().Keys...) // a key of the client all the same
		h := authztest.New(k.t, authztest.WithClients(s.Client))
		k = &bank{h, k.t, s, k.proofs, h.Browser(authztest.Demo), k.signed}
		f := k.form(k.code())
		f.Set("client_assertion_type", authztest.AssertionType)
		f.Set("client_assertion", rsa.Sign(k.t, rsa.Claims(k.Harness), "JWT"))
		k.refused("token", k.Post("/oauth/token", f, k.proof()...), "invalid_client")
	},
	"par-test-array-as-audience-fails": asserts(false,
		claim("aud", func(k *bank) any { return []string{k.Issuer} })),
	"par-test-par-endpoint-url-as-audience-fails": asserts(false,
		claim("aud", func(k *bank) any { return k.Issuer + "/oauth/par" })),
	"par-test-token-endpoint-url-as-audience-fails": asserts(false,
		claim("aud", func(k *bank) any { return k.Issuer + "/oauth/token" })),
	"ensure-client-assertion-with-wrong-aud-fails": asserts(false,
		claim("aud", func(*bank) any { return "https://other.example.com" })),
	"ensure-client-assertion-with-no-sub-fails": asserts(false, claim("sub", func(*bank) any { return nil })),
	"ensure-client-assertion-with-exp-is-5-minutes-in-past-fails": asserts(false,
		claim("exp", func(k *bank) any { return k.Clock.Now().Add(-5 * time.Minute).Unix() })),
	"par-ensure-jwt-client-assertions-nbf-8-seconds-in-the-future-is-accepted": asserts(true,
		claim("nbf", func(k *bank) any { return k.Clock.Now().Unix() + 8 })),
	"par-ensure-jwt-client-assertions-nbf-over-60-seconds-in-the-future-fails": asserts(false,
		claim("nbf", func(k *bank) any { return k.Clock.Now().Unix() + 61 })),
	"ensure-dpopproof-with-iat-10seconds-before-succeeds": func(k, _ *bank) {
		authztest.WantStatus(k.t, "token",
			k.Post("/oauth/token", k.assert(k.form(k.code())), k.proof(dpoptest.Claims{"iat": k.Clock.Now().Unix() - 10})...), http.StatusOK)
	},
	"ensure-dpopproof-with-iat-10seconds-after-succeeds": func(k, _ *bank) {
		authztest.WantStatus(k.t, "token",
			k.Post("/oauth/token", k.assert(k.form(k.code())), k.proof(dpoptest.Claims{"iat": k.Clock.Now().Unix() + 10})...), http.StatusOK)
	},
	"ensure-dpop-auth-code-binding-success": func(k, _ *bank) { k.happy("dpop_jkt", k.proofs.JKT) },
	"ensure-token-endpoint-fails-with-mismatched-dpop-jkt": func(k, other *bank) {
		k.refused("token", k.redeem(k.code("dpop_jkt", other.proofs.JKT)), "invalid_grant", "invalid_dpop_proof")
	},
	"ensure-mismatched-dpop-jkt-fails": func(k, other *bank) {
		k.refused("par", k.pushProved("dpop_jkt", other.proofs.JKT), "invalid_dpop_proof", "invalid_request")
	},
	"ensure-token-endpoint-fails-with-mismatched-dpop-proof-jkt": func(k, other *bank) {
		code := k.open(k.pushProved())
		k.proofs = other.proofs
		k.refused("token", k.redeem(code), "invalid_grant", "invalid_dpop_proof")
	},
	"ensure-dpopproof-at-par-endpoint-binding-success": func(k, _ *bank) {
		authztest.WantStatus(k.t, "token", k.redeem(k.open(k.pushProved())), http.StatusOK)
	},
	"check-dpop-proof-nbf-exp": func(k, _ *bank) {
		now := k.Clock.Now().Unix()
		times := dpoptest.Claims{"nbf": now - 10, "exp": now + 60}
		res := k.Post("/oauth/token", k.assert(k.form(k.code())), k.proof(times)...)
		authztest.WantStatus(k.t, "token", res, http.StatusOK)
		access := res.Text("access_token")
		if got := k.resource("Authorization", "DPoP "+access, "DPoP",
			k.proofs.Proof("GET", k.Issuer+"/oauth/userinfo", access, k.Clock.Now(), times)); got != http.StatusOK {
			k.t.Errorf("userinfo = %d, want 200", got)
		}
	},
	"access-token-type-header-case-sensitivity": func(k, _ *bank) {
		access := k.happy().Text("access_token")
		for _, scheme := range []string{"DPoP", "dpop", "DPOP", "dPoP"} {
			if got := k.resource("Authorization", scheme+" "+access, "DPoP",
				k.proofs.Proof("GET", k.Issuer+"/oauth/userinfo", access, k.Clock.Now())); got != http.StatusOK {
				k.t.Errorf("userinfo with the scheme %s = %d, want 200", scheme, got)
			}
		}
	},
	"dpop-negative-tests": func(k, _ *bank) { dpopNegative(k) },
	"user-rejects-authentication": func(k, _ *bank) {
		k.b.Decision = "deny"
		pushed := k.push("prompt", "consent")
		authztest.WantStatus(k.t, "par", pushed, http.StatusCreated)
		target, params := k.authorize(pushed)
		if target != k.signer.Client.RedirectURIs[0] || params.Get("error") != "access_denied" || params.Get("iss") != k.Issuer ||
			params.Get("state") != "the state" || params.Has("code") {
			k.t.Errorf("after a refusal: %s %v, want access_denied with iss and state", target, params)
		}
	},
	"ensure-authorization-request-with-long-nonce": func(k, _ *bank) {
		nonce := strings.Repeat("0123456789abcdef", 24)
		res := k.happy("nonce", nonce)
		if claims := authztest.IDClaimsFor(k.t, k.Harness, res.Text("id_token"), k.signer.Client.ID); claims["nonce"] != nonce {
			k.t.Errorf("nonce = %v, want all 384 characters", claims["nonce"])
		}
	},
	"ensure-authorization-request-with-long-state": func(k, _ *bank) {
		state := strings.Repeat("0123456789abcdef", 24)
		pushed := k.push("state", state)
		authztest.WantStatus(k.t, "par", pushed, http.StatusCreated)
		if _, params := k.authorize(pushed); params.Get("state") != state || params.Get("code") == "" {
			k.t.Errorf("state = %q, want all 384 characters", params.Get("state"))
		}
	},
	"ensure-different-nonce-inside-and-outside-request-object": func(k, _ *bank) {
		code := k.pushedWith("nonce", "outside").Get("code")
		if claims := authztest.IDClaimsFor(k.t, k.Harness, k.redeem(code).Text("id_token"), k.signer.Client.ID); claims["nonce"] != "the nonce" {
			k.t.Errorf("nonce = %v, want the pushed one", claims["nonce"])
		}
	},
	"ensure-different-state-inside-and-outside-request-object": func(k, _ *bank) {
		if answer := k.pushedWith("state", "outside"); answer.Get("state") != "the state" || answer.Get("code") == "" {
			k.t.Errorf("answer = %v, want the pushed state", answer)
		}
	},
	"state-only-outside-request-object-not-used": func(k, _ *bank) {
		if answer := k.pushedWith("state", "outside", "state", ""); answer.Has("state") || answer.Get("code") == "" {
			k.t.Errorf("answer = %v, want a code and no state", answer)
		}
	},
	"ensure-request-object-without-redirect-uri-fails": func(k, _ *bank) {
		k.refused("par", k.push("redirect_uri", ""), "invalid_request", "invalid_request_object")
	},
	"par-without-duplicate-parameters": func(k, _ *bank) {
		pushed := k.push()
		if at, err := url.Parse(k.address(pushed)); err != nil || len(at.Query()) != 2 {
			k.t.Fatalf("authorization with %v, want client_id and request_uri alone", at)
		}
		authztest.WantStatus(k.t, "token", k.redeem(k.open(pushed)), http.StatusOK)
	},
	"plain-fapi-tolerate-unregistered-redirect-uri": func(k, _ *bank) { // or refuse it, as here
		k.refused("par", k.push("redirect_uri", "https://"+k.signer.Client.ID+".example.com/callback/unregistered"), "invalid_request")
	},
	"test-claims-parameter-identity-claims": func(k, _ *bank) {
		asked := `{"id_token":{"name":null,"email":{"essential":true},"no_such_claim":null},"userinfo":{"name":{"essential":true},"email":null,"email_verified":{"value":true},"x":{"values":["y"]}}}`
		res := k.happy("scope", "openid profile email", "claims", asked)
		claims, access := authztest.IDClaimsFor(k.t, k.Harness, res.Text("id_token"), k.signer.Client.ID), res.Text("access_token")
		info := k.Get("/oauth/userinfo", "Authorization", "DPoP "+access, "DPoP",
			k.proofs.Proof("GET", k.Issuer+"/oauth/userinfo", access, k.Clock.Now())).JSON()
		for _, name := range []string{"name", "email"} {
			if claims[name] == nil || claims[name] != info[name] {
				k.t.Errorf("%s = %v in the ID token and %v in userinfo, want it in both", name, claims[name], info[name])
			}
		}
	},
	"refresh-token": func(k, other *bank) {
		token := k.happy().Text("refresh_token")
		f := func() url.Values { return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}} }
		other.refused("refresh by another client", other.Post("/oauth/token", other.assert(f()), other.proof()...), "invalid_grant")
		for range 2 { // it is not replaced
			res := k.Post("/oauth/token", k.assert(f()), k.proof()...)
			authztest.WantStatus(k.t, "refresh", res, http.StatusOK)
			if next := res.Text("refresh_token"); next != "" {
				k.t.Error("the refresh token was replaced")
			}
		}
		k.refused("refresh without a proof", k.Post("/oauth/token", k.assert(f())), "invalid_dpop_proof", "invalid_request")
	},
	"discovery-end-point-verification": func(k, _ *bank) {
		d := k.Get("/.well-known/openid-configuration").JSON()
		for _, name := range []string{
			"pushed_authorization_request_endpoint", "code_challenge_methods_supported",
			"dpop_signing_alg_values_supported", "authorization_response_iss_parameter_supported", "tls_client_certificate_bound_access_tokens",
		} {
			if d[name] == nil || d[name] == false {
				k.t.Errorf("the metadata have %s = %v", name, d[name])
			}
		}
	},
}

// dpopNegative asks a resource with proofs that must not open it, and with some that must.
func dpopNegative(k *bank) {
	access := k.happy().Text("access_token")
	at, now := k.Issuer+"/oauth/userinfo", k.Clock.Now()
	claims := func(changes ...dpoptest.Claims) dpoptest.Claims {
		return k.proofs.Claims("GET", at, access, now, changes...)
	}
	proof := func(changes ...dpoptest.Claims) string { return k.proofs.Sign("dpop+jwt", claims(changes...)) }
	raw := func(changes dpoptest.Claims) string {
		header := dpoptest.Claims{"typ": "dpop+jwt", "alg": "ES256", "jwk": k.proofs.JWK(false)}
		maps.Copy(header, changes)
		maps.DeleteFunc(header, func(_ string, v any) bool { return v == nil })
		return k.proofs.Raw(header, claims())
	}
	ask := func(proofs ...string) int {
		headers := []string{"Authorization", "DPoP " + access}
		for _, p := range proofs {
			headers = append(headers, "DPoP", p)
		}
		return k.resource(headers...)
	}
	scheme, rest, _ := strings.Cut(at, "://")
	host, path, _ := strings.Cut(rest, "/")
	for name, good := range map[string]string{
		"htu with a query and a fragment": proof(dpoptest.Claims{"htu": at + "?foo=bar#frag"}),
		"more claims":                     proof(dpoptest.Claims{"extra": "x", "more": 1}),
		"more in the header":              raw(dpoptest.Claims{"extra": "x"}),
		"htu in upper case":               proof(dpoptest.Claims{"htu": strings.ToUpper(scheme+"://"+host) + "/" + path}),
	} {
		if got := ask(good); got != http.StatusOK {
			k.t.Errorf("%s: %d, want 200", name, got)
		}
	}
	once := proof()
	if got := ask(once); got != http.StatusOK {
		k.t.Errorf("a first use of a jti: %d, want 200", got)
	}
	plain := strings.Split(proof(), ".")
	for name, bad := range map[string][]string{
		"a second use of a jti": {once}, "two proofs": {proof(), proof()}, "no proof": nil, "no JWT": {"nonsense"},
		"a bad signature": {plain[0] + "." + plain[1] + "." + strings.Repeat("A", 86)},
		"no typ":          {raw(dpoptest.Claims{"typ": nil})}, "another typ": {raw(dpoptest.Claims{"typ": "JWT"})},
		"no alg":   {raw(dpoptest.Claims{"alg": nil})},
		"alg none": {raw(dpoptest.Claims{"alg": "none"})}, "alg HS256": {raw(dpoptest.Claims{"alg": "HS256"})},
		"no jwk":                 {raw(dpoptest.Claims{"jwk": nil})},
		"the private key in jwk": {raw(dpoptest.Claims{"jwk": k.proofs.JWK(true)})}, "no jti": {proof(dpoptest.Claims{"jti": nil})},
		"no htm": {proof(dpoptest.Claims{"htm": nil})},
		"no htu": {proof(dpoptest.Claims{"htu": nil})}, "no iat": {proof(dpoptest.Claims{"iat": nil})},
		"no ath": {proof(dpoptest.Claims{"ath": nil})}, "another ath": {proof(dpoptest.Claims{"ath": "x"})},
		"another htm":           {proof(dpoptest.Claims{"htm": "PUT"})},
		"another htu":           {proof(dpoptest.Claims{"htu": "https://else.example.com/oauth/userinfo"})},
		"an hour in the future": {proof(dpoptest.Claims{"iat": now.Add(time.Hour).Unix()})},
		"an hour in the past":   {proof(dpoptest.Claims{"iat": now.Add(-time.Hour).Unix()})},
		"another key":           {dpoptest.NewKey(k.t).Proof("GET", at, access, now)},
	} {
		if got := ask(bad...); got != http.StatusUnauthorized && got != http.StatusBadRequest {
			k.t.Errorf("%s: %d, want 401 or 400", name, got)
		}
	}
	if got := k.resource("Authorization", "Bearer "+access); got != http.StatusUnauthorized {
		k.t.Errorf("under the scheme Bearer: %d, want 401", got)
	}
	if got := ask(proof()); got != http.StatusOK {
		k.t.Errorf("a good proof at the end: %d, want 200", got)
	}
}

// fapiClockPlan are the modules that wait.
var fapiClockPlan = map[string]func(k *bank){
	"ensure-token-endpoint-fails-with-expired-auth-code": func(k *bank) {
		code := k.code()
		k.Clock.Advance(time.Minute)
		k.refused("token", k.redeem(code), "invalid_grant")
	},
	"par-attempt-to-use-expired-request_uri": func(k *bank) {
		pushed := k.push()
		k.Clock.Advance(time.Minute)
		if _, params := k.authorize(pushed); params.Get("code") != "" {
			k.t.Error("an expired request_uri gave a code")
		}
	},
}

// TestFAPI2RefusesRS256: a key of the client can sign by PS256, and nothing that it signs by RS256 counts. (FAPI 2.0
// Security Profile 5.4.1)
func TestFAPI2RefusesRS256(t *testing.T) {
	t.Parallel()
	s, weak := newBank(t, "bank"), authztest.NewSigner(t, "bank", jose.RS256)
	s.Client.JWKS.Keys = append(s.Client.JWKS.Keys, weak.Set().Keys...)
	h := authztest.New(t, authztest.WithClients(s.Client))
	k := &bank{h, t, s, dpoptest.NewKey(t), h.Browser(authztest.Demo), false}
	push := func(object string) *authztest.Response {
		return h.Post("/oauth/par", k.assert(url.Values{"client_id": {"bank"}, "request": {object}}))
	}
	authztest.WantStatus(t, "a request by ES256", push(s.Object(t, h, nil)), http.StatusCreated)
	authztest.WantError(t, "a request by RS256", push(weak.Object(t, h, nil)), http.StatusBadRequest, "invalid_request_object")

	for alg, good := range map[jose.SignatureAlgorithm]bool{jose.PS256: true, jose.RS256: false} {
		k.proofs = dpoptest.KeyFor(t, weak.Key, alg)
		pushed := h.Post("/oauth/par", k.assert(h.Params("bank")), "DPoP", k.proofs.Proof("POST", h.Issuer+"/oauth/par", "", h.Clock.Now()))
		token := k.redeem(k.code())
		if good {
			authztest.WantStatus(t, "a pushed request with a proof by "+string(alg), pushed, http.StatusCreated)
			authztest.WantStatus(t, "a proof by "+string(alg), token, http.StatusOK)
			continue
		}
		authztest.WantError(t, "a pushed request with a proof by "+string(alg), pushed, http.StatusBadRequest, "invalid_dpop_proof")
		authztest.WantError(t, "a proof by "+string(alg), token, http.StatusBadRequest, "invalid_dpop_proof")
	}
}

// A client that cannot comply is told all of it when the configuration is read.
func TestFAPI2Validate(t *testing.T) {
	t.Parallel()
	c := &client.Client{
		ID: "bank", FAPI2: true, Secrets: []secret.String{secret.New(authztest.Secret("bank"))},
		Grants:       []string{"authorization_code", "password", "device_code"},
		RedirectURIs: []string{"http://127.0.0.1/cb"}, IDTokenAlg: "RS256", RequestAlg: "RS256", Scopes: []string{"openid"},
		Lifetimes: client.Lifetimes{Code: 2 * time.Minute},
	}
	err := c.Validate()
	for _, want := range []string{
		"must authenticate by", "remove password", "remove device_code", "id_token_alg", "request_object_alg",
		"wants https", "allows 1m0s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want %q in it", err, want)
		}
	}
	full := authztest.Robot("bank", func(c *client.Client) { c.FAPI2 = true }).WithDefaults()
	if !full.MTLSRequired || full.DPoPRequired || !full.PARRequired || !full.PKCERequired || full.IDTokenAlg != "ES256" {
		t.Errorf("a client with a certificate is %+v", full)
	}
}
