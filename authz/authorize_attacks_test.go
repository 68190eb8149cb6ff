package authz_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
)

// withApp adds a client whose one redirect URI is https://app/cb.
func withApp(uris ...string) authztest.Option {
	return authztest.WithConfig(func(cfg *authz.Config) {
		c := *cfg.Clients[0]
		c.ID, c.RedirectURIs = "app", uris
		cfg.Clients = append(cfg.Clients, &c)
	})
}

func TestAttacksOnRedirects(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withApp("https://app/cb"))
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	try := func(t *testing.T, client string, uris ...string) {
		t.Helper()
		for _, uri := range uris {
			for _, path := range []string{"/oauth/authorize?", "/oauth/v1/authorize?"} {
				v := h.Params(client)
				v.Set("redirect_uri", uri)
				authztest.WantPage(t, "redirect_uri="+uri, b.Get(path+v.Encode()), http.StatusBadRequest)
			}
		}
		h.Invariants(t)
	}
	t.Run("attack 1: a redirect URI of the attacker", func(t *testing.T) {
		try(t, "app", authztest.Evil+"/cb", "//evil.example/cb", "/cb", "javascript:alert(1)", "data:text/html,x")
	})
	t.Run("attack 2: variants of the path", func(t *testing.T) {
		try(t, "app", "https://app/cb/", "https://app/cb/x", "https://app/cb/../evil", "https://app/cb%2f..%2fx",
			"https://app/cb.evil", "https://app/cb?x=1",
			"https://app/cb;x", "https://app/cbx", "https://app/c", "https://app", "https://app/%63b")
	})
	t.Run("attack 3: variants of the authority", func(t *testing.T) {
		try(t, "app", "https://app@evil.example/cb", `https://evil.example\@app/cb`, "https://app%40evil.example/cb",
			"https://app:443@evil.example/cb",
			"https://app%2eevil.example/cb", "https://evil.example#@app/cb")
	})
	t.Run("attack 4: variants of case, port and dots", func(t *testing.T) {
		try(t, "app", "HTTPS://app/cb", "https://APP/cb", "https://app/CB", "https://app:443/cb", "https://app./cb", "http://app/cb")
	})
	t.Run("attack 6: a fragment", func(t *testing.T) {
		try(t, "app", "https://app/cb#frag", "https://app/cb#", "https://app/cb%23")
	})
	t.Run("attack 8: characters that readers take for others", func(t *testing.T) {
		try(t, "app", "https://app/cb\t", "https://app/cb\r\nX-Evil: 1", "https://app/cb\x00", " https://app/cb", "https://app/cb ",
			"https://app/cb%0d%0aX-Evil: 1",
			"https://app。/cb", "https://аpp/cb", "https://xn--pp-7kc/cb", "https://app/cb\u2028")
	})
	t.Run("attack 9: a redirect URI that answers in our place", func(t *testing.T) {
		for _, name := range []string{"code", "state", "iss", "error", "response"} {
			try(t, "app", "https://app/cb?"+name+"=x")
			c := client.Client{
				ID: "x", Public: true, Grants: []string{"authorization_code"},
				RedirectURIs: []string{"https://app/cb?" + name + "=x"},
			}
			if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("Validate(redirect URI with %s) = %v, want an error that names it", name, err)
			}
		}
	})
	t.Run("attack 7: loopback addresses", func(t *testing.T) {
		for _, uri := range []string{"http://127.0.0.1/cb", "http://127.0.0.1:8765/cb", "http://[::1]:8765/cb"} {
			res := b.Authorize("native", "redirect_uri", uri)
			if !strings.HasPrefix(res.Location(), uri+"?code=") {
				t.Errorf("Authorize(redirect_uri=%s) = %d %q, want a code there", uri, res.Status, res.Location())
			}
		}
		try(t, "native", "http://localhost/cb", "http://localhost:8765/cb", "http://127.0.0.1:99999/cb", "http://127.0.0.1:01234/cb",
			"http://127.0.0.1:0/cb", "http://127.0.0.2/cb", "http://127.0.0.1:8765/other", "http://127.0.0.1:8765/cb?x=1",
			"http://0x7f.1/cb", "http://127.1/cb", "https://127.0.0.1:8765/cb", "http://127.0.0.1:8765@evil.example/cb",
			"http://127.0.0.1.evil.example/cb",
			"http://127.0.0.1:/cb", "http://127.0.0.1:99999999/cb", "http://[::1%25lo]:80/cb", "http://[::ffff:127.0.0.1]/cb")
	})
	t.Run("attack 11: no redirect URI", func(t *testing.T) {
		authztest.WantPage(t, "client with two", b.Authorize("two", "redirect_uri", ""), http.StatusBadRequest)
		// OpenID Connect Core 3.1.2.1: required; RFC 6749 3.1.2.3: not if there is only one.
		authztest.WantPage(t, "client with one, for an ID token", b.Authorize("app", "redirect_uri", ""), http.StatusBadRequest)
		code := b.Code("app", "redirect_uri", "", "scope", "profile")
		res := h.Token("shop", url.Values{"grant_type": {"authorization_code"}, "code": {code}})
		if res.Status != http.StatusBadRequest {
			t.Errorf("Token(code of another client) = %d, want 400", res.Status)
		}
		h.Invariants(t)
	})
	t.Run("attack 13: an unknown client looks like a disabled one", func(t *testing.T) {
		unknown := b.Get("/oauth/authorize?" + h.Params("disabled", "client_id", "nobody").Encode())
		disabled := b.Get(h.AuthorizeURL("disabled"))
		authztest.WantPage(t, "unknown client", unknown, http.StatusBadRequest)
		authztest.WantPage(t, "disabled client", disabled, http.StatusBadRequest)
		if strings.ReplaceAll(unknown.Body, ">nobody<", ">disabled<") != disabled.Body { // on loopback it repeats the id
			t.Errorf("the pages differ: %s\n%s", unknown.Body, disabled.Body)
		}
		h.Invariants(t)
	})
}

