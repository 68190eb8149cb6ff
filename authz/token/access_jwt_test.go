package token_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// accessJWT verifies an access token as a resource server does, with the published keys alone (RFC 9068 4), and returns
// its claims.
func accessJWT(t *testing.T, h *authztest.Harness, raw, alg string) map[string]any {
	t.Helper()
	var keys jwa.KeySet
	if err := json.Unmarshal([]byte(h.Get("/oauth/jwks").Body), &keys); err != nil {
		t.Fatal(err)
	}
	parsed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(alg)})
	if err != nil {
		t.Fatalf("%.20s…: %v", raw, err)
	}
	header := parsed.Signatures[0].Header
	if typ := header.ExtraHeaders[jose.HeaderType]; typ != "at+jwt" {
		t.Errorf("typ = %v, want at+jwt", typ)
	}
	payload, err := parsed.Verify(jwa.Verifier(keys.Key(header.KeyID)[0].Key))
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// RFC 9068, for clients with token_format jwt.
func TestAccessJWT(t *testing.T) {
	t.Parallel()
	for _, alg := range client.SignatureAlgorithms {
		t.Run(alg, func(t *testing.T) {
			t.Parallel()
			h := authztest.New(t, authztest.WithConfig(authztest.LimitUses), authztest.WithConfig(func(c *authz.Config) {
				authztest.ChangeClient(c, "jwt", func(c *client.Client) { c.TokenAlg, c.Scopes = alg, append(c.Scopes, "two.read") })
			}))
			now := float64(h.Clock.Now().Unix())
			got := h.Tokens("jwt", authztest.Demo, "scope", "openid profile", "resource", "https://api.example.com")
			claims := accessJWT(t, h, got.Access, alg)
			id, _ := claims["jti"].(string)
			if len(id) < 22 {
				t.Errorf("jti = %q", id)
			}
			delete(claims, "jti")
			want := map[string]any{
				"iss": h.Issuer, "sub": authztest.Demo, "aud": []any{"https://api.example.com"}, "client_id": "jwt", "cid": "jwt",
				"iat": now, "exp": now + 900,
				"auth_time": now, "scope": "openid profile", "acr": "urn:gatehouse:level:1", "amr": []any{"pwd"},
			}
			if fmt.Sprint(claims) != fmt.Sprint(want) {
				t.Errorf("claims of a person's = %v, want %v", claims, want)
			}
			in := h.Introspect(got.Access).JSON()
			if in["active"] != true || in["sub"] != authztest.Demo || in["exp"] != now+900 {
				t.Errorf("Introspect = %v", in)
			}
			authztest.WantStatus(t, "validation", h.Validate(got.Access), 200)
			authztest.WantStatus(t, "userinfo by a token for an API", h.Get("/oauth/userinfo", "Authorization", "Bearer "+got.Access), 401)
			next := h.Refresh("jwt", got.Refresh)
			if accessJWT(t, h, next.Text("access_token"), alg)["sub"] != authztest.Demo {
				t.Error("a refreshed token is no JWT of the person")
			}

			own := h.Token("jwt", url.Values{"grant_type": {"client_credentials"}, "scope": {"two.read"}}).Text("access_token")
			claims = accessJWT(t, h, own, alg)
			delete(claims, "jti")
			want = map[string]any{
				"iss": h.Issuer, "sub": "jwt", "aud": []any{h.Issuer}, "client_id": "jwt", "cid": "jwt", "iat": now, "exp": now + 900,
				"scope": "two.read", "usl": 2.0,
			}
			if fmt.Sprint(claims) != fmt.Sprint(want) {
				t.Errorf("claims of a client's own = %v, want %v", claims, want)
			}
			authztest.WantActive(t, h, "first use", own, true)
			authztest.WantActive(t, h, "second use", own, true)
			authztest.WantActive(t, h, "third use", own, false)

			authztest.WantStatus(t, "revoke by another", h.Revoke("shop", got.Access), 200)
			authztest.WantActive(t, h, "revoked by another", got.Access, true)
			authztest.WantStatus(t, "revoke", h.Revoke("jwt", got.Access), 200)
			authztest.WantActive(t, h, "revoked", got.Access, false)
			h.Clock.Advance(15 * time.Minute)
			authztest.WantActive(t, h, "expired", next.Text("access_token"), false)
			h.Invariants(t)
		})
	}
}

