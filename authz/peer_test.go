package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
)

// runningStates are values that run as a script, or become markup, where they are written without care.
func runningStates() (out []string) {
	for _, start := range []string{"", `">`, `'>`, "</title>"} {
		for _, text := range []string{
			"<script>zz57()</script>", "<img src=x onerror=zz57()>", "<svg/onload=zz57()>", "javascript:zz57()", `" onfocus=zz57() autofocus="`,
			"' onfocus=zz57() x='", "&#60;script&#62;zz57",
			"{{zz57}}${zz57}", "`zz57`", "\u2028zz57\u202e",
		} {
			out = append(out, start+text)
		}
	}
	return out
}

// TestPeersRedirects tries what got codes to strangers at other servers.
func TestPeersRedirects(t *testing.T) {
	t.Parallel()
	try := func(t *testing.T, uris ...string) {
		t.Helper()
		h := authztest.New(t, withApp("https://app/cb"))
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		for _, uri := range uris {
			for _, raw := range []string{url.QueryEscape(uri), uri} { // escaped, and as it is where that can be sent
				if strings.ContainsAny(raw, " #&") {
					continue
				}
				v := h.Params("app")
				v.Del("redirect_uri")
				res := b.Get("/oauth/authorize?" + v.Encode() + "&redirect_uri=" + raw)
				authztest.WantPage(t, "redirect_uri="+raw, res, http.StatusBadRequest)
				if res.Location() != "" {
					t.Errorf("redirect_uri=%s leads to %s", raw, res.Location())
				}
			}
		}
		h.Invariants(t)
	}
	t.Run("peer 18: a path parameter that hides dot segments", func(t *testing.T) {
		t.Parallel()
		try(t, "https://app/cb/..;/x", "https://app/cb;a=b", "https://app/..;/cb", "https://app/x/..;/cb", "https://app/cb;/../x",
			"https://app/cb%3b/..", "https://app/;/cb",
			"https://app/cb/.;/", "https://app/cb..;/")
	})
	t.Run("peer 19: several at signs", func(t *testing.T) {
		t.Parallel()
		try(t, "https://app@a@evil.example/cb", "https://app:1@2@evil.example/cb", "https://app@@evil.example/cb", "https://@app@evil.example/cb",
			"https://evil.example@@app/cb",
			"https://app%40a@evil.example/cb", "https://app:@evil.example:@app/cb", `https://app\@evil.example@app/cb`,
			"https://evil.example@app/cb")
	})
}

// TestPeersCodes has the four cells of client and age: one mistake in a condition lets one of three wrong ones pass.
func TestPeersCodes(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "peer 21: a code is redeemed by the wrong client, too late, or both", func(t *testing.T, h *authztest.Harness) {
		redeemed := 0
		for _, c := range []struct {
			name, client string
			late         bool
		}{
			{"wrong client, too late", "other", true},
			{"wrong client, in time", "other", false},
			{"right client, too late", "shop", true},
			{"right client, in time", "shop", false},
		} {
			code := h.Browser(authztest.Demo).Code("shop")
			if c.late {
				h.Clock.Advance(31 * time.Second)
			}
			f := h.CodeForm("shop", code)
			if res := h.Token(c.client, f); res.Status == http.StatusOK {
				redeemed++
				if c.client != "shop" || c.late {
					t.Errorf("%s: 200", c.name)
				}
			} else {
				authztest.WantError(t, c.name, res, http.StatusBadRequest, "invalid_grant")
			}
		}
		if redeemed != 1 {
			t.Errorf("%d of 4 were redeemed, want 1", redeemed)
		}
	})
	authztest.Attack(t, "peer 59: nothing collects what has expired", func(t *testing.T, h *authztest.Harness) {
		// The harness's storage collects nothing by itself, as when the job of collecting has stopped.
		b := h.Browser(authztest.Demo)
		tokens, code := b.Tokens("shop"), b.Code("shop")
		posted := h.Post("/oauth/authorize", h.Params("shop")).Location()
		waiting := h.Browser("").Follow(h.AuthorizeURL("shop", "prompt", "login")).Location()
		u, err := url.Parse(waiting)
		if err != nil {
			t.Fatal(err)
		}
		h.Clock.Advance(31 * time.Second)
		authztest.WantError(t, "code", h.Redeem("shop", code), http.StatusBadRequest, "invalid_grant")
		h.Clock.Advance(15 * time.Minute)
		authztest.WantActive(t, h, "access token", tokens.Access, false)
		authztest.WantStatus(t, "userinfo", h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Access), http.StatusUnauthorized)
		authztest.WantPage(t, "posted request", b.Get(posted), http.StatusBadRequest)
		h.Clock.Advance(time.Hour)
		if res := b.Get(u.Query().Get("return")); res.Status < http.StatusBadRequest || res.Location() != "" {
			t.Errorf("a request that waited for an hour = %d %s, want a page", res.Status, res.Location())
		}
		h.Clock.Advance(30 * 24 * time.Hour)
		authztest.WantError(t, "refresh token", h.Refresh("shop", tokens.Refresh), http.StatusBadRequest, "invalid_grant")
		authztest.WantActive(t, h, "refresh token", tokens.Refresh, false)
	})
}

