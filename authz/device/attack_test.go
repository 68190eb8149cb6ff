package device_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// TestDeviceEndsWithWhatItRestsOn: between the person's yes and the device's next question everything is looked at
// again.
func TestDeviceEndsWithWhatItRestsOn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  func(t *testing.T, h *authztest.Harness, b *authztest.Browser)
		code string
	}{
		"the person is blocked": {func(_ *testing.T, h *authztest.Harness, _ *authztest.Browser) {
			h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
		}, "invalid_grant"},
		"the password is changed": {func(_ *testing.T, h *authztest.Harness, _ *authztest.Browser) {
			h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Epoch++ })
		}, "invalid_grant"},
		"the session ends": {
			func(_ *testing.T, h *authztest.Harness, b *authztest.Browser) { h.People.EndSession(b.Session()) },
			"invalid_grant",
		},
		"the consent is withdrawn": {func(t *testing.T, h *authztest.Harness, _ *authztest.Browser) {
			if _, err := h.Server().WithdrawConsent(t.Context(), authztest.Demo, "tv", authztest.Admin); err != nil {
				t.Fatal(err)
			}
		}, "invalid_grant"},
		"the client loses its scopes": {func(_ *testing.T, h *authztest.Harness, _ *authztest.Browser) {
			h.Restart(func(c *authz.Config) {
				authztest.ChangeClient(c, "tv", func(c *client.Client) { c.Scopes, c.DefaultScopes = []string{"profile"}, nil })
			})
		}, "invalid_scope"},
		"the client loses the grant": {func(_ *testing.T, h *authztest.Harness, _ *authztest.Browser) {
			h.Restart(func(c *authz.Config) {
				authztest.ChangeClient(c, "tv", func(c *client.Client) {
					c.Grants, c.RedirectURIs = []string{"authorization_code"}, []string{"https://tv.example.com/"}
				})
			})
		}, "unauthorized_client"},
	} {
		authztest.Attack(t, name, func(t *testing.T, h *authztest.Harness) {
			begun := authztest.BeginDevice(t, h, "openid orders.read")
			b := h.Browser(authztest.Demo)
			if res := b.Decide(begun.Text("user_code"), "allow"); !strings.Contains(res.Body, "connected") {
				t.Fatalf("Allow = %d %s", res.Status, res.Body)
			}
			tc.end(t, h, b)
			authztest.WantError(t, name, authztest.PollDevice(h, begun), 400, tc.code)
			authztest.WantError(t, name+", again", authztest.PollDevice(h, begun), 400, tc.code)
		}, authztest.WithTV())
	}
}

// TestDeviceOfALockedPerson: an account that is locked between two steps gives a device nothing, and the session that
// outlives the lock gives no consent; nor does any of it come back with the account.
func TestDeviceOfALockedPerson(t *testing.T) {
	t.Parallel()
	lock := func(h *authztest.Harness, locked bool) {
		h.People.Change(authztest.Demo, func(s *authn.Subject) {
			if s.Active = !locked; locked {
				s.Epoch++
			}
		})
	}
	authztest.Attack(t, "attack 4318: locked after the yes", func(t *testing.T, h *authztest.Harness) {
		begun := authztest.BeginDevice(t, h, "openid")
		h.Browser(authztest.Demo).Decide(begun.Text("user_code"), "allow")
		lock(h, true)
		authztest.WantError(t, "locked", authztest.PollDevice(h, begun), 400, "invalid_grant")
		lock(h, false)
		authztest.WantError(t, "unlocked", authztest.PollDevice(h, begun), 400, "invalid_grant")
	}, authztest.WithTV())
	authztest.Attack(t, "attack 4318: locked while the question is shown", func(t *testing.T, h *authztest.Harness) {
		begun := authztest.BeginDevice(t, h, "openid")
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		asked := b.Follow(b.Enter(begun.Text("user_code")).Location())
		action, fields := authztest.Form(asked.Body)
		if !strings.HasPrefix(action, "/device/allow") {
			t.Fatalf("the question = %d %s", asked.Status, asked.Body)
		}
		fields.Set("decision", "allow")
		lock(h, true)
		if res := b.Post(action, fields); strings.Contains(res.Body, "connected") {
			t.Errorf("Allow while locked = %d %s", res.Status, res.Body)
		}
		authztest.WantError(t, "the device", authztest.PollDevice(h, begun), 400, "authorization_pending")
	}, authztest.WithTV())
	authztest.Attack(t, "attack 4318: locked between the sign-in and the yes", func(t *testing.T, h *authztest.Harness) {
		begun := authztest.BeginDevice(t, h, "openid")
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		action, fields := authztest.Form(b.Follow(b.Enter(begun.Text("user_code")).Location()).Body)
		fields.Set("decision", "allow")
		h.People.After(func(*authn.Result) {
			h.People.After(nil)
			lock(h, true)
		})
		if res := b.Post(action, fields); strings.Contains(res.Body, "connected") {
			t.Errorf("Allow of a session that outlives the lock = %d %s", res.Status, res.Body)
		}
		authztest.WantError(t, "the device", authztest.PollDevice(h, begun), 400, "authorization_pending")
	}, authztest.WithTV())
	authztest.Attack(t, "attack 4318: a token from before the lock allows", func(t *testing.T, h *authztest.Harness) {
		begun := authztest.BeginDevice(t, h, "openid")
		token := h.Tokens("wallet", authztest.Demo, "scope", "openid access:device-authorization:approve").Access
		lock(h, true)
		authztest.WantError(t, "locked", approveAs(h, begun, token), 401, "invalid_token")
		lock(h, false)
		authztest.WantError(t, "unlocked", approveAs(h, begun, token), 401, "invalid_token")
		authztest.WantError(t, "the device", authztest.PollDevice(h, begun), 400, "authorization_pending")
	}, authztest.WithTV())
	authztest.Attack(t, "attack 4318: locked while consent is asked for", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		h.People.After(func(*authn.Result) {
			h.People.After(nil)
			lock(h, true)
		})
		b.Person = ""
		if res := b.Follow(h.AuthorizeURL("asks", "prompt", "consent")); strings.Contains(res.Location(), "code=") {
			t.Errorf("Authorize of a session that outlives the lock = %d %s", res.Status, res.Location())
		}
	})
}

