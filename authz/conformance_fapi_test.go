package authz_test

import (
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
	signer *signer
	proofs *dpoptest.Key
	b      *authztest.Browser
}

func newBank(t *testing.T, id string) *signer {
	t.Helper()
	s := newSigner(t, id, jose.ES256)
	s.client.FAPI2, s.client.Grants = true, []string{"authorization_code", "refresh_token"}
	return s
}

// TestConformanceFAPI2 runs modules of the plan fapi2-security-profile-final: private_key_jwt, DPoP, plain response.
// Each is a subtest of its name, without the prefix of the plan; `make conformance` prints them.
func TestConformanceFAPI2(t *testing.T) {
	t.Parallel()
	first, second := newBank(t, "bank"), newBank(t, "second")
	h := authztest.New(t, authztest.WithClients(first.client, second.client))
	for module, run := range fapiPlan {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			run(&bank{h, t, first, dpoptest.NewKey(t), h.Browser(authztest.Demo)}, &bank{h, t, second, dpoptest.NewKey(t), h.Browser(authztest.Demo)})
		})
	}
}

// assert adds a client assertion to a form. Each change is a claim and its value; nil removes it.
func (k *bank) assert(f url.Values, changes ...any) url.Values {
	claims := k.signer.claims(k.Harness)
	for i := 0; i+1 < len(changes); i += 2 {
		if claims[changes[i].(string)] = changes[i+1]; changes[i+1] == nil {
			delete(claims, changes[i].(string))
		}
	}
	f.Set("client_assertion_type", assertionType)
	f.Set("client_assertion", k.signer.sign(k.t, claims, "JWT"))
	return f
}

func (k *bank) push(changes ...string) *authztest.Response {
	return k.Post("/oauth/par", k.assert(k.Params(k.signer.client.ID, changes...)))
}

// authorize opens a pushed request in the browser. It returns where that ends.
func (k *bank) authorize(pushed *authztest.Response) (string, url.Values) {
	return k.b.Follow(k.address(pushed)).Redirect()
}

func (k *bank) address(pushed *authztest.Response) string {
	return "/oauth/authorize?" + url.Values{"client_id": {k.signer.client.ID}, "request_uri": {pushed.Text("request_uri")}}.Encode()
}

func (k *bank) code(changes ...string) string {
	k.t.Helper()
	pushed := k.push(changes...)
	wantStatus(k.t, "par", pushed, http.StatusCreated)
	_, params := k.authorize(pushed)
	if params.Get("code") == "" || params.Get("iss") != k.Issuer {
		k.t.Fatalf("authorization = %v, want a code and iss", params)
	}
	return params.Get("code")
}

func (k *bank) proof(changes ...dpoptest.Claims) []string {
	return []string{"DPoP", k.proofs.Proof("POST", k.Issuer+"/oauth/token", "", k.Clock.Now(), changes...)}
}

// redeem redeems a code. Each change is a parameter and its value; an empty one removes it.
func (k *bank) redeem(code string, changes ...string) *authztest.Response {
	return k.Post("/oauth/token", k.assert(k.form(code, changes...)), k.proof()...)
}

func (k *bank) form(code string, changes ...string) url.Values {
	f := k.CodeForm(k.signer.client.ID, code)
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
	wantStatus(k.t, "token", res, http.StatusOK)
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
			wantStatus(k.t, "token", res, http.StatusOK)
		} else {
			k.refused("token", res, "invalid_client")
		}
	}
}

func claim(name string, of func(k *bank) any) func(*bank) []any {
	return func(k *bank) []any { return []any{name, of(k)} }
}