// TestPeersSecrets changes every accepted secret a little.
func TestPeersSecrets(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "peer 46: secrets that are cut, lengthened, in another case, padded", func(t *testing.T, h *authztest.Harness) {
		variants := func(text string) (out []string) {
			for n := 1; n < len(text); n += 3 {
				out = append(out, text[:len(text)-n], text[n:])
			}
			out = append(out, text+"A", text+"=", text+"==", text+"%00", "A"+text, text+text, strings.ToUpper(text),
				strings.ToLower(text), " "+text, text+" ")
			last := text[len(text)-1]
			for _, c := range "AQgw0_-" { // bits of the last character that a lenient decoder ignores
				if byte(c) != last {
					out = append(out, text[:len(text)-1]+string(c))
				}
			}
			return out
		}
		tokens := h.Tokens("shop", authztest.Demo)
		jwt := h.Tokens("jwt", authztest.Demo)
		for name, text := range map[string]string{"access token": tokens.Access, "refresh token": tokens.Refresh, "JWT": jwt.Access} {
			for _, v := range variants(text) {
				if v != text {
					authztest.WantActive(t, h, name+" "+v, v, false)
				}
			}
			authztest.WantActive(t, h, name, text, true)
		}
		for _, v := range variants(tokens.Refresh) {
			authztest.WantError(t, "refresh by "+v, h.Refresh("shop", v), http.StatusBadRequest, "invalid_grant")
		}
		code := h.Browser(authztest.Demo).Code("shop")
		for _, v := range variants(code) {
			authztest.WantError(t, "code "+v, h.Redeem("shop", v), http.StatusBadRequest, "invalid_grant")
		}
		authztest.WantStatus(t, "the code itself", h.Redeem("shop", code), http.StatusOK)
		text := authztest.Secret("reports")
		for _, v := range variants(text) {
			if v != text {
				authztest.WantError(t, "secret "+v,
					h.Post("/oauth/token", authztest.ClientCredentials("reports.read"), authztest.Basic("reports", v)...),
					http.StatusUnauthorized, "invalid_client")
			}
		}
		for _, v := range variants(authztest.Secret("ops")) {
			authztest.WantError(t, "secret "+v,
				h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {tokens.Access}}, authztest.Basic("ops", v)...),
				http.StatusUnauthorized, "invalid_client")
		}
		authztest.WantStatus(t, "the refresh token itself", h.Refresh("shop", tokens.Refresh), http.StatusOK)
	})
}

// TestPeersAssertions leaves the times out of client assertions.
func TestPeersAssertions(t *testing.T) {
	t.Parallel()
	s := authztest.NewSigner(t, "signer", jose.ES256)
	authztest.Attack(t, "peer 52: client assertions without times", func(t *testing.T, h *authztest.Harness) {
		now := h.Clock.Now().Unix()
		for name, exp := range map[string]any{
			"missing": nil, "text": "2099-01-01", "a number as text": "4102444800", "zero": 0, "negative": -1, "in an hour": now + 3600,
			"in a thousand years": now + 31_536_000_000,
			"a list":              []int64{now + 60}, "an object": map[string]any{}, "true": true, "past": now - 1,
			"now": now, "not a number": "NaN",
		} {
			claims := s.Claims(h)
			delete(claims, "exp")
			if exp != nil {
				claims["exp"] = exp
			}
			for _, iat := range []bool{true, false} {
				if !iat {
					delete(claims, "iat")
				}
				authztest.WantError(t, "exp "+name, h.Post("/oauth/token", authztest.AssertionForm(s.Sign(t, claims, ""))),
					http.StatusUnauthorized, "invalid_client")
			}
		}
		for name, iat := range map[string]any{"in an hour": now + 3600, "text": "soon"} {
			claims := s.Claims(h)
			claims["iat"] = iat
			authztest.WantError(t, "iat "+name, h.Post("/oauth/token", authztest.AssertionForm(s.Sign(t, claims, ""))),
				http.StatusUnauthorized, "invalid_client")
		}
		// RFC 7523 3: iat can be left out. exp bounds the age alone, and jti the uses.
		claims := s.Claims(h)
		delete(claims, "iat")
		authztest.WantStatus(t, "without iat", h.Post("/oauth/token", authztest.AssertionForm(s.Sign(t, claims, ""))), http.StatusOK)
		authztest.WantError(t, "again", h.Post("/oauth/token", authztest.AssertionForm(s.Sign(t, claims, ""))),
			http.StatusUnauthorized, "invalid_client")
	}, authztest.WithClients(s.Client))
}