// TestAccessTokensAreSignedWithES256: JWT access tokens of clients that name no algorithm are signed with ES256, and ID
// tokens with RS256.
func TestAccessTokensAreSignedWithES256(t *testing.T) {
	t.Parallel()
	jwt := func(id, alg string) client.Client {
		return client.Client{
			ID: id, Secrets: []secret.String{secret.New(authztest.Secret(id))}, Grants: []string{"client_credentials"},
			Scopes: []string{"a"}, TokenFormat: "jwt", IDTokenAlg: alg,
		}
	}
	h := authztest.New(t)
	add := func(id, alg string) {
		if _, err := h.Server().Clients().Add(t.Context(), jwt(id, alg), authztest.Admin); err != nil {
			t.Fatal(err)
		}
	}
	want := func(id, alg string) {
		t.Helper()
		res := h.Post("/oauth/token", url.Values{"grant_type": {"client_credentials"}}, authztest.Basic(id, authztest.Secret(id))...)
		authztest.WantStatus(t, "token of "+id, res, 200)
		accessJWT(t, h, res.Text("access_token"), alg)
	}
	accessJWT(t, h, h.Tokens("jwt", authztest.Demo).Access, "ES256")
	if id := h.Tokens("jwt", authztest.Demo).ID; !strings.HasPrefix(id, "eyJhbGciOiJSUzI1NiI") {
		t.Errorf("ID token = %.30s…, want RS256", id)
	}
	add("stored", "")
	add("named", "RS256")
	want("stored", "ES256")
	want("named", "RS256")
	h.Restart(func(c *authz.Config) {
		late, loud := jwt("late", ""), jwt("loud", "EdDSA")
		c.Clients = append(c.Clients, &late, &loud)
	})
	add("stored-late", "")
	for range 2 {
		accessJWT(t, h, h.Token("jwt", url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read"}}).Text("access_token"), "ES256")
		want("stored", "ES256")
		want("late", "ES256")
		want("loud", "EdDSA")
		want("stored-late", "ES256")
		h.Restart(nil)
	}
	err := h.Server().Clients().Change(t.Context(), "stored", "", authztest.Admin,
		func(c *client.Client) error { c.Name = "Renamed"; return nil })
	if err != nil {
		t.Fatal(err)
	}
	want("stored", "ES256")
	h.Invariants(t)
}

func TestAccessJWTAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 107: neither kind of JWT is taken for the other", func(t *testing.T, h *authztest.Harness) {
		got := h.Tokens("jwt", authztest.Demo)
		authztest.WantActive(t, h, "access token", got.Access, true)
		authztest.WantActive(t, h, "ID token", got.ID, false)
		for name, token := range map[string]string{"ID token": got.ID, "refresh token": got.Refresh} {
			authztest.WantStatus(t, "userinfo by "+name, h.Get("/oauth/userinfo", "Authorization", "Bearer "+token), 401)
			authztest.WantError(t, "validation of "+name, h.Validate(token), 400, "invalid_grant")
		}
		// As a hint it names no one.
		h.Browser(authztest.Guest).SignIn(authztest.Guest).Code("jwt", "prompt", "none", "id_token_hint", got.Access)
	})
	authztest.Attack(t, "attack 71: forged JWT access tokens", func(t *testing.T, h *authztest.Harness) {
		token := h.Tokens("jwt", authztest.Demo).Access
		other := h.Tokens("jwt", authztest.Guest).Access
		parts, theirs := strings.Split(token, "."), strings.Split(other, ".")
		for _, forged := range []string{
			"eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0." + parts[1] + ".", parts[0] + "." + parts[1] + ".",
			parts[0] + "." + parts[1] + "." + theirs[2],
			parts[0] + "." + theirs[1] + "." + parts[2], token + "x", token[:len(token)-1], token + ".", "..", strings.Repeat("a", 20_000) + ".b.c",
		} {
			authztest.WantActive(t, h, forged[:min(len(forged), 40)], forged, false)
		}
		authztest.WantActive(t, h, "the token itself", token, true)
	})
	authztest.Attack(t, "attack 96: JWT access tokens end with what they hang on", func(t *testing.T, h *authztest.Harness) {
		token := h.Tokens("jwt", authztest.Demo).Access
		if err := h.Server().Clients().Revoke(t.Context(), "jwt", authztest.Admin); err != nil {
			t.Fatal(err)
		}
		authztest.WantActive(t, h, "after its client was revoked", token, false)
	})
}