// approveAs allows a device with a token, as an application of the person.
func approveAs(h *authztest.Harness, begun *authztest.Response, token string) *authztest.Response {
	return h.Post("/oauth/device_authorization/approve?user_code="+url.QueryEscape(begun.Text("user_code")), url.Values{},
		"Authorization", "Bearer "+token)
}

// TestApprovalTakesTheSecondStep: an application that approves a device stands for the page, which would ask for the
// second step of the device's client.
func TestApprovalTakesTheSecondStep(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		asks   string
		has    bool
		status int
	}{
		"attack 2538: always":                   {authn.SecondFactorAlways, false, 403},
		"attack 2538: when set up, and it is":   {authn.SecondFactorWhenSetUp, true, 403},
		"attack 2538: by default, and it is":    {"", true, 403},
		"attack 2538: by default, and it isn't": {"", false, 204},
		"attack 2538: on demand":                {authn.SecondFactorOnDemand, true, 204},
	} {
		authztest.Attack(t, name, func(t *testing.T, h *authztest.Harness) {
			begun := authztest.BeginDevice(t, h, "openid")
			token := h.Tokens("wallet", authztest.Demo, "scope", "openid access:device-authorization:approve").Access
			h.People.SetUpSecondFactor(tt.has)
			if res := approveAs(h, begun, token); res.Status != tt.status || tt.status == 403 &&
				res.Text("error") != "insufficient_user_authentication" {
				t.Errorf("Approve = %d %s, want %d", res.Status, res.Body, tt.status)
			}
		}, authztest.WithTV(), authztest.WithConfig(func(c *authz.Config) {
			authztest.ChangeClient(c, "tv", func(c *client.Client) { c.SecondFactor = tt.asks })
		}))
	}
}

// TestDevicePageNamesTheSites: the page says which sites the token of a device opens, by the resources asked for.
func TestDevicePageNamesTheSites(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithTV(), authztest.WithConfig(func(c *authz.Config) {
		c.Acceptances = []client.Acceptance{
			{Origins: []string{"https://api.example.com"}, Login: true},
			{Origins: []string{"https://any.example.com"}, Login: true, Any: true},
		}
	}))
	for resource, want := range map[string]string{"": "https://any.example.com", "https://api.example.com": "https://api.example.com"} {
		form := url.Values{"scope": {"openid"}}
		if resource != "" {
			form.Set("resource", resource)
		}
		begun := h.Call("/oauth/device_authorization", "tv", form)
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		page := b.Follow(b.Enter(begun.Text("user_code")).Location()).Body
		for _, site := range []string{"https://any.example.com", "https://api.example.com"} {
			if got := strings.Contains(page, "<b>"+site+"</b>"); got != (site == want) {
				t.Errorf("the page for the resource %q names %s: %t, want %t", resource, site, got, site == want)
			}
		}
	}
	h.Invariants(t)
}

