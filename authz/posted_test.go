package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
)

// TestPostedRequest: what a client posts arrives whole, however long it is, and stays out of addresses.
func TestPostedRequest(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	hint := b.Tokens("shop").ID
	params := h.Params("shop", "id_token_hint", hint, "login_hint", "demo@example.com", "claims", `{"userinfo":{"email":null}}`)
	params.Set("unknown", strings.Repeat("x", 20_000))
	res := h.Post("/oauth/authorize", params)
	if res.Status != http.StatusSeeOther || len(res.Location()) > 200 {
		t.Fatalf("Authorize(POST) = %d, leads to an address of %d bytes", res.Status, len(res.Location()))
	}
	for _, secret := range []string{hint, "demo", "shop", "the+nonce"} {
		if strings.Contains(res.Location(), secret) {
			t.Errorf("the address holds %.20s…: %s", secret, res.Location())
		}
	}
	for range 2 { // a reload works too
		_, answer := authztest.AnswerOf(t, b.Follow(res.Location()))
		if answer.Get("code") == "" || answer.Get("state") != "the state" {
			t.Fatalf("answer = %v, want a code", answer)
		}
		tokens := h.Redeem("shop", answer.Get("code"))
		if claims := authztest.IDClaims(t, h, tokens.Text("id_token")); claims["nonce"] != "the nonce" || claims["sub"] != authztest.Demo {
			t.Errorf("ID token = %v", claims)
		}
	}
	// Someone else who opens it is not the person of the hint, and is asked.
	other := h.Browser(authztest.Guest).SignIn(authztest.Guest)
	other.Person = ""
	if got := other.Follow(res.Location()); strings.Contains(got.Location(), "code=") {
		t.Errorf("another person got %s", got.Location())
	}
	h.Clock.Advance(10 * time.Minute)
	authztest.WantPage(t, "an old address", b.Get(res.Location()), http.StatusBadRequest)
	authztest.WantPage(t, "an address that never was", b.Get("/oauth/authorize?posted=x"), http.StatusBadRequest)
	authztest.WantPage(t, "a long one", b.Get("/oauth/authorize?posted="+strings.Repeat("x", 2000)), http.StatusBadRequest)
	authztest.WantPage(t, "too much", b.Post("/oauth/authorize", url.Values{"client_id": {"shop"}, "unknown": {strings.Repeat("x", 40_000)}}),
		http.StatusBadRequest)
	h.Invariants(t)
}

// TestPostedRequestOfAClientThatIsGone: what was kept is checked again when the browser comes.
func TestPostedRequestOfAClientThatIsGone(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	res := h.Post("/oauth/authorize", h.Params("shop"))
	h.Restart(func(c *authz.Config) { authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Disabled = true }) })
	authztest.WantPage(t, "disabled", h.Browser(authztest.Demo).Get(res.Location()), http.StatusBadRequest)
}

// TestSemicolons: a client that writes a raw semicolon into its state gets it back, whole.
func TestSemicolons(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	for _, state := range []string{"a;b", ";", "a;code=b", "a;;b;"} {
		res := b.Follow(h.AuthorizeURL("shop", "state", "") + "&state=" + state)
		if _, params := res.Redirect(); params.Get("state") != state || !strings.HasPrefix(params.Get("code"), "ghac_") {
			t.Errorf("Authorize(state=%s) = %d %s", state, res.Status, res.Location())
		}
	}
	b.Person = ""
	res := b.Get("/oauth/logout?state=a;b")
	authztest.WantStatus(t, "Logout", res, http.StatusOK)
	h.Invariants(t)
}

// TestTextThatIsNoToken: whatever a resource server is sent as a token, the answer is that it is not valid.
func TestTextThatIsNoToken(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for _, text := range []string{"a\x00b", "a\nb", "\t", "\x7f", "a b", "ghat_\x00", "a.b\n.c", "é", strings.Repeat("x", 5000)} {
		res := h.Introspect(text)
		if res.Status != http.StatusOK || res.Body != `{"active":false}` {
			t.Errorf("Introspect(%.10q) = %d %s, want inactive", text, res.Status, res.Body)
		}
		authztest.WantStatus(t, "Revoke", h.Revoke("shop", text), http.StatusOK)
		authztest.WantError(t, "Validate", h.Validate(text), http.StatusBadRequest, "invalid_grant")
	}
	// Everything else still has one reading.
	authztest.WantError(t, "grant_type", h.Token("shop", url.Values{"grant_type": {"authorization_code"}, "code": {"a\x00b"}}),
		http.StatusBadRequest, "invalid_request")
	h.Invariants(t)
}