func TestAttacksOnParameters(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	refused := func(t *testing.T, code string, client string, with ...string) {
		t.Helper()
		for _, path := range []string{"/oauth/authorize?", "/oauth/v1/authorize?"} {
			res := b.Follow(path + h.Params(client, with...).Encode())
			authztest.WantRedirectError(t, h, fmt.Sprintf("%.80q", with), res, code)
			if _, params := res.Redirect(); params.Get("state") != h.Params(client, with...).Get("state") {
				t.Errorf("Authorize(%.80q) state = %q", with, params.Get("state"))
			}
		}
	}
	t.Run("attack 12: repeated parameters", func(t *testing.T) {
		for _, name := range []string{"client_id", "redirect_uri"} {
			target := h.AuthorizeURL("shop") + "&" + name + "=" + url.QueryEscape(h.Params("shop").Get(name))
			res := b.Get(target)
			authztest.WantPage(t, name+" twice", res, http.StatusBadRequest)
			if !strings.Contains(res.Body, "more than once") || !strings.Contains(res.Body, "("+name+")") {
				t.Errorf("the page about %s twice does not say so: %s", name, res.Body)
			}
		}
		for _, name := range []string{"scope", "state", "response_type", "code_challenge", "prompt", "nonce", "idp", "unknown"} {
			target := h.AuthorizeURL("shop", name, "x") + "&" + name + "=x"
			res := b.Get(target)
			authztest.WantRedirectError(t, h, name+" twice", res, "invalid_request")
			if _, params := res.Redirect(); params.Get("error_description") != "the parameter "+name+" is repeated" {
				t.Errorf("the error about %s twice is %q", name, params.Get("error_description"))
			}
		}
		h.Invariants(t)
	})
	t.Run("attack 14: response types", func(t *testing.T) {
		refused(t, "invalid_request", "shop", "response_type", "")
		for _, kind := range []string{"foo", "code code", "token code", "none", "id_token token", "code id_token", "CODE", "code "} {
			refused(t, "unsupported_response_type", "shop", "response_type", kind)
		}
		h.Invariants(t)
	})
	t.Run("attack 17: markup in what a form posts to the client", func(t *testing.T) {
		evil := `"><script>alert(1)</script>`
		for _, with := range [][]string{{"scope", "openid"}, {"scope", "nonsense"}} {
			res := b.Authorize("shop", append(with, "response_mode", "form_post", "state", evil)...)
			authztest.WantPage(t, "form_post", res, http.StatusOK)
			action, fields := authztest.Form(res.Body)
			if action != "https://shop.example.com/callback" || fields.Get("state") != evil || fields.Get("iss") != h.Issuer {
				t.Errorf("form to %q with %v, want the registered URI, state and iss as they are", action, fields)
			}
			if fields.Has("code") == fields.Has("error") {
				t.Errorf("fields %v, want a code or an error", fields)
			}
			if strings.Contains(res.Body, "<script>alert") {
				t.Errorf("the state became markup: %s", res.Body)
			}
			policy := res.Header.Get("Content-Security-Policy")
			if !strings.HasSuffix(policy, "; form-action https://shop.example.com/callback") || strings.Contains(policy, "unsafe-inline") {
				t.Errorf("policy %q, want the registered URI as the only form-action", policy)
			}
		}
		h.Invariants(t)
	})
	t.Run("attack 18: the state comes back exactly or not at all", func(t *testing.T) {
		for _, state := range []string{
			"x", strings.Repeat("s", 1024), strings.Repeat("s", 4096), "état ✓ 漢字", `quotes " ' < > &`, "nul \x00 nul",
			"line\r\nX-Evil: 1", "a+b c%20d", "=&;#",
		} {
			if _, params := b.Authorize("shop", "state", state).Redirect(); params.Get("state") != state || params.Get("code") == "" {
				t.Errorf("Authorize(state=%.40q) echoes %.40q", state, params.Get("state"))
			}
			if _, params := b.Authorize("shop", "state", state, "scope", "nonsense").Redirect(); params.Get("state") != state {
				t.Errorf("Authorize(state=%.40q) with an error echoes %.40q", state, params.Get("state"))
			}
		}
		authztest.WantPage(t, "state of 4097 bytes", b.Get(h.AuthorizeURL("shop", "state", strings.Repeat("s", 4097))), http.StatusBadRequest)
		authztest.WantPage(t, "state not UTF-8", b.Get(h.AuthorizeURL("shop", "state", "\xff\xfe")), http.StatusBadRequest)
		h.Invariants(t)
	})
	t.Run("attack 19: every answer names the issuer", func(t *testing.T) {
		issuer := h.Get("/.well-known/openid-configuration").Text("issuer")
		for _, res := range []*authztest.Response{
			b.Authorize("shop"), b.Authorize("shop", "scope", "nonsense"),
			h.Browser("").Authorize("shop", "prompt", "none"),
		} {
			if _, params := res.Redirect(); params.Get("iss") != issuer || issuer != h.Issuer {
				t.Errorf("iss = %q, want %q", params.Get("iss"), issuer)
			}
		}
		h.Invariants(t)
	})
	t.Run("attack 21: a public client without a challenge", func(t *testing.T) {
		refused(t, "invalid_request", "spa", "code_challenge", "", "code_challenge_method", "")
		h.Invariants(t)
	})
	t.Run("attack 22: challenge methods", func(t *testing.T) {
		for _, method := range []string{"plain", "", "S512", "s256", "S256 "} {
			refused(t, "invalid_request", "spa", "code_challenge_method", method)
			refused(t, "invalid_request", "shop", "code_challenge_method", method)
		}
		h.Invariants(t)
	})
	t.Run("attack 23: malformed challenges", func(t *testing.T) {
		for _, challenge := range []string{
			authztest.Challenge[:42], authztest.Challenge + "x", strings.Repeat("x", 129), authztest.Challenge[:42] + "+",
			authztest.Challenge[:42] + "/",
			authztest.Challenge[:42] + "=", authztest.Challenge[:41] + "é", authztest.Challenge + "\n",
		} {
			refused(t, "invalid_request", "spa", "code_challenge", challenge)
		}
		h.Invariants(t)
	})
	t.Run("attack 31: a query beside a body", func(t *testing.T) {
		res := b.Post(h.AuthorizeURL("shop"), h.Params("shop", "scope", "openid profile"))
		authztest.WantPage(t, "query and body", res, http.StatusBadRequest)
		res = b.Post("/oauth/authorize?client_id=shop", h.Params("shop"))
		authztest.WantPage(t, "client_id in the query", res, http.StatusBadRequest)
		h.Invariants(t)
	})
	t.Run("attack 33: other methods", func(t *testing.T) {
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
			res := h.Do(method, h.AuthorizeURL("shop"), "")
			if res.Status != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "GET, HEAD, POST" || res.Location() != "" {
				t.Errorf("%s /oauth/authorize = %d, Allow %q, want 405 with GET, HEAD, POST", method, res.Status, res.Header.Get("Allow"))
			}
		}
		// HEAD looks, and issues and stores nothing.
		signedIn := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		if res := signedIn.Head(h.AuthorizeURL("shop")); res.Status != http.StatusOK || res.Location() != "" ||
			len(res.Header.Values("Set-Cookie")) > 0 {
			t.Errorf("HEAD /oauth/authorize = %d %v, want 200 and nothing issued", res.Status, res.Header)
		}
		if res := signedIn.Head(h.AuthorizeURL("shop", "redirect_uri", authztest.Evil)); res.Status != http.StatusBadRequest ||
			res.Location() != "" {
			t.Errorf("HEAD /oauth/authorize with a foreign redirect URI = %d, want 400", res.Status)
		}
		h.Invariants(t)
	})
	t.Run("attack 36: identity providers that are not the client's", func(t *testing.T) {
		for _, with := range [][]string{
			{"idp", "partner"},
			{"idp", "../identity"},
			{"external_idp", "urn:com:service:saml:idp:other-organisation"},
			{"external_idp", "urn:com:service:saml:idp:"},
		} {
			res := b.Get(h.AuthorizeURL("shop", with...))
			authztest.WantPage(t, strings.Join(with, "="), res, http.StatusForbidden)
			if !strings.Contains(res.Body, "This sign-in method isn’t available here") {
				t.Errorf("Authorize(%q) page = %s", with, res.Body)
			}
		}
		refused(t, "invalid_request", "shop", "external_idp", "urn:other:partner")
		res := b.Get(h.AuthorizeURL("shop") + "&external_idp=urn:com:service:saml:idp:a&external_idp=urn:com:service:saml:idp:b")
		authztest.WantRedirectError(t, h, "two external_idp", res, "invalid_request")
		h.Invariants(t)
	})
	t.Run("attack 37: custom parameters over the limits", func(t *testing.T) {
		many := []string{}
		for i := range 21 {
			many = append(many, fmt.Sprintf("external_idp_custom_param.k%d", i), "v")
		}
		refused(t, "invalid_request", "shop", many...)
		refused(t, "invalid_request", "shop", "external_idp_custom_param."+strings.Repeat("k", 65), "v")
		refused(t, "invalid_request", "shop", "external_idp_custom_param.k", strings.Repeat("v", 513))
		refused(t, "invalid_request", "shop", "external_idp_custom_param.", "v")
		refused(t, "invalid_request", "shop", "external_idp_custom_param.k", "a\x01b")
		authztest.WantPage(t, "1 MB value",
			b.Post("/oauth/authorize", h.Params("shop", "external_idp_custom_param.k", strings.Repeat("v", 1<<20))), http.StatusBadRequest)
		b.Code("shop", "external_idp_custom_param.k", "</a><x>]]>", `external_idp_custom_param."`, "v")
		h.Invariants(t)
	})
	t.Run("attack 38: languages that are none", func(t *testing.T) {
		for _, language := range []string{
			"../../etc/passwd", "en_US_<script>", "en\r\nX-Evil: 1", strings.Repeat("e", 10<<10),
			"{env.HOME}", "e", "en_USA_x",
		} {
			fresh := h.Browser("")
			before := len(h.People.Demands())
			res := fresh.Authorize("shop", "language", language, "ui_locales", language)
			if !strings.HasPrefix(res.Location(), "/test/sign-in") {
				t.Errorf("Authorize(language=%.40q) = %d %q, want to sign in", language, res.Status, res.Location())
			}
			for _, d := range h.People.Demands()[before:] {
				for _, l := range d.Locales {
					if len(l) > 20 || strings.ContainsAny(l, "./<{\r") {
						t.Errorf("Authorize(language=%.40q) asks for locale %q", language, l)
					}
				}
			}
		}
		h.Invariants(t)
	})
	t.Run("attack 39: views that are none, scopes with control characters", func(t *testing.T) {
		b.Code("shop", "app_view", `"><img>`)
		for _, scope := range []string{"openid\x00", "openid\tprofile", "openid\nprofile", `openid "`, `open\id`, "openid \x7f", "openid é"} {
			refused(t, "invalid_scope", "shop", "scope", scope)
		}
		h.Invariants(t)
	})
}