// TestDeviceAttacks holds the ways to get hold of a device's tokens, or of a person's yes.
func TestDeviceAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "the device code of another client", func(t *testing.T, h *authztest.Harness) {
		begun := authztest.BeginDevice(t, h, "openid")
		h.Browser(authztest.Demo).Decide(begun.Text("user_code"), "allow")
		form := url.Values{"grant_type": {authztest.DeviceGrant}, "device_code": {begun.Text("device_code")}}
		authztest.WantError(t, "another client", h.Token("radio", form), 400, "invalid_grant")
		authztest.WantError(t, "a client without the grant", h.Token("shop", form), 400, "unauthorized_client")
		authztest.WantError(t, "a name alone for one with a secret",
			h.Post("/oauth/token", url.Values{
				"grant_type": {authztest.DeviceGrant}, "device_code": {begun.Text("device_code")},
				"client_id": {"radio"},
			}), 401, "invalid_client")
		for _, code := range []string{"", "x", begun.Text("user_code"), begun.Text("device_code") + "x", strings.Repeat("x", 100_000)} {
			if res := h.Token("tv", url.Values{"grant_type": {authztest.DeviceGrant}, "device_code": {code}}); res.Status < 400 ||
				res.Status >= 500 {
				t.Errorf("device_code of %d bytes = %d %s", len(code), res.Status, res.Body)
			}
		}
		authztest.WantStatus(t, "the client itself", authztest.PollDevice(h, begun), http.StatusOK)
	}, authztest.WithTV())
	authztest.Attack(t, "clients that may not begin", func(t *testing.T, h *authztest.Harness) {
		const path = "/oauth/device_authorization"
		authztest.WantError(t, "without the grant", h.Call(path, "shop", url.Values{}), 400, "unauthorized_client")
		authztest.WantError(t, "without its secret", h.Post(path, url.Values{"client_id": {"radio"}}), 401, "invalid_client")
		authztest.WantError(t, "unknown", h.Post(path, url.Values{"client_id": {"nobody"}}), 401, "invalid_client")
		authztest.WantError(t, "a scope that it lacks", h.Call(path, "tv", url.Values{"scope": {"openid orders.write"}}), 400, "invalid_scope")
		authztest.WantError(t, "a resource that it lacks", h.Call(path, "tv", url.Values{"resource": {"https://other.example.com"}}),
			400, "invalid_target")
		authztest.WantError(t, "twice",
			h.Do(http.MethodPost, path, "client_id=tv&scope=openid&scope=profile", "Content-Type", authztest.FormType), 400, "invalid_request")
		authztest.WantStatus(t, "GET", h.Get(path+"?client_id=tv"), http.StatusMethodNotAllowed)
	}, authztest.WithTV())
	authztest.Attack(t, "50 devices with one device code", func(t *testing.T, h *authztest.Harness) {
		begun := authztest.BeginDevice(t, h, "openid")
		h.Browser(authztest.Demo).Decide(begun.Text("user_code"), "allow")
		all := authztest.Together(50, func(int) *authztest.Response { return authztest.PollDevice(h, begun) })
		if n := authztest.CountStatus(all, http.StatusOK); n != 1 {
			t.Errorf("%d of 50 got tokens, want 1", n)
		}
	}, authztest.WithTV())
	authztest.Attack(t, "codes that are guessed", func(t *testing.T, h *authztest.Harness) {
		from := func(address string) []string {
			return []string{"X-Test-Address", address, "Sec-Fetch-Site", "same-origin"}
		}
		begun := authztest.BeginDevice(t, h, "openid")
		b := h.Browser(authztest.Demo)
		for range 5 {
			authztest.WantStatus(t, "a wrong code", b.Enter("BBBB-BBBB", from("203.0.113.7")...), http.StatusUnprocessableEntity)
		}
		for _, code := range []string{"BBBB-BBBC", begun.Text("user_code")} {
			if res := b.Enter(code, from("203.0.113.7")...); res.Status != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
				t.Errorf("a sixth in the minute = %d %s, want 429", res.Status, res.Body)
			}
		}
		for range 9 { // 50 in the hour
			other := h.Browser(authztest.Guest)
			for range 5 {
				authztest.WantStatus(t, "another session of the network", other.Enter("BBBB-BBBB", from("203.0.113.7")...),
					http.StatusUnprocessableEntity)
			}
		}
		authztest.WantStatus(t, "one more session", h.Browser(authztest.Guest).Enter(begun.Text("user_code"), from("203.0.113.7")...),
			http.StatusTooManyRequests)
		authztest.WantStatus(t, "elsewhere", h.Browser(authztest.Guest).Enter(begun.Text("user_code"), from("2001:db8::1")...),
			http.StatusSeeOther)
		for i := range 10 {
			other := h.Browser(authztest.Guest)
			for range 5 {
				other.Enter("BBBB-BBBB", from("2001:db8::"+string(rune('1'+i%9)))...)
			}
		}
		authztest.WantStatus(t, "an address of the same network",
			h.Browser(authztest.Guest).Enter(begun.Text("user_code"), from("2001:db8::ffff:1")...), http.StatusTooManyRequests)
		h.Clock.Advance(time.Hour)
		authztest.WantStatus(t, "an hour later",
			h.Browser(authztest.Guest).Enter(authztest.BeginDevice(t, h, "openid").Text("user_code"), from("203.0.113.7")...), http.StatusSeeOther)
	}, authztest.WithTV(), authztest.WithAddresses())
	authztest.Attack(t, "addresses that tell whether a code is right", func(t *testing.T, h *authztest.Harness) {
		begun := authztest.BeginDevice(t, h, "openid")
		b := h.Browser(authztest.Demo)
		right, wrong := b.Follow("/device?user_code="+begun.Text("user_code")), b.Follow("/device?user_code=BBBB-BBBB")
		if action, _ := authztest.Form(right.Body); right.Status != wrong.Status || action != "/device" {
			t.Errorf("right %d, wrong %d", right.Status, wrong.Status)
		}
		for _, query := range []string{
			"?user_code=%00", "?user_code=" + strings.Repeat("B", 9000), "?user_code=<script>", "?flow=x",
			"?user_code=BBBBBBBB&user_code=CCCCCCCC",
		} {
			if res := b.Follow("/device" + query); res.Status >= 500 || strings.Contains(res.Body, "<script>") {
				t.Errorf("/device%s = %d", query, res.Status)
			}
		}
		authztest.WantError(t, "the device", authztest.PollDevice(h, begun), 400, "authorization_pending")
	}, authztest.WithTV())
	authztest.Attack(t, "a yes that the person has not given", func(t *testing.T, h *authztest.Harness) {
		begun := authztest.BeginDevice(t, h, "openid")
		victim, thief := h.Browser(authztest.Demo), h.Browser(authztest.Guest)
		at := victim.Enter(begun.Text("user_code")).Location()
		action, fields := authztest.Form(victim.Follow(at).Body)
		fields.Set("decision", "allow")
		authztest.WantPage(t, "the question in another browser", thief.Follow(at), http.StatusBadRequest)
		authztest.WantPage(t, "its form in another browser", thief.SignIn(authztest.Demo).Post(action, fields), http.StatusBadRequest)
		for name, headers := range map[string][]string{
			"from another site":  {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example.com"},
			"from a sister site": {"Sec-Fetch-Site", "same-site"}, "from nowhere": {"X-Nothing", "x"},
		} {
			authztest.WantPage(t, name, victim.Post(action, fields, headers...), http.StatusForbidden)
			authztest.WantStatus(t, "a code "+name, victim.Enter(begun.Text("user_code"), headers...), http.StatusForbidden)
		}
		for name, change := range map[string]func(url.Values){
			"no token": func(f url.Values) { f.Del("csrf") }, "another token": func(f url.Values) { f.Set("csrf", "x") },
			"no decision":      func(f url.Values) { f.Del("decision") },
			"another decision": func(f url.Values) { f.Set("decision", "yes") },
			"two":              func(f url.Values) { f["decision"] = []string{"deny", "allow"} },
			"one field more":   func(f url.Values) { f.Set("x", "y") },
		} {
			changed := url.Values{}
			for k, v := range fields {
				changed[k] = v
			}
			change(changed)
			if res := victim.Post(action, changed); res.Status < 400 || res.Status >= 500 {
				t.Errorf("%s = %d %s", name, res.Status, res.Body)
			}
		}
		victim.SignIn(authztest.Guest) // someone else sits down
		authztest.WantPage(t, "as another person", victim.Post(action, fields), http.StatusForbidden)
		h.Clock.Advance(6 * time.Minute)
		if res := authztest.PollDevice(h, begun); res.Text("error") != "authorization_pending" {
			t.Errorf("the device = %s, want no answer yet", res.Body)
		}
	}, authztest.WithTV())
	authztest.Attack(t, "frames around the question", func(t *testing.T, h *authztest.Harness) {
		begun := authztest.BeginDevice(t, h, "openid")
		b := h.Browser(authztest.Demo)
		for _, res := range []*authztest.Response{b.Follow("/device"), b.Follow(b.Enter(begun.Text("user_code")).Location())} {
			if policy := res.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") ||
				res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("policy = %q, Cache-Control = %q", policy, res.Header.Get("Cache-Control"))
			}
		}
	}, authztest.WithTV())
}
