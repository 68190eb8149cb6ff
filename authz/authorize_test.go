package authz_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestAuthorize(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for _, path := range []string{"/oauth/authorize", "/oauth/v1/authorize"} {
		res := h.Browser(authztest.Demo).Follow(path + "?" + h.Params("shop").Encode())
		if res.Status != http.StatusFound {
			t.Fatalf("Authorize = %d %s, want 302", res.Status, res.Body)
		}
		target, params := res.Redirect()
		want := url.Values{"code": {params.Get("code")}, "state": {"the state"}, "iss": {h.Issuer}}
		if target != "https://shop.example.com/callback" || params.Encode() != want.Encode() {
			t.Errorf("Location = %s, want code, state and iss", res.Location())
		}
		if token := h.Redeem("shop", params.Get("code")); token.Status != http.StatusOK {
			t.Errorf("Token = %d %s, want 200", token.Status, token.Body)
		}
	}
	h.Invariants(t)
}

func TestAuthorizeByPost(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	res := h.Post("/oauth/authorize", h.Params("shop")) // from the client's site: no cookie comes along
	if res.Status != http.StatusSeeOther || !strings.HasPrefix(res.Location(), "/oauth/authorize?") {
		t.Fatalf("Authorize(POST) = %d %q, want 303 to the same by GET", res.Status, res.Location())
	}
	if _, params := b.Follow(res.Location()).Redirect(); params.Get("code") == "" || params.Get("state") != "the state" {
		t.Errorf("Authorize(POST) leads to %v, want a code and the state", params)
	}
	authztest.WantRedirectError(t, h, "POST without scope", h.Post("/oauth/authorize", h.Params("shop", "scope", "nonsense")), "invalid_scope")
	h.Invariants(t)
}

// TestAuthorizeAccepts holds that optional parameters of clients cause no error.
func TestAuthorizeAccepts(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	for _, extra := range [][]string{
		{"nonce", ""},
		{"state", ""},
		{"extra", "foobar"},
		{"flow", "a parameter of the client"},
		{"display", "page"},
		{"display", "popup"},
		{"login_hint", "demo@example.com"},
		{"ui_locales", "nl-NL en"},
		{"claims_locales", "nl"},
		{"acr_values", "1 2 urn:gatehouse:level:1"},
		{"claims", `{"userinfo":{"name":{"essential":true}}}`},
		{"scope", "profile openid"},
		{"max_age", "10000"},
		{"response_mode", "query"},
		{"idp", "identity"},
		{"app_view", "mobile"},
		{"resource", "https://api.example.com"},
		{"code_challenge", "", "code_challenge_method", ""},
		{"external_idp_custom_param.branch", "north"},
		{"prompt", "login"},
		{"scope", "openid offline_access"},
	} {
		if res := b.Authorize("shop", extra...); res.Status != http.StatusFound || !strings.Contains(res.Location(), "code=") {
			t.Errorf("Authorize(%q) = %d %q, want a code", extra, res.Status, res.Location())
		}
		h.Clock.Advance(time.Second)
	}
	h.Invariants(t)
}

func TestAuthorizeRefuses(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	for _, c := range []struct {
		name   string
		client string
		with   []string
		err    string
	}{
		{"unknown scope", "shop", []string{"scope", "openid nonsense"}, "invalid_scope"},
		{"scope of another", "spa", []string{"scope", "openid orders.read"}, "invalid_scope"},
		{"no scope and no default", "bare", []string{"scope", ""}, "invalid_scope"},
		{"resource of nobody", "shop", []string{"resource", "https://else.example.com"}, "invalid_target"},
		{"unknown prompt", "shop", []string{"prompt", "whatever"}, "invalid_request"},
		{"implicit", "shop", []string{"response_type", "token"}, "unauthorized_client"},
		{"hybrid", "shop", []string{"response_type", "code id_token"}, "unsupported_response_type"},
		{"unknown response mode", "shop", []string{"response_mode", "web_message"}, "invalid_request"},
		{
			"form post to an application's scheme", "native",
			[]string{"response_mode", "form_post", "redirect_uri", "com.example.app:/cb"},
			"invalid_request",
		},
		{"client credentials only", "machine", nil, "unauthorized_client"},
		{"method without challenge", "shop", []string{"code_challenge", ""}, "invalid_request"},
		{"no challenge where it must be", "strict", []string{"code_challenge", "", "code_challenge_method", ""}, "invalid_request"},
		{"registration", "shop", []string{"registration", "{}"}, "registration_not_supported"},
		{"a level out of reach", "shop", []string{"acr_values", "urn:gatehouse:level:4"}, "unmet_authentication_requirements"},
		{"wrong prefix of external_idp", "shop", []string{"external_idp", "partner"}, "invalid_request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, b := h, b
			if c.client == "bare" || c.client == "machine" || c.client == "strict" {
				h = authztest.New(t, withVariant(c.client))
				b = h.Browser(authztest.Demo).SignIn(authztest.Demo)
			}
			authztest.WantRedirectError(t, h, c.name, b.Follow(h.AuthorizeURL(c.client, c.with...)), c.err)
			h.Invariants(t)
		})
	}
}

