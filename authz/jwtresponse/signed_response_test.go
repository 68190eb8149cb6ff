package jwtresponse_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
)

// TestSignedResponses: a client that asks for it gets its answer signed, whatever the answer is and however it travels.
// (JWT Secured Authorization Response Mode)
func TestSignedResponses(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.Restart(func(c *authz.Config) {
		authztest.ChangeClient(c, "spa", func(c *client.Client) { c.ResponseAlg = "ES256" })
	})
	for _, c := range []struct {
		name, client, mode, want string
		with                     []string
		err                      string
	}{
		{name: "a code by jwt", client: "shop", mode: "jwt", want: "query"},
		{name: "by query.jwt", client: "shop", mode: "query.jwt", want: "query"},
		{name: "by fragment.jwt", client: "shop", mode: "fragment.jwt", want: "fragment"},
		{name: "by form_post.jwt", client: "shop", mode: "form_post.jwt", want: "form_post"},
		{name: "with another algorithm", client: "spa", mode: "jwt", want: "query"},
		{name: "after consent", client: "asks", mode: "form_post.jwt", want: "form_post"},
		{name: "a token by jwt", client: "fragment", mode: "jwt", want: "fragment", with: []string{"response_type", "token"}},
		{
			name: "an ID token by a form", client: "fragment", mode: "form_post.jwt", want: "form_post",
			with: []string{"response_type", "id_token"},
		},
		{name: "an error by jwt", client: "shop", mode: "jwt", want: "query", with: []string{"scope", "nonsense"}, err: "invalid_scope"},
		{
			name: "an error in the fragment", client: "shop", mode: "fragment.jwt", want: "fragment",
			with: []string{"max_age", "x"}, err: "invalid_request",
		},
		{
			name: "a late error by a form", client: "shop", mode: "form_post.jwt", want: "form_post",
			with: []string{"prompt", "none"}, err: "login_required",
		},
		{name: "no state", client: "shop", mode: "jwt", want: "query", with: []string{"state", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mode, answer := authztest.AnswerOf(t, h.Browser(authztest.Demo).Authorize(c.client, append(c.with, "response_mode", c.mode)...))
			if mode != c.want || len(answer) != 1 {
				t.Fatalf("answer by %s: %v, want the response alone by %s", mode, answer, c.want)
			}
			alg := jose.RS256
			if c.client == "spa" {
				alg = jose.ES256
			}
			typ, claims := authztest.ReadSigned(t, h, answer.Get("response"), alg)
			state, _ := claims["state"].(string)
			if typ != nil || claims["iss"] != h.Issuer || claims["aud"] != c.client || state != h.Params(c.client, c.with...).Get("state") {
				t.Errorf("typ %v, claims %v", typ, claims)
			}
			if life := claims["exp"].(float64) - float64(h.Clock.Now().Unix()); life <= 0 || life > 600 { //nolint:forcetypeassert // a number
				t.Errorf("valid for %g s, want at most ten minutes", life)
			}
			if got, _ := claims["error"].(string); got != c.err {
				t.Errorf("error = %q, want %q", got, c.err)
			}
			if code, _ := claims["code"].(string); code != "" {
				authztest.WantStatus(t, "code", h.Redeem(c.client, code), http.StatusOK)
			} else if c.err == "" && claims["access_token"] == nil && claims["id_token"] == nil {
				t.Errorf("claims = %v, want a code or token", claims)
			}
		})
	}
	doc := h.Get("/.well-known/openid-configuration").JSON()
	for member, want := range map[string]string{
		"response_modes_supported":                   `["query","fragment","form_post","query.jwt","fragment.jwt","form_post.jwt","jwt"]`,
		"authorization_signing_alg_values_supported": `["RS256","ES256","EdDSA"]`,
		"introspection_signing_alg_values_supported": `["RS256","ES256","EdDSA"]`,
	} {
		if got, _ := json.Marshal(doc[member]); string(got) != want {
			t.Errorf("%s = %s, want %s", member, got, want)
		}
	}
}

// signedAnswer asks about a token for a signed answer.
func signedAnswer(h *authztest.Harness, asker, token string) *authztest.Response {
	return h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {token}},
		append(authztest.Basic(asker, authztest.Secret(asker)), "Accept", "application/token-introspection+jwt")...)
}

