package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

// TestErrorsExplain: an answer to a developer says what is wrong, and with which name.
func TestErrorsExplain(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		registered := h.Params("shop").Get("redirect_uri")
		for name, tt := range map[string]struct {
			changes []string
			want    []string
		}{
			"no client":      {[]string{"client_id", ""}, []string{"name an app"}},
			"unknown client": {[]string{"client_id", "nobody"}, []string{"Unknown app", ">nobody<"}},
			"another redirect_uri": {
				[]string{"redirect_uri", "https://evil.example/cb?x=<b>"},
				[]string{"return address", "https://evil.example/cb?x=&lt;b&gt;", registered},
			},
			"no redirect_uri": {[]string{"redirect_uri", ""}, []string{"has no return address"}},
		} {
			res := h.Get(h.AuthorizeURL("shop", tt.changes...))
			for _, want := range tt.want {
				if res.Status != http.StatusBadRequest || !strings.Contains(res.Body, want) {
					t.Errorf("%s = %d, want a page with %q\n%s", name, res.Status, want, res.Body)
				}
			}
		}
	})
	t.Run("codes", func(t *testing.T) {
		t.Parallel()
		b := h.Browser(authztest.Demo)
		for name, tt := range map[string]struct {
			change func(f url.Values)
			want   string
		}{
			"another verifier": {
				func(f url.Values) { f.Set("code_verifier", strings.Repeat("x", 43)) },
				"code_verifier does not match the code_challenge of the authorization request",
			},
			"no verifier": {
				func(f url.Values) { f.Del("code_verifier") },
				"code_verifier is missing: the authorization request had a code_challenge",
			},
			"another redirect_uri": {
				func(f url.Values) { f.Set("redirect_uri", "https://shop.example.com/other") },
				"redirect_uri is not that of the authorization request",
			},
			"no redirect_uri": {func(f url.Values) { f.Del("redirect_uri") }, "redirect_uri is missing: the authorization request had one"},
			"an unknown code": {
				func(f url.Values) { f.Set("code", f.Get("code")[:len(f.Get("code"))-4]+"AAAA") },
				"code is invalid, expired or was used before",
			},
		} {
			f := h.CodeForm("shop", b.Code("shop"))
			tt.change(f)
			if res := h.Token("shop", f); res.Status != http.StatusBadRequest || res.Text("error") != "invalid_grant" ||
				res.Text("error_description") != tt.want {
				t.Errorf("%s = %d %s, want invalid_grant: %s", name, res.Status, res.Body, tt.want)
			}
		}
		code := b.Code("shop")
		h.Redeem("shop", code)
		if res := h.Redeem("shop", code); res.Text("error_description") != "the code was used before" {
			t.Errorf("a code used twice: %s", res.Body)
		}
	})
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		for name, tt := range map[string]struct {
			client string
			form   url.Values
			want   string
		}{
			"scope": {
				"reports",
				url.Values{"grant_type": {"client_credentials"}, "scope": {"no.such.scope"}},
				"the scope no.such.scope is unknown or not allowed to the client",
			},
			"grant": {
				"shop",
				url.Values{"grant_type": {"password"}, "username": {"a"}, "password": {"b"}},
				"the client may not use the grant password",
			},
			"unknown grant": {"reports", url.Values{"grant_type": {"pass\"word"}}, "the grant type password is not supported"},
		} {
			if res := h.Token(tt.client, tt.form); res.Status != http.StatusBadRequest || res.Text("error_description") != tt.want {
				t.Errorf("%s = %d %s, want %s", name, res.Status, res.Body, tt.want)
			}
		}
		for name, value := range map[string]string{"response_type": "tokken", "prompt": "nobody", "response_mode": "banana"} {
			_, params := h.Get(h.AuthorizeURL("shop", name, value)).Redirect()
			if !strings.Contains(params.Get("error_description"), value) {
				t.Errorf("%s=%s: error_description %q, want the value in it", name, value, params.Get("error_description"))
			}
		}
		res := h.Browser(authztest.Demo).Authorize("shop", "resource", "https://elsewhere.example/api")
		if _, params := res.Redirect(); params.Get("error") != "invalid_target" ||
			!strings.Contains(params.Get("error_description"), "https://elsewhere.example/api") {
			t.Errorf("a resource: %q", res.Location())
		}
	})
	t.Run("introspection", func(t *testing.T) {
		t.Parallel()
		ask := func(id, secret string) string {
			return h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {"x"}}, authztest.Basic(id, secret)...).Text("error_description")
		}
		if got := ask("shop", authztest.Secret("shop")); got != "only an api_client can introspect, and shop is a client" {
			t.Errorf("a client introspects: %q", got)
		}
		for name, got := range map[string]string{"wrong secret of a client": ask("shop", "nonsense"), "unknown": ask("nobody", "nonsense")} {
			if got != "client authentication failed" {
				t.Errorf("%s: %q, want nothing about the client", name, got)
			}
		}
	})
	t.Run("sign-out", func(t *testing.T) {
		t.Parallel()
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		res := b.Get("/oauth/logout?" + url.Values{"client_id": {"shop"}, "post_logout_redirect_uri": {"https://evil.example/"}}.Encode())
		if res.Status != http.StatusBadRequest || !strings.Contains(res.Body, `href="/sign-out"`) || strings.Contains(res.Body, "evil.example") ||
			!strings.Contains(res.Body, ">https://shop.example.com/<") {
			t.Errorf("another post_logout_redirect_uri = %d, want a page that offers to sign out, and shows what is registered\n%s", res.Status, res.Body)
		}
	})
}