func withVariant(id string) authztest.Option {
	return authztest.WithConfig(func(cfg *authz.Config) {
		c := *cfg.Clients[0]
		c.ID = id
		switch id {
		case "bare":
			c.DefaultScopes = nil
		case "machine":
			c.Grants = []string{"client_credentials"}
		case "strict":
			c.PKCERequired = true
		}
		cfg.Clients = append(cfg.Clients, &c)
	})
}

func TestAuthorizePrompt(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	nobody := func() *authztest.Browser { return h.Browser("") }
	signedIn := func() *authztest.Browser {
		b := h.Browser("").SignIn(authztest.Demo)
		h.Clock.Advance(time.Minute)
		return b
	}
	hint := h.Tokens("shop", authztest.Demo).ID
	foreign := h.Tokens("shop", authztest.Guest).ID
	for _, c := range []struct {
		name string
		b    func() *authztest.Browser
		with []string
		want string // code, asks, or an error
	}{
		{"none, nobody", nobody, []string{"prompt", "none"}, "login_required"},
		{"none, signed in", signedIn, []string{"prompt", "none"}, "code"},
		{"none, too old", signedIn, []string{"prompt", "none", "max_age", "10"}, "login_required"},
		{"none, hinted", signedIn, []string{"prompt", "none", "id_token_hint", hint}, "code"},
		{"none, another hinted", signedIn, []string{"prompt", "none", "id_token_hint", foreign}, "login_required"},
		{"another hinted", signedIn, []string{"id_token_hint", foreign}, "asks"},
		{"login", signedIn, []string{"prompt", "login"}, "asks"},
		{"select_account", signedIn, []string{"prompt", "select_account"}, "asks"},
		{"create", signedIn, []string{"prompt", "create"}, "asks"},
		{"create and none", nobody, []string{"prompt", "create none"}, "invalid_request"},
		{"login and consent", signedIn, []string{"prompt", "login consent"}, "asks"},
		{"max_age 0", signedIn, []string{"max_age", "0"}, "asks"},
		{"max_age 59", signedIn, []string{"max_age", "59"}, "asks"},
		{"max_age 60", signedIn, []string{"max_age", "60"}, "code"},
		{"nothing", signedIn, nil, "code"},
		{"nobody", nobody, nil, "asks"},
	} {
		res := c.b().Authorize("shop", c.with...)
		_, params := res.Redirect()
		got := params.Get("error")
		switch {
		case params.Get("code") != "":
			got = "code"
		case strings.HasPrefix(res.Location(), "/test/sign-in"):
			got = "asks"
		}
		if got != c.want {
			t.Errorf("%s: Authorize(%q) = %s (%d %q), want %s", c.name, c.with, got, res.Status, res.Location(), c.want)
		}
	}
	h.Invariants(t)
}

func TestAuthorizeSelectAccount(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser("").SignIn(authztest.Demo)
	h.Clock.Advance(time.Hour)
	ask := b.Authorize("shop", "prompt", "select_account", "max_age", "3600")
	h.Clock.Advance(time.Minute) // the person thinks
	back := b.Confirm(ask.Location())
	if _, params := b.Follow(back.Location()).Redirect(); params.Get("code") == "" {
		t.Errorf("after the confirmation: %v, want a code: max_age counts from the request", params)
	}
	// Confirmed as another person than the hint names.
	hint := h.Tokens("shop", authztest.Guest).ID
	h.Clock.Advance(time.Minute)
	ask = b.Authorize("shop", "id_token_hint", hint)
	back = b.Confirm(ask.Location())
	authztest.WantRedirectError(t, h, "another person", b.Follow(back.Location()), "login_required")
	h.Invariants(t)
}

func TestAuthorizeClientSession(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) { c.Clients[0].Lifetimes.Session = time.Hour }))
	b := h.Browser("").SignIn(authztest.Demo)
	h.Clock.Advance(time.Hour)
	b.Code("shop")
	h.Clock.Advance(time.Second)
	if res := b.Authorize("shop"); !strings.HasPrefix(res.Location(), "/test/sign-in") {
		t.Errorf("Authorize = %d %q, want to sign in again: the client takes a sign-in of an hour", res.Status, res.Location())
	}
	h.Invariants(t)
}