var fapiPlan = map[string]func(k, other *bank){
	"happy-flow":                              func(k, other *bank) { k.happy(); other.happy() },
	"ensure-other-scope-order-succeeds":       pushes("", "scope", "openid"),
	"without-nonce-success":                   pushes("", "nonce", ""),
	"without-state-success":                   pushes("", "state", ""),
	"with-64-char-nonce-success":              pushes("", "nonce", strings.Repeat("n", 64)),
	"par-ensure-pkce-required":                pushes("invalid_request", "code_challenge", "", "code_challenge_method", ""),
	"par-plain-pkce-rejected":                 pushes("invalid_request", "code_challenge_method", "plain"),
	"ensure-registered-redirect-uri":          pushes("invalid_request", "redirect_uri", "https://evil.example.com/callback"),
	"ensure-response-type-code-idtoken-fails": pushes("unsupported_response_type", "response_type", "code id_token"),
	"ensure-response-type-token-fails": func(k, _ *bank) {
		k.refused("par", k.push("response_type", "token"), "unsupported_response_type", "unauthorized_client", "invalid_request")
	},
	"ensure-redirect-uri-in-authorization-request": pushes("invalid_request", "redirect_uri", ""),
	"par-authorization-request-containing-request_uri-form-param": func(k, _ *bank) {
		k.refused("par", k.push("request_uri", "urn:ietf:params:oauth:request_uri:x"), "invalid_request")
	},
	"par-attempt-invalid-http-method": func(k, _ *bank) { wantStatus(k.t, "GET", k.Get("/oauth/par"), http.StatusMethodNotAllowed) },
	"ensure-unsigned-authorization-request-without-using-par-fails": func(k, _ *bank) {
		if _, params := k.b.Authorize(k.signer.client.ID).Redirect(); params.Get("error") != "invalid_request" {
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
		wantStatus(k.t, "token", k.redeem(code), http.StatusOK)
		k.refused("token", k.redeem(code), "invalid_grant")
	},
	"ensure-holder-of-key-required": func(k, _ *bank) {
		k.refused("token", k.Post("/oauth/token", k.assert(k.form(k.code()))), "invalid_dpop_proof", "invalid_request")
	},
	"ensure-client-id-in-token-endpoint": func(k, other *bank) {
		k.refused("token", k.Post("/oauth/token", k.assert(k.form(k.code(), "client_id", other.signer.client.ID)), k.proof()...), "invalid_client", "invalid_request")
	},
	"ensure-client-assertion-in-token-endpoint": func(k, _ *bank) {
		k.refused("token", k.Post("/oauth/token", k.form(k.code(), "client_id", k.signer.client.ID), k.proof()...), "invalid_client")
	},
	"ensure-signed-client-assertion-with-RS256-fails": func(k, _ *bank) {
		rsa := newSigner(k.t, k.signer.client.ID, jose.RS256)
		s := newBank(k.t, k.signer.client.ID)
		s.client.JWKS.Keys = append(s.client.JWKS.Keys, rsa.set().Keys...) // a key of the client all the same
		h := authztest.New(k.t, authztest.WithClients(s.client))
		k = &bank{h, k.t, s, k.proofs, h.Browser(authztest.Demo)}
		f := k.form(k.code())
		f.Set("client_assertion_type", assertionType)
		f.Set("client_assertion", rsa.sign(k.t, rsa.claims(k.Harness), "JWT"))
		k.refused("token", k.Post("/oauth/token", f, k.proof()...), "invalid_client")
	},
	"par-test-array-as-audience-fails":                                         asserts(false, claim("aud", func(k *bank) any { return []string{k.Issuer} })),
	"par-test-par-endpoint-url-as-audience-fails":                              asserts(false, claim("aud", func(k *bank) any { return k.Issuer + "/oauth/par" })),
	"par-test-token-endpoint-url-as-audience-fails":                            asserts(false, claim("aud", func(k *bank) any { return k.Issuer + "/oauth/token" })),
	"ensure-client-assertion-with-wrong-aud-fails":                             asserts(false, claim("aud", func(*bank) any { return "https://other.example.com" })),
	"ensure-client-assertion-with-no-sub-fails":                                asserts(false, claim("sub", func(*bank) any { return nil })),
	"ensure-client-assertion-with-exp-is-5-minutes-in-past-fails":              asserts(false, claim("exp", func(k *bank) any { return k.Clock.Now().Add(-5 * time.Minute).Unix() })),
	"par-ensure-jwt-client-assertions-nbf-8-seconds-in-the-future-is-accepted": asserts(true, claim("nbf", func(k *bank) any { return k.Clock.Now().Unix() + 8 })),
	"par-ensure-jwt-client-assertions-nbf-over-60-seconds-in-the-future-fails": asserts(false, claim("nbf", func(k *bank) any { return k.Clock.Now().Unix() + 61 })),
	"ensure-dpopproof-with-iat-10seconds-before-succeeds": func(k, _ *bank) {
		wantStatus(k.t, "token", k.Post("/oauth/token", k.assert(k.form(k.code())), k.proof(dpoptest.Claims{"iat": k.Clock.Now().Unix() - 10})...), http.StatusOK)
	},
	"ensure-dpopproof-with-iat-10seconds-after-succeeds": func(k, _ *bank) {
		wantStatus(k.t, "token", k.Post("/oauth/token", k.assert(k.form(k.code())), k.proof(dpoptest.Claims{"iat": k.Clock.Now().Unix() + 10})...), http.StatusOK)
	},
	"ensure-dpop-auth-code-binding-success": func(k, _ *bank) { k.happy("dpop_jkt", k.proofs.JKT) },
	"ensure-token-endpoint-fails-with-mismatched-dpop-jkt": func(k, other *bank) {
		k.refused("token", k.redeem(k.code("dpop_jkt", other.proofs.JKT)), "invalid_grant", "invalid_dpop_proof")
	},
	"refresh-token": func(k, other *bank) {
		token := k.happy().Text("refresh_token")
		f := func() url.Values { return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}} }
		other.refused("refresh by another client", other.Post("/oauth/token", other.assert(f()), other.proof()...), "invalid_grant")
		for range 2 { // it is not replaced
			res := k.Post("/oauth/token", k.assert(f()), k.proof()...)
			wantStatus(k.t, "refresh", res, http.StatusOK)
			if next := res.Text("refresh_token"); next != "" {
				k.t.Error("the refresh token was replaced")
			}
		}
		k.refused("refresh without a proof", k.Post("/oauth/token", k.assert(f())), "invalid_dpop_proof", "invalid_request")
	},
	"discovery-end-point-verification": func(k, _ *bank) {
		d := k.Get("/.well-known/openid-configuration").JSON()
		for _, name := range []string{"pushed_authorization_request_endpoint", "code_challenge_methods_supported", "dpop_signing_alg_values_supported", "authorization_response_iss_parameter_supported", "tls_client_certificate_bound_access_tokens"} {
			if d[name] == nil || d[name] == false {
				k.t.Errorf("the metadata have %s = %v", name, d[name])
			}
		}
	},
}

