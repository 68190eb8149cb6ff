package authz_test

import (
	"cmp"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// implicit runs an implicit flow of a person in a new browser and returns the answer in the fragment.
func implicit(t *testing.T, h *authztest.Harness, changes ...string) url.Values {
	t.Helper()
	res := h.Browser(authztest.Demo).Authorize("fragment", append([]string{"response_type", "token"}, changes...)...)
	mode, answer := authztest.AnswerOf(t, res)
	if mode != "fragment" {
		t.Errorf("Authorize(token) = %d %q, want an answer in the fragment", res.Status, res.Location())
	}
	return answer
}

// RFC 6749 4.2; token server document, "Authorization endpoint": "the access token is sent with the response".
func TestImplicit(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(authztest.LimitUses), authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "fragment", func(c *client.Client) { c.Scopes = append(c.Scopes, "two.read", "secure.read") })
	}))
	for name, changes := range map[string][]string{
		"by default": {}, "asked for": {"response_mode", "fragment"}, "without a challenge": {"code_challenge", "", "code_challenge_method", ""},
		"with a challenge that no code would take": {"code_challenge_method", "plain"},
	} {
		got := implicit(t, h, changes...)
		for param, want := range map[string]string{
			"token_type": "bearer", "expires_in": "900", "scope": "openid",
			"state": "the state", "iss": h.Issuer,
		} {
			if got.Get(param) != want {
				t.Errorf("%s: %s = %q, want %q", name, param, got.Get(param), want)
			}
		}
		for _, param := range []string{"refresh_token", "code", "id_token", "error"} {
			if got.Has(param) {
				t.Errorf("%s: the answer has %s", name, param)
			}
		}
		in := h.Introspect(got.Get("access_token")).JSON()
		if in["active"] != true || in["client_id"] != "fragment" || in["sub"] != authztest.Demo {
			t.Errorf("%s: Introspect = %v", name, in)
		}
	}
	// They end like the tokens of other grants.
	token := implicit(t, h, "scope", "profile two.read", "resource", "https://api.example.com").Get("access_token")
	in := h.Introspect(token).JSON()
	if in["usage_limit"] != 2.0 || in["scope"] != "profile two.read" || len(in["aud"].([]any)) != 1 {
		t.Errorf("Introspect = %v", in)
	}
	token = implicit(t, h).Get("access_token")
	if _, err := h.Server().WithdrawConsent(t.Context(), authztest.Demo, "fragment", authztest.Admin); err != nil {
		t.Fatal(err)
	}
	authztest.WantActive(t, h, "after the consent was withdrawn", token, false)
	token = implicit(t, h).Get("access_token")
	authztest.WantStatus(t, "revoke", h.Revoke("fragment", token), 200)
	authztest.WantActive(t, h, "revoked", token, false)
	token = implicit(t, h).Get("access_token")
	h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Epoch++ })
	authztest.WantActive(t, h, "after a changed password", token, false)
	h.Invariants(t)
}

func TestImplicitErrors(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "fragment", func(c *client.Client) { c.Consent = "on" })
	}))
	for name, tc := range map[string]struct {
		code    string
		changes []string
	}{
		"no one is signed in":  {"login_required", []string{"prompt", "none"}},
		"scope":                {"invalid_scope", []string{"scope", "nonsense"}},
		"resource":             {"invalid_target", []string{"resource", "https://other.example.com"}},
		"prompt":               {"invalid_request", []string{"prompt", "x"}},
		"a code, not its kind": {"unauthorized_client", []string{"response_type", "code"}},
	} {
		b := h.Browser(authztest.Demo)
		mode, got := authztest.AnswerOf(t, b.Authorize("fragment", append([]string{"response_type", "token"}, tc.changes...)...))
		want := "fragment" // RFC 6749 4.2.2.1: errors too
		if strings.HasPrefix(name, "a code") {
			want = "query"
		}
		if mode != want || got.Get("error") != tc.code || got.Get("state") != "the state" || got.Get("iss") != h.Issuer {
			t.Errorf("%s = %v by %s, want %s by %s", name, got, mode, tc.code, want)
		}
	}
	b := h.Browser(authztest.Demo)
	b.Decision = "deny"
	if mode, got := authztest.AnswerOf(t, b.Authorize("fragment", "response_type", "token")); mode != "fragment" ||
		got.Get("error") != "access_denied" {
		t.Errorf("denied = %v by %s, want access_denied in the fragment", got, mode)
	}
	b.Decision = "allow"
	if mode, got := authztest.AnswerOf(t, b.Authorize("fragment", "response_type", "token")); mode != "fragment" ||
		got.Get("access_token") == "" {
		t.Errorf("allowed = %v by %s, want a token in the fragment", got, mode)
	}
	authztest.WantEvent(t, h, authztest.Demo, "consent.ConsentGivenEvent", 1)
	authztest.WantError(t, "at the token endpoint", h.Token("fragment", url.Values{"grant_type": {"implicit"}}), 400, "unsupported_grant_type")
	h.Invariants(t)
}