// TestAuthorizeForcedSelectAccount: a click on one's own name does not count as a sign-in.
func TestAuthorizeForcedSelectAccount(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser("").SignIn(authztest.Demo)
	for _, with := range [][]string{{"prompt", "login select_account"}, {"prompt", "select_account", "max_age", "0"}} {
		h.Clock.Advance(time.Minute)
		b.Authorize("shop", with...)
		demands := h.People.Demands()
		d := demands[len(demands)-1]
		if d.SelectAccount || d.NotBefore.IsZero() {
			t.Errorf("Authorize(%q) demands SelectAccount %v, NotBefore %v, want a new sign-in", with, d.SelectAccount, d.NotBefore)
		}
	}
	h.Invariants(t)
}

// TestAuthorizeDemand holds what is demanded of the sign-in page.
func TestAuthorizeDemand(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.Browser("").Authorize("shop", "language", "nl_BE_x1", "ui_locales", "en fr-CA", "app_view", "mobile", "login_hint",
		"demo", "idp", "identity",
		"acr_values", "urn:gatehouse:level:3 urn:gatehouse:level:2", "external_idp_custom_param.branch", "north")
	demands := h.People.Demands()
	d := demands[len(demands)-1]
	if want := []string{"nl-BE-x1", "nl-BE", "nl", "en", "fr-CA"}; !slices.Equal(d.Locales, want) {
		t.Errorf("Locales = %q, want %q", d.Locales, want)
	}
	if d.View != "mobile" || d.Hint != "demo" || d.Level != 2 || d.Provider != "identity" || d.CustomParams["branch"][0] != "north" {
		t.Errorf("Demand = %+v", d)
	}
	if d.Client.Name != "The shop" || d.Client.Targets[0] != "https://shop.example.com" {
		t.Errorf("Demand.Client = %+v", d.Client)
	}
}

func TestAuthorizeLevel(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) { c.Clients[0].Scopes = append(c.Clients[0].Scopes, "secure.read") }))
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	authztest.WantRedirectError(t, h, "step-up under none", b.Authorize("shop", "scope", "openid secure.read", "prompt", "none"),
		"interaction_required")
	tokens := b.Tokens("shop", "scope", "openid secure.read")
	if acr := authztest.IDClaims(t, h, tokens.ID)["acr"]; acr != "urn:gatehouse:level:2" {
		t.Errorf("acr = %v, want level 2", acr)
	}
	h.Invariants(t)
}

func TestAuthorizeResume(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser("")
	first, second := b.Authorize("shop", "state", "one"), b.Authorize("spa", "state", "two")
	flow := func(res *authztest.Response) string {
		u, err := url.Parse(res.Location())
		if err != nil {
			t.Fatal(err)
		}
		return u.Query().Get("return")
	}
	t.Run("two tabs", func(t *testing.T) {
		b.SignIn(authztest.Demo)
		for _, tab := range []struct {
			res   *authztest.Response
			state string
		}{{first, "one"}, {second, "two"}, {first, "one"}} { // the last: back and reload
			if _, params := b.Follow(flow(tab.res)).Redirect(); params.Get("code") == "" || params.Get("state") != tab.state {
				t.Errorf("tab %s ends with %v", tab.state, params)
			}
		}
	})
	t.Run("cancel", func(t *testing.T) {
		res := b.Get(flow(first) + "&cancel=true")
		authztest.WantRedirectError(t, h, "cancel", res, "access_denied")
	})
	t.Run("unknown", func(t *testing.T) {
		authztest.WantPage(t, "unknown flow", b.Get("/oauth/authorize?flow=nothing"), http.StatusBadRequest)
		authztest.WantPage(t, "long flow", b.Get("/oauth/authorize?flow="+strings.Repeat("x", 3000)), http.StatusBadRequest)
	})
	t.Run("expired", func(t *testing.T) {
		h.Clock.Advance(time.Hour)
		res := b.Get(flow(first))
		authztest.WantPage(t, "expired flow", res, http.StatusBadRequest)
		if !strings.Contains(res.Body, "&amp;again=true") {
			t.Fatalf("the page of an expired request has no way to start again: %s", res.Body)
		}
		again := b.Get(flow(first) + "&again=true")
		u, err := url.Parse(again.Location())
		if err != nil {
			t.Fatal(err)
		}
		want := h.Params("shop", "state", "one")
		if u.Path != "/oauth/authorize" || u.Query().Encode() != want.Encode() {
			t.Errorf("again leads to %s, want the request as it was: %s", u.RawQuery, want.Encode())
		}
	})
	h.Invariants(t)
}