// app_identifier, app_platform and app_version of the token server document, and profile_id of its token response.
func TestMobileApp(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	code := func(client, person string, changes ...string) *authztest.Response {
		return h.Redeem(client, h.Browser(person).Code(client, changes...))
	}
	first := code("phone", authztest.Demo)
	token := first.Text("access_token")
	for what, got := range map[string]map[string]any{
		"introspection": h.Introspect(token).JSON(), "validation": h.Validate(token).JSON(),
		"introspection of a refresh token": h.Introspect(first.Text("refresh_token")).JSON(),
	} {
		if got["app_identifier"] != "com.example.app" || got["app_platform"] != "android" || got["app_version"] != "4.2.0" {
			t.Errorf("%s = %v", what, got)
		}
	}
	profile := first.Text("profile_id")
	if profile == "" || profile == "static" || strings.Contains(profile, authztest.Demo) {
		t.Errorf("profile_id = %q, want one of the person at this instance", profile)
	}
	refreshed := h.Refresh("phone", first.Text("refresh_token"))
	h.Restart(func(c *authz.Config) {
		authztest.ChangeClient(c, "phone", func(c *client.Client) {
			c.App = &client.App{Identifier: "com.example.app", Platform: "android", Version: "4.3.0"}
		})
		tablet := *c.Clients[0]
		for _, client := range c.Clients {
			if client.ID == "phone" {
				tablet = *client
			}
		}
		tablet.ID = "tablet"
		c.Clients = append(c.Clients, &tablet)
	})
	for name, tc := range map[string]struct {
		res  *authztest.Response
		same bool
	}{
		"refreshed": {refreshed, true}, "again, with another version": {code("phone", authztest.Demo), true},
		"another person": {code("phone", authztest.Guest), false}, "another instance": {code("tablet", authztest.Demo), false},
	} {
		if got := tc.res.Text("profile_id"); (got == profile) != tc.same || got == "" {
			t.Errorf("%s: profile_id = %q beside %q, want the same: %t", name, got, profile, tc.same)
		}
	}
	if web := code("shop", authztest.Demo); web.Text("profile_id") != "static" ||
		h.Introspect(web.Text("access_token")).JSON()["app_identifier"] != "" {
		t.Errorf("a web client = %s, want profile_id static and no app", web.Body)
	}
	h.Browser(authztest.Demo).Code("phone")
	h.Browser(authztest.Demo).Code("phone", "app_view", "desktop")
	h.Browser(authztest.Demo).Code("shop")
	var views []string
	for _, d := range h.People.Demands() {
		if !d.Passive {
			views = append(views, d.View)
		}
	}
	// Each is asked before the sign-in and after
	if got := strings.Join(views[len(views)-6:], ","); got != "mobile,mobile,,,," {
		t.Errorf("views = %q, want mobile by default for the app alone", got)
	}
	h.Invariants(t)
}