// idTokenOnly is a client that only signs people in, as express-openid-connect does by default.
func idTokenOnly(c *authz.Config) {
	authztest.ChangeClient(c, "fragment", func(c *client.Client) {
		c.Grants, c.Scopes = []string{"id_token"}, []string{"openid", "profile", "email", "groups"}
		c.BackchannelLogoutURI = "http://127.0.0.1:9/logout"
	})
}

// TestIDTokenByItself signs people in to an application that takes an ID token as a form and keeps no secret.
func TestIDTokenByItself(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(idTokenOnly))
	sent := []string{"response_type", "id_token", "scope", "openid profile email groups", "code_challenge", "", "code_challenge_method", ""}
	for _, mode := range []string{"form_post", "fragment", ""} {
		b := h.Browser(authztest.Demo)
		got, answer := authztest.AnswerOf(t, b.Authorize("fragment", append(sent, "response_mode", mode)...))
		if want := cmp.Or(mode, "fragment"); got != want {
			t.Errorf("response_mode %q: the answer came as %q", mode, got)
		}
		for _, param := range []string{"access_token", "refresh_token", "code", "token_type", "expires_in", "error"} {
			if answer.Has(param) {
				t.Errorf("response_mode %q: the answer has %s", mode, param)
			}
		}
		if answer.Get("state") != "the state" || answer.Get("iss") != h.Issuer {
			t.Errorf("response_mode %q: answer = %v", mode, answer)
		}
		claims := authztest.IDClaimsFor(t, h, answer.Get("id_token"), "fragment")
		for name, want := range map[string]any{
			"sub": authztest.Demo, "nonce": "the nonce", "name": "demo Person", "email": "demo@example.com", "sid": b.Session(), "at_hash": nil,
		} {
			if claims[name] != want {
				t.Errorf("%s = %v, want %v", name, claims[name], want)
			}
		}
		if groups, ok := claims["groups"].([]any); !ok || len(groups) != 1 {
			t.Errorf("groups = %v, want those of the person", claims["groups"])
		}
	}
	authztest.WantEvent(t, h, authztest.Demo, "token.IDTokenIssuedEvent", 3)
	h.Invariants(t)
}

func TestIDTokenByItselfRefusals(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(idTokenOnly))
	sent := []string{"response_type", "id_token", "code_challenge", "", "code_challenge_method", "", "response_mode", "form_post"}
	for _, c := range []struct {
		name, client, code string
		changes            []string
	}{
		{"without a nonce, an answer could be replayed", "fragment", "invalid_request", []string{"nonce", ""}},
		{"without openid there is no ID token", "fragment", "invalid_scope", []string{"scope", "profile"}},
		{"in the query it would reach logs", "fragment", "invalid_request", []string{"response_mode", "query"}},
		{"an access token was not allowed", "fragment", "unauthorized_client", []string{"response_type", "token"}},
		{"a client without the grant", "shop", "unauthorized_client", nil},
		{"a mixture", "fragment", "unsupported_response_type", []string{"response_type", "id_token token"}},
	} {
		_, answer := authztest.AnswerOf(t, h.Browser(authztest.Demo).Authorize(c.client, append(sent, c.changes...)...))
		if answer.Get("error") != c.code || answer.Has("id_token") {
			t.Errorf("%s: answer = %v, want %s", c.name, answer, c.code)
		}
	}
}

// TestIDTokenByItselfAfterSignOut: a person who signed out while the request was under way gets none.
func TestIDTokenByItselfAfterSignOut(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(idTokenOnly))
	h.People.After(func(r *authn.Result) { h.People.EndSession(r.SessionID) })
	_, answer := authztest.AnswerOf(t,
		h.Browser(authztest.Demo).Authorize("fragment", "response_type", "id_token", "code_challenge", "", "code_challenge_method", ""))
	if answer.Get("error") != "login_required" || answer.Has("id_token") {
		t.Errorf("answer = %v, want login_required", answer)
	}
}
