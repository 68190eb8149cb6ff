package authz_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
)

// TestUserinfoForATokenThatIsMeantForAnother: a token that is meant for an API tells no one who its person is, unless
// the issuer is among its resources.
func TestUserinfoForATokenThatIsMeantForAnother(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(s *client.Client) {
			s.Audiences = []string{"https://api.example.com", c.Issuer, c.Issuer + "/oauth/userinfo"}
		})
	}))
	for name, tt := range map[string]struct {
		resources []string
		want      int
	}{
		"none":             {nil, http.StatusOK},
		"an API":           {[]string{"https://api.example.com"}, http.StatusUnauthorized},
		"the issuer":       {[]string{h.Issuer}, http.StatusOK},
		"the endpoint":     {[]string{h.Issuer + "/oauth/userinfo"}, http.StatusOK},
		"an API, and POST": {[]string{"https://api.example.com"}, http.StatusUnauthorized},
	} {
		var more []string
		for _, r := range tt.resources {
			more = append(more, "resource", r)
		}
		token := h.Tokens("shop", authztest.Demo, more...).Access
		res := h.Get("/oauth/userinfo", "Authorization", "Bearer "+token)
		if strings.HasSuffix(name, "POST") {
			res = h.Do(http.MethodPost, "/oauth/userinfo", "", "Authorization", "Bearer "+token)
		}
		if res.Status != tt.want || tt.want == http.StatusUnauthorized &&
			!strings.Contains(res.Header.Get("WWW-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s: userinfo status = %d, want %d; %s", name, res.Status, tt.want, res.Body)
		}
	}
	h.Invariants(t)
}

// TestConsentNamesTheSites: the page of a consent says which sites the token opens, and no others.
func TestConsentNamesTheSites(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		c.Acceptances = []client.Acceptance{
			{Origins: []string{"https://orders.example.com"}, Scopes: []string{"orders.read"}},
			{Origins: []string{"https://wiki.example.com"}, Login: true},
			{Origins: []string{"https://any.example.com"}, Login: true, Any: true},
			{Origins: []string{"https://shop.example.com"}, Login: true, Clients: []string{"asks"}},
			{Origins: []string{"https://payroll.example.com"}, Scopes: []string{"payroll"}},
		}
	}))
	for scope, want := range map[string]string{
		"openid":             "any shop",
		"openid orders.read": "any orders shop",
	} {
		b := h.Browser(authztest.Guest)
		b.Code("asks", "scope", scope, "prompt", "consent")
		page := ""
		for _, p := range b.Pages {
			page += p.Body
		}
		var got []string
		for _, name := range []string{"any", "orders", "payroll", "shop", "wiki"} {
			if strings.Contains(page, "<b>https://"+name+".example.com</b>") {
				got = append(got, name)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("the consent page for %q names the sites %q, want %q", scope, s, want)
		}
	}
}

// TestResourceAfterTheConsent: what a person was not asked about is not added at the token endpoint.
func TestResourceAfterTheConsent(t *testing.T) {
	t.Parallel()
	const wiki, shop = "https://wiki.example.com", "https://shop.example.com"
	authztest.Attack(t, "attack 3260: a resource that the consent did not name, with the code, later, by a device",
		func(t *testing.T, h *authztest.Harness) {
			with := func(form url.Values, resource string) url.Values {
				form.Set("resource", resource)
				return form
			}
			refresh := func(token string) url.Values {
				return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
			}
			b := h.Browser(authztest.Guest)
			form := with(h.CodeForm("asks", b.Code("asks", "scope", "openid")), wiki)
			authztest.WantError(t, "with the code", h.Token("asks", form), http.StatusBadRequest, "invalid_target")
			plain := b.Tokens("asks", "scope", "openid")
			authztest.WantError(t, "later", h.Token("asks", with(refresh(plain.Refresh), wiki)), http.StatusBadRequest, "invalid_target")
			authztest.WantStatus(t, "later, without it", h.Refresh("asks", plain.Refresh), http.StatusOK)
			named := b.Tokens("asks", "scope", "openid", "resource", wiki)
			authztest.WantError(t, "another one than was named", h.Token("asks", with(refresh(named.Refresh), shop)),
				http.StatusBadRequest, "invalid_target")
			authztest.WantStatus(t, "the one that was named", h.Token("asks", with(refresh(named.Refresh), wiki)), http.StatusOK)
			begun := authztest.BeginDevice(t, h, "openid")
			h.Browser(authztest.Demo).Decide(begun.Text("user_code"), "allow")
			device := url.Values{"grant_type": {authztest.DeviceGrant}, "device_code": {begun.Text("device_code")}}
			authztest.WantError(t, "by a device", h.Token("tv", with(device, "https://api.example.com")), http.StatusBadRequest, "invalid_target")
			// Who asks no one names it when it likes.
			open := h.Tokens("shop", authztest.Demo, "scope", "openid")
			authztest.WantStatus(t, "a client without consent", h.Token("shop", with(refresh(open.Refresh), "https://api.example.com")),
				http.StatusOK)
		}, authztest.WithTV(), authztest.WithConfig(func(c *authz.Config) {
			authztest.ChangeClient(c, "asks", func(c *client.Client) { c.Audiences = []string{wiki, shop} })
		}))
}