func TestAuthorizeResumeKeepsParameters(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser("")
	with := []string{
		"prompt", "consent", "max_age", "7", "login_hint", "demo", "acr_values", "urn:gatehouse:level:1", "ui_locales", "nl", "app_view",
		"mobile", "idp", "identity",
		"resource", "https://api.example.com", "external_idp_custom_param.k", "v", "response_mode", "query",
	}
	u, err := url.Parse(b.Authorize("shop", with...).Location())
	if err != nil {
		t.Fatal(err)
	}
	again, err := url.Parse(b.Get(u.Query().Get("return") + "&again=true").Location())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := again.Query().Encode(), h.Params("shop", with...).Encode(); got != want {
		t.Errorf("again = %s\nwant    %s", got, want)
	}
}

// TestAuthorizeChanged holds that changes during a sign-in take effect.
func TestAuthorizeChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*authztest.Harness, *authztest.Browser)
		want   string
	}{
		{"client disabled", func(h *authztest.Harness, _ *authztest.Browser) {
			h.Restart(func(cfg *authz.Config) { cfg.Clients[0].Disabled = true })
		}, "page"},
		{"redirect URI gone", func(h *authztest.Harness, _ *authztest.Browser) {
			h.Restart(func(cfg *authz.Config) { cfg.Clients[0].RedirectURIs = []string{"https://shop.example.com/new"} })
		}, "page"},
		{"client gone", func(h *authztest.Harness, _ *authztest.Browser) {
			h.Restart(func(cfg *authz.Config) { cfg.Clients = cfg.Clients[1:] })
		}, "page"},
		{"person blocked", func(h *authztest.Harness, _ *authztest.Browser) {
			h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
		}, "asks"},
		{"nothing", func(*authztest.Harness, *authztest.Browser) {}, "code"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := authztest.New(t)
			b := h.Browser("")
			u, err := url.Parse(b.Authorize("shop").Location())
			if err != nil {
				t.Fatal(err)
			}
			b.SignIn(authztest.Demo)
			c.change(h, b)
			res := b.Follow(u.Query().Get("return"))
			switch c.want {
			case "page":
				authztest.WantPage(t, c.name, res, http.StatusBadRequest)
			case "asks":
				if !strings.HasPrefix(res.Location(), "/test/sign-in") {
					t.Errorf("Authorize = %d %q, want to sign in", res.Status, res.Location())
				}
			default:
				if !strings.Contains(res.Location(), "code=") {
					t.Errorf("Authorize = %d %q, want a code", res.Status, res.Location())
				}
			}
			h.Invariants(t)
		})
	}
}

// TestAuthorizeInBetween holds that the transaction that issues a code checks everything once more.
func TestAuthorizeInBetween(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*authztest.Harness, *authn.Result){
		"session ended": func(h *authztest.Harness, r *authn.Result) { h.People.EndSession(r.SessionID) },
		"person blocked": func(h *authztest.Harness, r *authn.Result) {
			h.People.Change(r.Subject, func(s *authn.Subject) { s.Active = false })
		},
		"password changed": func(h *authztest.Harness, r *authn.Result) {
			h.People.Change(r.Subject, func(s *authn.Subject) { s.Epoch++ })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := authztest.New(t)
			b := h.Browser("").SignIn(authztest.Demo)
			start := authztest.BeginSite(t, h, authz.SiteDemand{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/"})
			h.People.After(func(r *authn.Result) { change(h, r) })
			authztest.WantRedirectError(t, h, name, b.Authorize("shop"), "login_required")
			h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = true })
			if res := b.SignIn(authztest.Demo).Follow(start); strings.Contains(res.Location(), authz.SiteCodeParam) {
				t.Errorf("Site = %q, want no code", res.Location())
			}
			h.Invariants(t)
		})
	}
}

func TestAuthorizeStorageFails(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	h.AllowFailures()
	h.Store.Fail(storage.ErrUnavailable)
	if res := b.Authorize("shop"); res.Status != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || res.Location() != "" {
		t.Errorf("Authorize = %d %q, want 503 with Retry-After", res.Status, res.Location())
	}
	// A script with prompt=none cannot read our pages.
	authztest.WantRedirectError(t, h, "prompt=none", b.Authorize("shop", "prompt", "none"), "temporarily_unavailable")
	h.Store.Fail(nil)
	h.People.Fail(storage.ErrUnavailable)
	if res := b.Authorize("shop"); res.Status != http.StatusServiceUnavailable {
		t.Errorf("Authorize = %d, want 503", res.Status)
	}
	h.People.Fail(nil)
	b.Code("shop")
	h.Invariants(t)
}