// TestSignedIntrospection: an API client that asks for it gets what it would get anyway, signed and for it alone.
// (RFC 9701)
func TestSignedIntrospection(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) { c.APIClients[3].IntrospectionAlg = "EdDSA" }))
	tokens := h.Tokens("shop", authztest.Demo)
	check := func(what, asker, token string, alg jose.SignatureAlgorithm, active bool) {
		t.Helper()
		res := signedAnswer(h, asker, token)
		if media := res.Header.Get("Content-Type"); res.Status != http.StatusOK || media != "application/token-introspection+jwt" ||
			res.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%s = %d %s %s", what, res.Status, media, res.Body)
		}
		typ, claims := authztest.ReadSigned(t, h, res.Body, alg)
		answer, _ := claims["token_introspection"].(map[string]any)
		if typ != "token-introspection+jwt" || claims["iss"] != h.Issuer || claims["aud"] != asker ||
			claims["iat"] != float64(h.Clock.Now().Unix()) || len(claims) != 4 || answer["active"] != active {
			t.Errorf("%s: typ %v, claims %v", what, typ, claims)
		}
		plain := h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {token}}, authztest.Basic(asker, authztest.Secret(asker))...).JSON()
		if !reflect.DeepEqual(answer, plain) {
			t.Errorf("%s: token_introspection = %v, want %v", what, answer, plain)
		}
	}
	check("an access token", "ops", tokens.Access, jose.RS256, true)
	check("a refresh token", "ops", tokens.Refresh, jose.RS256, true)
	check("nonsense", "ops", "nonsense", jose.RS256, false)
	check("a token for others", "narrow", tokens.Access, jose.EdDSA, false)
	for accept, signed := range map[string]bool{
		"application/json": false, "*/*": false, "application/token-introspection+jwt;q=0": false,
		"application/token-introspection+jwt; q=0.5, application/json": true,
		"text/html, APPLICATION/token-introspection+jwt":               true, "application/token-introspection": false, ";;": false,
	} {
		res := h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {tokens.Access}},
			append(authztest.Basic("ops", authztest.Secret("ops")), "Accept", accept)...)
		if got := res.JSON() == nil; got != signed {
			t.Errorf("Accept %s: signed %t, want %t", accept, got, signed)
		}
	}
	authztest.WantError(t, "no token", signedAnswer(h, "ops", ""), http.StatusBadRequest, "invalid_request")
	authztest.WantError(t, "of another API", signedAnswer(h, "auditor", tokens.Access), http.StatusForbidden, "access_denied")
	h.Invariants(t)
}

func TestSignedResponseAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 436: a signed answer as a token of another kind", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		tokens := h.Tokens("shop", authztest.Demo)
		_, answer := b.Authorize("shop", "response_mode", "jwt").Redirect()
		for name, text := range map[string]string{
			"a response":              answer.Get("response"),
			"an introspection answer": signedAnswer(h, "ops", tokens.Access).Body,
		} {
			authztest.WantActive(t, h, name+" as an access token", text, false)
			if res := h.Get("/oauth/userinfo", "Authorization", "Bearer "+text); res.Status != http.StatusUnauthorized {
				t.Errorf("%s at userinfo = %d", name, res.Status)
			}
			// As a hint it names no one: with one of the guest, the person who is signed in would be refused.
			if _, answer := b.Authorize("shop", "id_token_hint", text, "prompt", "none").Redirect(); answer.Get("code") == "" {
				t.Errorf("%s as a hint = %v, want it to be ignored", name, answer)
			}
			authztest.WantError(t, name+" as a code", h.Redeem("shop", text), http.StatusBadRequest, "invalid_grant")
		}
	})
	authztest.Attack(t, "attack 437: answers that would not be safe by a mode that is signed", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		for _, kind := range []string{"token", "id_token"} {
			mode, answer := authztest.AnswerOf(t, b.Authorize("fragment", "response_type", kind, "response_mode", "query.jwt"))
			if mode != "fragment" || answer.Get("error") != "invalid_request" {
				t.Errorf("%s by query.jwt = by %s %v, want invalid_request in the fragment", kind, mode, answer)
			}
		}
		for _, mode := range []string{"form_post.jwt", "jwt.jwt", ".jwt", "web_message.jwt"} {
			if _, answer := h.Browser(authztest.Demo).Authorize("phone", "response_mode",
				mode).Redirect(); answer.Get("error") != "invalid_request" {
				t.Errorf("%s to a private scheme = %v, want invalid_request", mode, answer)
			}
		}
	})
}
