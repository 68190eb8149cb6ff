package authz_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

func TestUserinfo(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	profile := map[string]any{
		"name": "demo Person", "given_name": "demo", "family_name": "Person", "preferred_username": "demo@example.com",
		"locale": "en", "updated_at": 1.7e9,
	}
	email := map[string]any{"email": "demo@example.com", "email_verified": true}
	phone := map[string]any{"phone_number": "+31201234567", "phone_number_verified": false}
	address := map[string]any{"address": map[string]any{"formatted": "1 Main Street"}}
	for _, c := range []struct {
		scope string
		want  []map[string]any
	}{
		{"openid", nil},
		{"openid profile", []map[string]any{profile}},
		{"openid email", []map[string]any{email}},
		{"openid address", []map[string]any{address}},
		{"openid phone", []map[string]any{phone}},
		{"openid profile email address phone", []map[string]any{profile, email, address, phone}},
	} {
		tokens := h.Tokens("shop", authztest.Demo, "scope", c.scope)
		want := map[string]any{"sub": authztest.Demo}
		for _, part := range c.want {
			for name, value := range part {
				want[name] = value
			}
		}
		for name, res := range map[string]*authztest.Response{
			"GET":              h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Access),
			"GET, lower case":  h.Get("/oauth/userinfo", "Authorization", "bearer "+tokens.Access),
			"POST with header": h.Do(http.MethodPost, "/oauth/userinfo", "", "Authorization", "Bearer "+tokens.Access),
			"POST with body":   h.Post("/oauth/userinfo", url.Values{"access_token": {tokens.Access}}),
		} {
			if res.Status != http.StatusOK || !reflect.DeepEqual(res.JSON(), want) {
				t.Errorf("Userinfo(%s, %q) = %d %s, want %v", name, c.scope, res.Status, res.Body, want)
			}
		}
		if sub := authztest.IDClaims(t, h, tokens.ID)["sub"]; sub != authztest.Demo {
			t.Errorf("sub of the ID token = %v", sub)
		}
	}
	h.Invariants(t)
}