func TestAttacksOnFlows(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	t.Run("attack 16: a token in the query or a form", func(t *testing.T) {
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		for _, mode := range []string{"query", "form_post", "query.jwt", "form_post.jwt", "web_message"} {
			for _, path := range []string{"/oauth/authorize?", "/oauth/v1/authorize?"} {
				res := b.Follow(path + h.Params("fragment", "response_type", "token", "response_mode", mode).Encode())
				authztest.WantRedirectError(t, h, mode, res, "invalid_request")
				if !strings.Contains(res.Location(), "#") || strings.Contains(res.Location(), "access_token") {
					t.Errorf("Authorize(token, %q) = %q, want an error in the fragment", mode, res.Location())
				}
			}
		}
		h.Invariants(t)
	})
	t.Run("attack 16: a client without the implicit grant", func(t *testing.T) {
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		for _, mode := range []string{"", "query", "fragment"} {
			res := b.Authorize("shop", "response_type", "token", "response_mode", mode)
			if strings.Contains(res.Location(), "token=") || !strings.Contains(res.Location(), "error=") {
				t.Errorf("Authorize(token, %q) = %q, want an error and no token", mode, res.Location())
			}
		}
		h.Invariants(t)
	})
	t.Run("attack 24: a verifier for a code without a challenge", func(t *testing.T) {
		code := h.Browser(authztest.Demo).Code("shop", "code_challenge", "", "code_challenge_method", "")
		if res := h.Redeem("shop", code); res.Status != http.StatusBadRequest || res.Text("error") != "invalid_grant" {
			t.Errorf("Token(verifier without challenge) = %d %s, want invalid_grant", res.Status, res.Body)
		}
		h.Invariants(t)
	})
	t.Run("attack 28: the flow of another browser", func(t *testing.T) {
		attacker, victim := h.Browser(""), h.Browser(authztest.Demo).SignIn(authztest.Demo)
		u, err := url.Parse(attacker.Authorize("shop").Location())
		if err != nil {
			t.Fatal(err)
		}
		flow := u.Query().Get("return")
		authztest.WantPage(t, "flow of another browser", victim.Get(flow), http.StatusForbidden)
		victim.Code("shop") // with a cookie of its own it is the same
		authztest.WantPage(t, "flow of another browser", victim.Get(flow), http.StatusForbidden)
		authztest.WantPage(t, "flow id alone", h.Get(flow), http.StatusForbidden)
		h.Invariants(t)
	})
	t.Run("attack 29: prompt=none never shows a page", func(t *testing.T) {
		authztest.WantRedirectError(t, h, "nobody", h.Browser("").Authorize("shop", "prompt", "none"), "login_required")
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		authztest.WantRedirectError(t, h, "no consent yet", b.Authorize("asks", "prompt", "none"), "consent_required")
		authztest.WantRedirectError(t, h, "level 2", b.Authorize("shop", "prompt", "none", "acr_values", "urn:gatehouse:level:2"),
			"interaction_required")
		h.Invariants(t)
	})
	t.Run("attack 32: after a form the browser goes on by GET", func(t *testing.T) {
		b := h.Browser(authztest.Demo)
		b.Decision = "-"
		action, fields := authztest.Form(b.Authorize("asks", "prompt", "consent").Body)
		fields.Set("decision", "allow")
		res := b.Post(action, fields)
		if res.Status != http.StatusSeeOther || !strings.Contains(res.Location(), "code=") {
			t.Errorf("Consent = %d %q, want 303 with a code", res.Status, res.Location())
		}
		h.Invariants(t)
	})
	t.Run("attack 34: pages tell nobody where they are", func(t *testing.T) {
		b := h.Browser(authztest.Demo)
		b.Decision = "-"
		page := b.Authorize("asks", "prompt", "consent")
		if page.Header.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("Referrer-Policy = %q, want same-origin", page.Header.Get("Referrer-Policy"))
		}
		for _, remote := range []string{`src="http`, `href="http`, `src="//`, `href="//`} {
			if strings.Contains(page.Body, remote) {
				t.Errorf("the consent page loads something from elsewhere: %s", remote)
			}
		}
		b.Decision = "allow"
		if res := b.Authorize("shop"); res.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("Referrer-Policy of the redirect = %q, want no-referrer", res.Header.Get("Referrer-Policy"))
		}
		h.Invariants(t)
	})
	t.Run("attack 98: bad ages", func(t *testing.T) {
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		for _, age := range []string{"-1", "9e99", "abc", "1.5", " 1", "+1", "0x10", strings.Repeat("9", 40)} {
			authztest.WantRedirectError(t, h, "max_age="+age, b.Authorize("shop", "max_age", age), "invalid_request")
		}
		h.Clock.Advance(time.Second)
		for _, age := range []string{"0"} {
			b := h.Browser("").SignIn(authztest.Demo)
			h.Clock.Advance(time.Second)
			if res := b.Authorize("shop", "max_age", age); !strings.HasPrefix(res.Location(), "/test/sign-in") {
				t.Errorf("Authorize(max_age=%s) = %q, want to sign in again", age, res.Location())
			}
		}
		h.Invariants(t)
	})
	t.Run("attack 99: prompts that contradict", func(t *testing.T) {
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		for _, prompt := range []string{"none login", "login none", "none consent", "none none"} {
			authztest.WantRedirectError(t, h, "prompt="+prompt, b.Authorize("shop", "prompt", prompt), "invalid_request")
		}
		authztest.WantRedirectError(t, h, "prompt twice", b.Get(h.AuthorizeURL("shop", "prompt", "login")+"&prompt=login"), "invalid_request")
		h.Invariants(t)
	})
	t.Run("attack 97: the nonce comes back exactly", func(t *testing.T) {
		for _, nonce := range []string{"n", strings.Repeat("n", 4096), `"quoted" <b> ✓`} {
			tokens := h.Tokens("shop", authztest.Demo, "nonce", nonce)
			if got := authztest.IDClaims(t, h, tokens.ID)["nonce"]; got != nonce {
				t.Errorf("nonce = %.40q, want %.40q", got, nonce)
			}
		}
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		authztest.WantRedirectError(t, h, "nonce of 4097 bytes", b.Authorize("shop", "nonce", strings.Repeat("n", 4097)), "invalid_request")
		h.Invariants(t)
	})
	t.Run("attack 101,102: request objects by value and by reference", func(t *testing.T) {
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		for _, object := range []string{"eyJhbGciOiJub25lIn0.e30.", "x", "", strings.Repeat("x", 10000)} {
			authztest.WantRedirectError(t, h, "request", b.Get(h.AuthorizeURL("shop")+"&request="+object), "request_not_supported")
		}
		caught := listen(t)
		for _, uri := range []string{"http://" + caught.addr + "/", "http://169.254.169.254/", "file:///etc/passwd"} {
			authztest.WantRedirectError(t, h, "request_uri", b.Authorize("shop", "request_uri", uri), "request_uri_not_supported")
		}
		caught.nothing(t)
		h.Invariants(t)
	})
}

// listener records whether a client connected.
type listener struct {
	addr string
	l    net.Listener
	came chan string
}

func listen(t *testing.T) *listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	out := &listener{addr: l.Addr().String(), l: l, came: make(chan string, 16)}
	go func() {
		defer close(out.came)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(c).ReadString('\n') //nolint:errcheck // the outcome is reported
			out.came <- line
			c.Close() //nolint:errcheck // already reported
		}
	}()
	return out
}

// nothing fails the test when a client connected.
func (l *listener) nothing(t *testing.T) {
	t.Helper()
	l.l.Close() //nolint:errcheck // ends the goroutine
	for line := range l.came {
		t.Errorf("an outbound connection came: %q", line)
	}
}