// TestConsentIsForTheResources: who has allowed an application to know who they are has not allowed it the site that it
// names later.
func TestConsentIsForTheResources(t *testing.T) {
	t.Parallel()
	const wiki, shop = "https://wiki.example.com", "https://shop.example.com"
	authztest.Attack(t, "attack 4843: a resource after the consent", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Guest)
		for _, tt := range []struct {
			name      string
			resources []string
			want      bool
		}{
			{"the first time", nil, true},
			{"the same", nil, false},
			{"a site", []string{wiki}, true},
			{"the site again", []string{wiki}, false},
			{"another site", []string{shop}, true},
			{"no site", nil, false},
		} {
			if got := askedFor(b, "openid", tt.resources...); got != tt.want {
				t.Errorf("%s: the person is asked: %t, want %t", tt.name, got, tt.want)
			}
		}
	}, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "asks", func(c *client.Client) { c.Audiences = []string{wiki, shop} })
	}))
}

// askedFor reports whether a person is asked about scopes for resources.
func askedFor(b *authztest.Browser, scope string, resources ...string) bool {
	changes := []string{"scope", scope}
	for _, r := range resources {
		changes = append(changes, "resource", r)
	}
	before := len(b.Pages)
	b.Code("asks", changes...)
	return slices.ContainsFunc(b.Pages[before:], func(p *authztest.Response) bool { return strings.Contains(p.Body, "/oauth/consent?flow=") })
}

// TestConsentForAResourceIsForNoOther: a token without an audience opens every site that accepts its scopes. Who was
// asked about one site has not allowed that.
func TestConsentForAResourceIsForNoOther(t *testing.T) {
	t.Parallel()
	const wiki, shop = "https://wiki.example.com", "https://shop.example.com"
	type wish struct {
		scope     string
		resources []string
	}
	for name, tt := range map[string]struct {
		before []wish
		now    wish
		want   bool
	}{
		"attack 7354: no resource after one": {[]wish{{"openid orders.read", []string{wiki}}}, wish{"openid orders.read", nil}, true},
		"attack 7354: the scopes of two resources together, for none": {
			[]wish{{"openid", []string{wiki}}, {"orders.read", []string{shop}}}, wish{"openid orders.read", nil}, true,
		},
		"attack 7354: a scope of a resource in addition to those for none": {
			[]wish{{"openid", nil}, {"openid orders.read", []string{wiki}}}, wish{"openid orders.read", nil}, true,
		},
		"what was allowed for none, with a resource since": {[]wish{{"openid", nil}, {"openid", []string{wiki}}}, wish{"openid", nil}, false},
		"what was allowed for none, in two steps":          {[]wish{{"openid", nil}, {"orders.read", nil}}, wish{"openid orders.read", nil}, false},
	} {
		authztest.Attack(t, name, func(t *testing.T, h *authztest.Harness) {
			b := h.Browser(authztest.Guest)
			for _, w := range tt.before {
				askedFor(b, w.scope, w.resources...)
			}
			if got := askedFor(b, tt.now.scope, tt.now.resources...); got != tt.want {
				t.Errorf("the person is asked: %t, want %t", got, tt.want)
			}
		}, authztest.WithConfig(func(c *authz.Config) {
			authztest.ChangeClient(c, "asks", func(c *client.Client) { c.Audiences = []string{wiki, shop} })
		}))
	}
}

// TestConsentOfADeviceIsForItsResource: a device asks for a site, and its application then asks in a browser for a
// token without an audience.
func TestConsentOfADeviceIsForItsResource(t *testing.T) {
	t.Parallel()
	const wiki, shop = "https://wiki.example.com", "https://shop.example.com"
	authztest.Attack(t, "attack 7354: no resource after that of a device", func(t *testing.T, h *authztest.Harness) {
		allow := func(resource ...string) {
			begun := h.Call("/oauth/device_authorization", "asks", url.Values{"scope": {"openid"}, "resource": resource})
			h.Browser(authztest.Demo).Decide(begun.Text("user_code"), "allow")
		}
		b := h.Browser(authztest.Demo)
		allow(wiki)
		b.Decision = "-" // to be asked again by the next request
		for resource, want := range map[string]bool{wiki: false, shop: true} {
			if got := b.Authorize("asks", "scope", "openid", "resource", resource).Status == http.StatusOK; got != want {
				t.Errorf("for %s the person is asked: %t, want %t", resource, got, want)
			}
		}
		if got := b.Authorize("asks", "scope", "openid").Status == http.StatusOK; !got {
			t.Error("without a resource the person is not asked")
		}
		allow()
		if got := b.Authorize("asks", "scope", "openid").Status == http.StatusOK; got {
			t.Error("the person is asked for what the device was allowed without a resource")
		}
	}, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "asks", func(c *client.Client) {
			c.Audiences, c.Grants = []string{wiki, shop}, append(slices.Clone(c.Grants), "device_code")
		})
	}))
}