func TestAttacksOnUserinfo(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	t.Run("attack 104: tokens in the wrong place or of the wrong kind", func(t *testing.T) {
		tokens := h.Tokens("shop", authztest.Demo)
		bearer := []string{"Authorization", "Bearer " + tokens.Access}
		revoked := h.Tokens("shop", authztest.Demo).Access
		h.Revoke("shop", revoked)
		without := h.Tokens("shop", authztest.Demo, "scope", "profile").Access
		machine := h.Token("reports", url.Values{"grant_type": {"client_credentials"}}).Text("access_token")
		form := url.Values{"access_token": {tokens.Access}}
		for _, c := range []struct {
			name      string
			res       *authztest.Response
			status    int
			challenge string
		}{
			{"none", h.Get("/oauth/userinfo"), 401, `Bearer realm="gatehouse"`},
			{"in the query", h.Get("/oauth/userinfo?access_token=" + tokens.Access), 401, `Bearer realm="gatehouse"`},
			{"another scheme", h.Get("/oauth/userinfo", "Authorization", "Basic "+tokens.Access), 401, `Bearer realm="gatehouse"`},
			{"revoked", h.Get("/oauth/userinfo", "Authorization", "Bearer "+revoked), 401, `error="invalid_token"`},
			{"refresh token", h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Refresh), 401, `error="invalid_token"`},
			{"made up", h.Get("/oauth/userinfo", "Authorization", "Bearer "+strings.Repeat("x", 54)), 401, `error="invalid_token"`},
			{"huge", h.Get("/oauth/userinfo", "Authorization", "Bearer "+strings.Repeat("x", 10000)), 401, `error="invalid_token"`},
			{"without openid", h.Get("/oauth/userinfo", "Authorization", "Bearer "+without), 403, `error="insufficient_scope"`},
			{"of a client", h.Get("/oauth/userinfo", "Authorization", "Bearer "+machine), 403, `error="insufficient_scope"`},
			{"two headers", h.Get("/oauth/userinfo", append(bearer, bearer...)...), 400, `error="invalid_request"`},
			{"header and query", h.Get("/oauth/userinfo?access_token="+tokens.Access, bearer...), 400, `error="invalid_request"`},
			{"header and body", h.Post("/oauth/userinfo", form, bearer...), 400, `error="invalid_request"`},
		} {
			if c.res.Status != c.status || !strings.Contains(c.res.Header.Get("WWW-Authenticate"), c.challenge) {
				t.Errorf("Userinfo(%s) = %d %q, want %d %s", c.name, c.res.Status, c.res.Header.Get("WWW-Authenticate"), c.status, c.challenge)
			}
			if c.res.JSON()["sub"] != nil {
				t.Errorf("Userinfo(%s) tells %s", c.name, c.res.Body)
			}
		}
		h.Invariants(t)
	})
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	oidc, oauth := h.Get("/.well-known/openid-configuration"), h.Get("/.well-known/oauth-authorization-server")
	if oidc.Status != http.StatusOK || oidc.Body != oauth.Body {
		t.Fatalf("the documents differ: %d %s\n%s", oidc.Status, oidc.Body, oauth.Body)
	}
	doc := oidc.JSON()
	if doc["issuer"] != h.Issuer {
		t.Errorf("issuer = %v, want %s", doc["issuer"], h.Issuer)
	}
	for name, value := range doc {
		if strings.HasSuffix(name, "_endpoint") || name == "jwks_uri" {
			target, ok := value.(string)
			if !ok || !strings.HasPrefix(target, h.Issuer+"/oauth/") {
				t.Errorf("%s = %v, want one of the issuer", name, value)
				continue
			}
			if res := h.Do(http.MethodDelete, target, ""); res.Status != http.StatusMethodNotAllowed {
				t.Errorf("DELETE %s = %d, want 405: the endpoint must exist", target, res.Status)
			}
		}
	}
	for name, want := range map[string]string{
		"response_types_supported":              `["code","token","id_token"]`,
		"response_modes_supported":              `["query","fragment","form_post","query.jwt","fragment.jwt","form_post.jwt","jwt"]`,
		"subject_types_supported":               `["public","pairwise"]`,
		"grant_types_supported":                 `["authorization_code","client_credentials","implicit","password","refresh_token","urn:ietf:params:oauth:grant-type:device_code","urn:ietf:params:oauth:grant-type:token-exchange","urn:service:oauth2:grant_type:validate_bearer"]`,
		"id_token_signing_alg_values_supported": `["RS256","ES256","EdDSA"]`, "code_challenge_methods_supported": `["S256"]`,
		"authorization_response_iss_parameter_supported": `true`, "request_uri_parameter_supported": `false`,
		"claims_parameter_supported":   `true`,
		"backchannel_logout_supported": `true`, "backchannel_logout_session_supported": `true`, "frontchannel_logout_supported": `true`,
		"introspection_endpoint_auth_methods_supported": `["client_secret_basic","tls_client_auth"]`,
	} {
		if got, err := json.Marshal(doc[name]); err != nil || string(got) != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	if h.Do(http.MethodHead, "/.well-known/openid-configuration", "").Status != http.StatusOK {
		t.Error("HEAD of the discovery document is refused")
	}
}

func TestAttacksOnMetadata(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	t.Run("attack 103: only public parts are shown", func(t *testing.T) {
		jwks := h.Get("/oauth/jwks")
		keys, ok := jwks.JSON()["keys"].([]any)
		if !ok || len(keys) != 3 {
			t.Fatalf("JWKS = %s, want three keys", jwks.Body)
		}
		kids := map[any]bool{}
		for _, k := range keys {
			key, ok := k.(map[string]any)
			if !ok {
				t.Fatalf("JWKS = %s", jwks.Body)
			}
			for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "k"} {
				if _, found := key[private]; found {
					t.Errorf("a key shows %s", private)
				}
			}
			if key["kid"] == "" || kids[key["kid"]] || key["use"] != "sig" || key["alg"] == nil || key["alg"] == "none" {
				t.Errorf("key = %v", key)
			}
			kids[key["kid"]] = true
		}
		for _, path := range []string{"/oauth/jwks", "/.well-known/openid-configuration"} {
			res := h.Get(path)
			if !strings.HasPrefix(res.Header.Get("Cache-Control"), "public, max-age=") {
				t.Errorf("%s: Cache-Control = %q, want cacheable", path, res.Header.Get("Cache-Control"))
			}
			if strings.Contains(res.Body, `"none"`) && path == "/oauth/jwks" {
				t.Errorf("%s offers none", path)
			}
		}
		h.Invariants(t)
	})
}