// Two modules need the clock, which the others share.
func TestConformanceFAPI2Clock(t *testing.T) {
	t.Parallel()
	for module, run := range map[string]func(k *bank){
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
	} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			s := newBank(t, "bank")
			h := authztest.New(t, authztest.WithClients(s.client))
			run(&bank{h, t, s, dpoptest.NewKey(t), h.Browser(authztest.Demo)})
		})
	}
}

// TestFAPI2RefusesRS256: a key of the client can sign by PS256, and nothing that it signs by RS256 counts. (FAPI 2.0
// Security Profile 5.4.1)
func TestFAPI2RefusesRS256(t *testing.T) {
	t.Parallel()
	s, weak := newBank(t, "bank"), newSigner(t, "bank", jose.RS256)
	s.client.JWKS.Keys = append(s.client.JWKS.Keys, weak.set().Keys...)
	h := authztest.New(t, authztest.WithClients(s.client))
	k := &bank{h, t, s, dpoptest.NewKey(t), h.Browser(authztest.Demo)}
	push := func(object string) *authztest.Response {
		return h.Post("/oauth/par", k.assert(url.Values{"client_id": {"bank"}, "request": {object}}))
	}
	wantStatus(t, "a request by ES256", push(s.object(t, h, nil)), http.StatusCreated)
	wantError(t, "a request by RS256", push(weak.object(t, h, nil)), http.StatusBadRequest, "invalid_request_object")

	for alg, good := range map[jose.SignatureAlgorithm]bool{jose.PS256: true, jose.RS256: false} {
		k.proofs = dpoptest.KeyFor(t, weak.key, alg)
		pushed := h.Post("/oauth/par", k.assert(h.Params("bank")), "DPoP", k.proofs.Proof("POST", h.Issuer+"/oauth/par", "", h.Clock.Now()))
		token := k.redeem(k.code())
		if good {
			wantStatus(t, "a pushed request with a proof by "+string(alg), pushed, http.StatusCreated)
			wantStatus(t, "a proof by "+string(alg), token, http.StatusOK)
			continue
		}
		wantError(t, "a pushed request with a proof by "+string(alg), pushed, http.StatusBadRequest, "invalid_dpop_proof")
		wantError(t, "a proof by "+string(alg), token, http.StatusBadRequest, "invalid_dpop_proof")
	}
}

// A client that cannot comply is told all of it when the configuration is read.
func TestFAPI2Validate(t *testing.T) {
	t.Parallel()
	c := &client.Client{
		ID: "bank", FAPI2: true, Secrets: []secret.String{secret.New(authztest.Secret("bank"))}, Grants: []string{"authorization_code", "password", "device_code"},
		RedirectURIs: []string{"http://127.0.0.1/cb"}, IDTokenAlg: "RS256", RequestAlg: "RS256", Scopes: []string{"openid"}, Lifetimes: client.Lifetimes{Code: 2 * time.Minute},
	}
	err := c.Validate()
	for _, want := range []string{"must authenticate by", "remove password", "remove device_code", "id_token_alg", "request_object_alg", "wants https", "allows 1m0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want %q in it", err, want)
		}
	}
	full := robot("bank", func(c *client.Client) { c.FAPI2 = true }).WithDefaults()
	if !full.MTLSRequired || full.DPoPRequired || !full.PARRequired || !full.PKCERequired || full.IDTokenAlg != "ES256" {
		t.Errorf("a client with a certificate is %+v", full)
	}
}