// TestHeadOfUserinfo: RFC 9110 9.3.2: HEAD is answered as GET is, without a body.
func TestHeadOfUserinfo(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	bearer := []string{"Authorization", "Bearer " + h.Tokens("shop", authztest.Demo).Access}
	if res := h.Do(http.MethodHead, "/oauth/userinfo", "", bearer...); res.Status != http.StatusOK || res.Body != "" {
		t.Errorf("HEAD /oauth/userinfo = %d %q, want 200", res.Status, res.Body)
	}
	authztest.WantStatus(t, "without a token", h.Do(http.MethodHead, "/oauth/userinfo", ""), http.StatusUnauthorized)
	h.Invariants(t)
}

// TestLogoutToTheStartPage: URL classes add a slash to an origin, which leads to the same page.
func TestLogoutToTheStartPage(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) {
			c.PostLogoutRedirectURIs = []string{"https://shop.example.com", "https://shop.example.com/bye"}
		})
		authztest.ChangeClient(c, "other", func(c *client.Client) { c.PostLogoutRedirectURIs = []string{"https://other.example.com/"} })
	}))
	for _, c := range []struct {
		client, target string
		good           bool
	}{
		{"shop", "https://shop.example.com", true},
		{"shop", "https://shop.example.com/", true},
		{"other", "https://other.example.com", true},
		{"shop", "https://shop.example.com/bye", true},
		{"shop", "https://shop.example.com/bye/", false},
		{"shop", "https://shop.example.com//", false},
		{"shop", "https://shop.example.com:443/", false},
		{"shop", "https://shop.example.com/?", false},
		{"shop", "https://shop.example.com.evil.example/", false},
		{"shop", "http://shop.example.com/", false},
	} {
		b := h.Browser(authztest.Demo)
		res := b.Get("/oauth/logout?" + url.Values{"id_token_hint": {b.Tokens(c.client).ID}, "post_logout_redirect_uri": {c.target}}.Encode())
		if good := res.Location() == c.target; good != c.good {
			t.Errorf("Logout to %s = %d %q, want it accepted: %t", c.target, res.Status, res.Location(), c.good)
		}
	}
	h.Invariants(t)
}

// TestOnlyScopeIsTheDefault: a client with one scope need not ask for it.
func TestOnlyScopeIsTheDefault(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "reports", func(c *client.Client) { c.Scopes, c.DefaultScopes = []string{"reports.read"}, nil })
		authztest.ChangeClient(c, "jwt", func(c *client.Client) { c.DefaultScopes = nil })
	}))
	if res := authztest.OwnToken(h); res.Status != http.StatusOK || res.Text("scope") != "reports.read" {
		t.Errorf("Token(no scope) = %d %s, want the only one", res.Status, res.Body)
	}
	authztest.WantError(t, "several", h.Token("jwt", url.Values{"grant_type": {"client_credentials"}}), http.StatusBadRequest, "invalid_scope")
	h.Invariants(t)
}

// TestLoopbackPorts: a native app opens its redirect URI on any free port, by whichever name it registered.
func TestLoopbackPorts(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "native", func(c *client.Client) {
			c.RedirectURIs = []string{"http://localhost/callback", "http://127.0.0.1:8080/cb"}
		})
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.RedirectURIs = []string{"http://localhost:3000/cb", "http://127.0.0.1/cb"} })
	}))
	b := h.Browser(authztest.Demo)
	for _, c := range []struct {
		client, uri string
		good        bool
	}{
		{"native", "http://localhost:55611/callback", true},
		{"native", "http://localhost/callback", true},
		{"native", "http://127.0.0.1:1/cb", true},
		{"native", "http://127.0.0.1:65535/cb", true},
		{"native", "http://localhost:65536/callback", false},
		{"native", "http://localhost:99999/callback", false},
		{"native", "http://localhost:01234/callback", false},
		{"native", "http://localhost:0/callback", false},
		{"native", "http://localhost:/callback", false},
		{"native", "http://localhost:55611/cb", false},
		{"native", "http://localhost:55611/callback?x=1", false},
		{"native", "http://127.0.0.1:55611/callback", false},
		{"native", "http://localhost.evil.example:55611/callback", false},
		{"native", "http://localhost:1@evil.example/callback", false},
		{"native", "https://localhost:55611/callback", false},
		{"shop", "http://localhost:3000/cb", true},
		{"shop", "http://localhost:3001/cb", false}, // a server knows its port
		{"shop", "http://127.0.0.1:3000/cb", false},
	} {
		res := b.Authorize(c.client, "redirect_uri", c.uri)
		target, params := res.Redirect()
		if good := target == c.uri && params.Get("code") != ""; good != c.good || (!good && res.Status != http.StatusBadRequest) {
			t.Errorf("Authorize(%s to %s) = %d %q, want it accepted: %t", c.client, c.uri, res.Status, res.Location(), c.good)
		}
	}
	h.Invariants(t)
}