// TestPeersTargets tries addresses that begin like a registered one.
func TestPeersTargets(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "peer 58: addresses that begin like the registered one", func(t *testing.T, h *authztest.Harness) {
		for _, base := range []string{"https://shop.example.com", "https://wiki.example.com"} { // of a client, of a site
			for _, tail := range []string{
				".evil", ".evil/", ":8443/", "@evil.example/", "/@evil.example", "//evil.example", "/x", "/../",
				"/%2e%2e/", "/?next=//evil.example", "/#x", "\\@evil.example/", "%2eevil/", "/;x",
			} {
				b := h.Browser(authztest.Demo)
				own := b.Tokens("shop").ID
				res := b.Get("/oauth/logout?" + url.Values{"id_token_hint": {own}, "post_logout_redirect_uri": {base + tail}}.Encode())
				if res.Location() != "" || res.Status != http.StatusBadRequest || !authztest.SignedIn(b) {
					t.Errorf("Logout to %s = %d %q", base+tail, res.Status, res.Location())
				}
				if strings.Contains(res.Body, "evil") {
					t.Errorf("the page for %s repeats the address", base+tail)
				}
			}
		}
		b := h.Browser(authztest.Demo)
		b.Person = ""
		for _, uri := range []string{
			"https://shop.example.com.evil/callback", "https://shop.example.com@evil.example/callback",
			"https://shop.example.com/callback.evil", "https://shop.example.com/callback/../x",
		} {
			if res := b.Get(h.AuthorizeURL("shop", "redirect_uri", uri)); res.Location() != "" || res.Status != http.StatusBadRequest {
				t.Errorf("Authorize to %s = %d %q", uri, res.Status, res.Location())
			}
		}
	})
	authztest.Attack(t, "peer 57: states that would run where they are shown", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		forms := map[string][]string{"an answer": {"response_mode", "form_post"}, "an error": {"response_mode", "form_post", "scope", "nonsense"}}
		harmless := map[string]string{}
		for name, with := range forms {
			harmless[name] = b.Authorize("shop", append([]string{"state", "harmless"}, with...)...).Body
		}
		for _, state := range runningStates() {
			for name, with := range forms {
				res := b.Authorize("shop", append([]string{"state", state}, with...)...)
				if _, answer := authztest.AnswerOf(t, res); answer.Get("state") != state {
					t.Errorf("%s: state = %q, want %q", name, answer.Get("state"), state)
				}
				for _, mark := range []string{"<", ">", `"`, "'"} {
					if n, want := strings.Count(res.Body, mark), strings.Count(harmless[name], mark); n != want {
						t.Errorf("%s with the state %q has %d %s, with a harmless one %d", name, state, n, mark, want)
					}
				}
				if policy := res.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") ||
					strings.Contains(policy, "unsafe-inline") {
					t.Errorf("%s: Content-Security-Policy = %q", name, policy)
				}
			}
			for name, with := range map[string][]string{
				"an unknown client": {"client_id", "nobody"}, "another address": {"redirect_uri", "https://evil.example/cb"},
				"no provider": {"idp", "nobody"}, "the question for consent": {"prompt", "consent"},
			} {
				params := h.Params("asks", append([]string{"state", state}, with...)...)
				for _, res := range []*authztest.Response{b.Get("/oauth/authorize?" + params.Encode()), b.Post("/oauth/authorize", params)} {
					if strings.Contains(res.Body, "zz57") {
						t.Errorf("%s: the page repeats %q", name, state)
					}
				}
			}
		}
	})
	authztest.Attack(t, "peer 64: errors of requests without a page", func(t *testing.T, h *authztest.Harness) {
		for _, b := range []*authztest.Browser{h.Browser(""), h.Browser(authztest.Demo).SignIn(authztest.Demo)} {
			b.Person = ""
			for name, with := range map[string][]string{
				"nothing wrong": nil, "nobody signed in": {"max_age", "0"}, "unknown scope": {"scope", "nonsense"},
				"response type": {"response_type", "foo"},
				"response mode": {"response_mode", "foo"}, "no challenge": {"code_challenge", ""}, "prompt": {"prompt", "none login"},
				"resource": {"resource", "https://x.example.com"},
				"max_age":  {"max_age", "x"}, "claims": {"claims", "{"}, "request": {"request", "x"}, "idp": {"idp", "nobody"},
				"form_post": {"response_mode", "form_post", "scope", "nonsense"},
				"fragment":  {"response_mode", "fragment", "scope", "nonsense"}, "level": {"acr_values", "urn:gatehouse:level:4"},
			} {
				for _, uri := range []string{
					authztest.Evil + "/cb", "https://shop.example.com/callback/",
					"https://other.example.com/callback", "javascript:alert(1)",
				} {
					changes := append([]string{"prompt", "none", "redirect_uri", uri}, with...)
					res := b.Get(h.AuthorizeURL("asks", changes...))
					authztest.WantPage(t, name+" to "+uri, res, http.StatusBadRequest)
					if res.Location() != "" || strings.Contains(res.Body, "<form") {
						t.Errorf("%s leads to %s", name, res.Location())
					}
				}
			}
		}
		h.Restart(func(c *authz.Config) { authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Disabled = true }) })
		authztest.WantPage(t, "disabled client", h.Browser("").Get(h.AuthorizeURL("shop", "prompt", "none")), http.StatusBadRequest)
	})
}
