package dcr_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const cursorRedirect = "cursor://anysphere.cursor-mcp/oauth/callback"

// cursorMetadata is the request of a real client: three redirect URIs, of which it needs all.
const cursorMetadata = `{"client_name":"Cur\u200bsor","redirect_uris":["` + cursorRedirect + `","https://www.cursor.com/agents/mcp/oauth/callback","http://localhost:8787/callback"],
"grant_types":["authorization_code","refresh_token","urn:ietf:params:oauth:grant-type:device_code"],"response_types":["code"],"token_endpoint_auth_method":"none",
"application_type":"native","software_id":"x","contacts":["a@b.example"],"client_secret":"mine","client_id":"mine","disabled":false,"consent":"off"}`

// A client registers itself with three redirect URIs at once, signs a person in on whatever port it listens, and keeps
// its tokens after a restart. The person is asked, and not by the name that the client has given itself.
func TestClientRegistersItself(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithRegistration(t)
	if meta := h.Get("/.well-known/oauth-authorization-server").JSON(); meta["registration_endpoint"] != h.Issuer+"/oauth/register" {
		t.Errorf("metadata = %v", meta)
	}
	got := authztest.MustRegister(t, h, cursorMetadata)
	id, _ := got["client_id"].(string)
	issued, _ := got["client_id_issued_at"].(float64)
	if len(id) < 20 || int64(issued) != authztest.Start.Unix() || got["token_endpoint_auth_method"] != "none" ||
		got["client_name"] != "Cursor" || got["scope"] != "openid" ||
		fmt.Sprint(got["grant_types"]) != "[authorization_code refresh_token]" || fmt.Sprint(got["response_types"]) != "[code]" ||
		got["application_type"] != "native" {
		t.Errorf("registration = %v", got)
	}
	for _, name := range []string{
		"client_secret", "client_secret_expires_at", "software_id", "contacts", "disabled", "consent",
		"registration_access_token", "registration_client_uri",
	} {
		if got[name] != nil {
			t.Errorf("the answer has %s: %v", name, got[name])
		}
	}
	b := h.Browser(authztest.Demo)
	b.Decision = "-"
	page := b.Follow("/oauth/authorize?" + authztest.RegisteredParams(id, cursorRedirect, "tools.read").Encode())
	for _, text := range []string{
		"<h1>cursor wants to access your account</h1>", "It calls itself “Cursor”. Nobody has verified that.",
		"opens cursor links", "Tools of the office (https://mcp.example.com)",
	} {
		if !strings.Contains(page.Body, text) {
			t.Errorf("the page lacks %q:\n%s", text, page.Body)
		}
	}
	b = h.Browser(authztest.Demo)
	code, asked := authztest.AllowDocument(t, h, b,
		authztest.RegisteredParams(id, "http://localhost:33418/callback", "tools.read offline_access"))
	if !asked {
		t.Error("nobody was asked for a client that no operator has registered")
	}
	h.Restart(nil)
	res := authztest.RedeemRegistered(h, id, code, "http://localhost:33418/callback")
	if res.Status != http.StatusOK || res.Text("scope") != "tools.read offline_access" {
		t.Fatalf("token = %d %s", res.Status, res.Body)
	}
	res = h.Post("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {id}, "refresh_token": {res.Text("refresh_token")}})
	if res.Status != http.StatusOK || !h.Active(res.Text("access_token")) {
		t.Errorf("refresh = %d %s", res.Status, res.Body)
	}
	if _, asked = authztest.AllowDocument(t, h, b, authztest.RegisteredParams(id, "http://localhost:1/callback", "tools.read")); asked {
		t.Error("the person was asked twice for the same")
	}
	h.Invariants(t)
}

// A client that names no method gets a secret, once, and uses it in either way.
func TestRegisteredClientWithASecret(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithRegistration(t)
	const redirect = "https://app.example/cb?tenant=1"
	got := authztest.MustRegister(t, h, `{"redirect_uris":["`+redirect+`"],"scope":"openid tools.read scim orders.write"}`)
	id, text := got["client_id"].(string), fmt.Sprint(got["client_secret"])
	if got["client_secret_expires_at"] != 0.0 || got["token_endpoint_auth_method"] != "client_secret_basic" ||
		got["scope"] != "openid tools.read" || len(text) < 32 {
		t.Errorf("registration = %v", got)
	}
	b := h.Browser(authztest.Demo)
	v := authztest.RegisteredParams(id, redirect, "")
	code, _ := allowAt(t, h, b, v, "https://app.example/cb")
	res := authztest.RedeemRegistered(h, id, code, redirect, authztest.Basic(id, text)...)
	if res.Status != http.StatusOK || res.Text("scope") != "openid tools.read" || res.Text("refresh_token") != "" {
		t.Errorf("token = %d %s", res.Status, res.Body)
	}
	if res = authztest.RedeemRegistered(h, id, code, redirect); res.Status != http.StatusUnauthorized {
		t.Errorf("without the secret = %d %s, want 401", res.Status, res.Body)
	}
	if strings.Contains(h.Log(), text) {
		t.Error("the secret is in the log")
	}
}

// allowAt is allow for a redirect URI with a query.
func allowAt(t *testing.T, h *authztest.Harness, b *authztest.Browser, v url.Values, want string) (code string, asked bool) {
	t.Helper()
	target, params := b.Follow("/oauth/authorize?" + v.Encode()).Redirect()
	if params.Get("code") == "" || target != want {
		t.Fatalf("authorize leads to %q %v, want a code; log: %s", target, params, h.Log())
	}
	return params.Get("code"), false
}

// What a client says of itself is refused as a whole when a part of it cannot be.
func TestRegistrationRefusesMetadata(t *testing.T) {
	t.Parallel()
	t.Run("attack 464: hostile metadata", func(t *testing.T) {
		h := authztest.NewWithRegistration(t, func(c *authz.Config) {
			c.Registration.RedirectHosts = []string{"claude.ai", "*.cursor.com"}
			c.Registration.Limit = 1000
		})
		redirects := func(uris ...string) string {
			raw, _ := json.Marshal(map[string]any{"redirect_uris": uris, "token_endpoint_auth_method": "none"})
			return string(raw)
		}
		with := func(more string) string {
			return `{"redirect_uris":["http://localhost/cb"],"token_endpoint_auth_method":"none"` + more + `}`
		}
		for name, tt := range map[string]struct{ body, want string }{
			"hosts that are allowed": {redirects("https://claude.ai/cb", "https://www.cursor.com/cb", "http://127.0.0.1:1/cb",
				"com.example.app:/cb"), ""},
			"a host that is not": {redirects("https://claude.ai.evil.example/cb"), "invalid_redirect_uri"},
			"a host above":       {redirects("https://cursor.com/cb"), "invalid_redirect_uri"},
			"one of three": {
				redirects("https://claude.ai/cb", "http://localhost/cb", "https://evil.example/cb"),
				"invalid_redirect_uri",
			},
			"a script":                   {redirects("javascript:alert(1)"), "invalid_redirect_uri"},
			"data":                       {redirects("data:text/html,x"), "invalid_redirect_uri"},
			"a file":                     {redirects("file:///etc/passwd"), "invalid_redirect_uri"},
			"another scheme without dot": {redirects("evil://cb"), "invalid_redirect_uri"},
			"http":                       {redirects("http://claude.ai/cb"), "invalid_redirect_uri"},
			"a wildcard":                 {redirects("https://*.claude.ai/cb"), "invalid_redirect_uri"},
			"a user":                     {redirects("https://claude.ai@evil.example/cb"), "invalid_redirect_uri"},
			"a reserved parameter":       {redirects("https://claude.ai/cb?code=x"), "invalid_redirect_uri"},
			"no redirect URI":            {redirects(), "invalid_redirect_uri"},
			"21 of them":                 {redirects(slices.Repeat([]string{"http://localhost/cb"}, 21)...), "invalid_redirect_uri"},
			"a sign-out to another host": {with(`,"post_logout_redirect_uris":["https://evil.example/"]`), "invalid_redirect_uri"},
			"a member twice":             {with(`,"client_name":"a","client_name":"b"`), "invalid_client_metadata"},
			"another type":               {with(`,"client_name":["a"]`), "invalid_client_metadata"},
			"a list of other things":     {with(`,"grant_types":[1]`), "invalid_client_metadata"},
			"null is as good as nothing": {with(`,"client_name":null,"jwks":null,"scope":null`), ""},
			"grants without a code":      {with(`,"grant_types":["client_credentials"]`), "invalid_client_metadata"},
			"responses without a code":   {with(`,"response_types":["token"]`), "invalid_client_metadata"},
			"a kind of its own":          {with(`,"application_type":"console"`), "invalid_client_metadata"},
			"no signature":               {with(`,"id_token_signed_response_alg":"none"`), "invalid_client_metadata"},
			"userinfo without one":       {with(`,"userinfo_signed_response_alg":"none"`), "invalid_client_metadata"},
			"a subject of its own":       {with(`,"subject_type":"secret"`), "invalid_client_metadata"},
			"a scope with a control":     {with(`,"scope":"a\nb"`), "invalid_client_metadata"},
			"two kinds of keys":          {with(`,"jwks":{"keys":[]},"jwks_uri":"https://claude.ai/jwks"`), "invalid_client_metadata"},
			"a call without https":       {with(`,"backchannel_logout_uri":"http://127.0.0.1/x"`), "invalid_client_metadata"},
			"a frame of another host":    {with(`,"frontchannel_logout_uri":"https://evil.example/x"`), "invalid_client_metadata"},
			"a method that is not known": {strings.Replace(with(""), `"none"`, `"tls_client_auth_x"`, 1), "invalid_client_metadata"},
			"a key method without keys":  {strings.Replace(with(""), `"none"`, `"private_key_jwt"`, 1), "invalid_client_metadata"},
			"keys without https": {
				strings.Replace(with(`,"jwks_uri":"http://127.0.0.1/"`), `"none"`, `"private_key_jwt"`, 1),
				"invalid_client_metadata",
			},
			"no object":                 {`["redirect_uris"]`, "invalid_client_metadata"},
			"no JSON":                   {`redirect_uris=x`, "invalid_client_metadata"},
			"deep":                      {`{"a":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`, "invalid_client_metadata"},
			"large":                     {with(`,"x":"` + strings.Repeat("x", 40<<10) + `"`), "invalid_request"},
			"a name in other letters":   {`{"REDIRECT_URIS":["http://localhost/cb"]}`, "invalid_redirect_uri"},
			"a name that turns writing": {with(`,"client_name":"Mail \u202eknaB"`), "invalid_client_metadata"},
			"a name that isolates":      {with(`,"client_name":"\u2066Bank\u2069"`), "invalid_client_metadata"},
			"a name from right to left": {with(`,"client_name":"\u05d3\u05d5\u05d0\u05e8"`), ""},
		} {
			res := authztest.Registers(h, tt.body)
			if got := res.Text("error"); got != tt.want || (tt.want == "") != (res.Status == http.StatusCreated) ||
				(tt.want != "" && res.Status != http.StatusBadRequest) {
				t.Errorf("%s: %d %s, want %q", name, res.Status, res.Body, tt.want)
			}
		}
		if res := h.Do(http.MethodPost, "/oauth/register", with(""), "Content-Type", "text/plain"); res.Status != http.StatusBadRequest {
			t.Errorf("as text = %d %s, want 400", res.Status, res.Body)
		}
		if res := h.Do(http.MethodOptions, "/oauth/register", "", "Origin", "https://inspector.example", "Access-Control-Request-Method",
			"POST"); res.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("a client inside a browser cannot register: %v", res.Header)
		}
		h.Invariants(t)
	})
}

// attack: a registered client asks for what operators give to their own clients.
func TestRegistrationAllowsNoMore(t *testing.T) {
	t.Parallel()
	t.Run("attack 461: more than a stranger may", func(t *testing.T) {
		h := authztest.NewWithRegistration(t)
		got := authztest.MustRegister(t, h,
			`{"redirect_uris":["http://localhost/cb"],"token_endpoint_auth_method":"client_secret_post","scope":"orders.read scim","grant_types":["authorization_code","client_credentials","password","implicit"]}`)
		id, text := got["client_id"].(string), got["client_secret"].(string)
		b := h.Browser(authztest.Demo)
		for scope, want := range map[string]string{"orders.read": "invalid_scope", "scim": "invalid_scope", "openid groups": "invalid_scope"} {
			if _, params := b.Follow("/oauth/authorize?" +
				authztest.RegisteredParams(id, "http://localhost/cb", scope).Encode()).Redirect(); params.Get("error") != want {
				t.Errorf("scope %s = %v, want %s", scope, params, want)
			}
		}
		v := authztest.RegisteredParams(id, "http://localhost/cb", "openid")
		v.Set("resource", "https://api.example.com")
		if _, params := b.Follow("/oauth/authorize?" + v.Encode()).Redirect(); params.Get("error") != "invalid_target" {
			t.Errorf("a resource that is not of this configuration = %v", params)
		}
		v = authztest.RegisteredParams(id, "http://localhost/cb", "openid")
		v.Set("response_type", "token")
		if target, params := b.Follow("/oauth/authorize?" + v.Encode()).Redirect(); params.Get("error") == "" {
			t.Errorf("the implicit grant = %s %v, want an error", target, params)
		}
		for _, grant := range []string{"client_credentials", "password"} {
			f := url.Values{
				"grant_type": {grant}, "client_id": {id}, "client_secret": {text}, "scope": {"openid"},
				"username": {authztest.Demo}, "password": {"x"},
			}
			if res := h.Post("/oauth/token", f); res.Status != http.StatusBadRequest || res.Text("error") != "unauthorized_client" {
				t.Errorf("%s = %d %s, want unauthorized_client", grant, res.Status, res.Body)
			}
		}
		for _, redirect := range []string{
			"http://127.0.0.1/cb", "http://localhost/other", "https://localhost/cb",
			"http://localhost.evil.example/cb",
		} {
			if res := b.Get("/oauth/authorize?" +
				authztest.RegisteredParams(id, redirect, "openid").Encode()); res.Status != http.StatusBadRequest || res.Location() != "" {
				t.Errorf("redirect URI %s = %d %s, want a page", redirect, res.Status, res.Location())
			}
		}
	})
}

// attack: a stranger who is allowed to know who someone is names a site when it gets its tokens, so they open it.
func TestRegisteredClientNamesNoSiteLater(t *testing.T) {
	t.Parallel()
	t.Run("attack 3260: a site that the page of a stranger did not name", func(t *testing.T) {
		t.Parallel()
		const redirect = "http://localhost/cb"
		h := authztest.NewWithRegistration(t)
		id, _ := authztest.MustRegister(t, h, `{"redirect_uris":["`+redirect+
			`"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`)["client_id"].(string)
		b := h.Browser(authztest.Demo)
		v := authztest.RegisteredParams(id, redirect, "openid")
		v.Del("resource")
		redeem := func(resource string) *authztest.Response {
			code, _ := authztest.AllowDocument(t, h, b, v)
			f := url.Values{
				"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {authztest.Verifier},
				"client_id": {id},
			}
			if resource != "" {
				f.Set("resource", resource)
			}
			return h.Post("/oauth/token", f)
		}
		authztest.WantError(t, "with the code", redeem(authztest.ToolsResource), http.StatusBadRequest, "invalid_target")
		res := redeem("")
		authztest.WantStatus(t, "without it", res, http.StatusOK)
		later := h.Post("/oauth/token", url.Values{
			"grant_type": {"refresh_token"}, "client_id": {id}, "refresh_token": {res.Text("refresh_token")},
			"resource": {authztest.ToolsResource},
		})
		authztest.WantError(t, "later", later, http.StatusBadRequest, "invalid_target")
		h.Invariants(t)
	})
}

// attack: strangers fill the store with clients. One network registers ten in an hour, and all together as many as the
// operator allows; what no one uses goes, and what someone uses stays.
func TestRegistrationIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("attack 462: registrations without end", func(t *testing.T) {
		h := authztest.NewWithRegistration(t, func(c *authz.Config) { c.Registration.Clients = 13 })
		from := func(address string) *authztest.Response {
			return authztest.Registers(h, cursorMetadata, "X-Test-Address", address)
		}
		ids := []string{}
		for i := range 11 {
			res := from("192.0.2.1")
			if want := i < 10; want != (res.Status == http.StatusCreated) ||
				(!want && (res.Status != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "")) {
				t.Errorf("registration %d of one address = %d %s", i+1, res.Status, res.Body)
			}
			ids = append(ids, res.Text("client_id"))
		}
		for _, address := range []string{"2001:db8::1", "2001:db8::2", "192.0.2.2"} {
			if res := from(address); res.Status != http.StatusCreated {
				t.Errorf("registration from %s = %d %s", address, res.Status, res.Body)
			}
		}
		h.AllowFailures()
		if res := from("192.0.2.3"); res.Status != http.StatusServiceUnavailable {
			t.Errorf("one more than there can be = %d %s, want 503", res.Status, res.Body)
		}

		b := h.Browser(authztest.Demo)
		authztest.AllowDocument(t, h, b, authztest.RegisteredParams(ids[0], "http://localhost/callback", "tools.read"))
		clients := func() (n int) {
			list, err := h.Server().Clients().List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range list {
				if c.Origin == "registration" {
					n++
				}
			}
			return n
		}
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{29 * 24 * time.Hour, 13}, {2 * 24 * time.Hour, 1}, {88 * 24 * time.Hour, 1}, {4 * 24 * time.Hour, 0}} {
			h.Clock.Advance(step.after)
			if err := h.Server().CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := clients(); got != step.want {
				t.Errorf("after %v more, %d clients are there, want %d", step.after, got, step.want)
			}
		}
		if res := b.Get("/oauth/authorize?" +
			authztest.RegisteredParams(ids[0], "http://localhost/callback", "tools.read").Encode()); res.Status != http.StatusBadRequest {
			t.Errorf("authorize of a client that is gone = %d, want 400", res.Status)
		}
		if res := from("192.0.2.3"); res.Status != http.StatusCreated {
			t.Errorf("a registration afterwards = %d %s", res.Status, res.Body)
		}
	})
}

// attack: one customer of a provider registers as many clients as there can be, from the many networks of IPv6 that
// each has, and registration stays closed for all others until those clients are removed as unused.
func TestRegistrationMakesRoom(t *testing.T) {
	t.Parallel()
	authorize := func(h *authztest.Harness, id string) int {
		return h.Get("/oauth/authorize?" + authztest.RegisteredParams(id, "http://localhost/callback", "tools.read").Encode()).Status
	}
	t.Run("attack 4487: as many as there can be, and no one uses them", func(t *testing.T) {
		t.Parallel()
		h := authztest.NewWithRegistration(t, func(c *authz.Config) { c.Registration.Clients = 3 })
		h.AllowFailures()
		register := func(status int) (id string) {
			t.Helper()
			res := authztest.Registers(h, cursorMetadata)
			authztest.WantStatus(t, "registration", res, status)
			return res.Text("client_id")
		}
		used := register(http.StatusCreated)
		authztest.AllowDocument(t, h, h.Browser(authztest.Demo), authztest.RegisteredParams(used, "http://localhost/callback", "tools.read"))
		h.Clock.Advance(time.Second)
		first := register(http.StatusCreated)
		h.Clock.Advance(time.Second)
		second := register(http.StatusCreated)
		h.Clock.Advance(time.Hour - time.Second)
		register(http.StatusServiceUnavailable) // they may be about to be used
		h.Clock.Advance(time.Second)
		third := register(http.StatusCreated)
		for id, want := range map[string]int{used: 303, first: 400, second: 303, third: 303} {
			if got := authorize(h, id); got != want {
				t.Errorf("authorize of client %s of used %s, first %s, second %s, third %s = %d, want %d", id, used, first, second, third, got, want)
			}
		}
		authztest.WantEvent(t, h, "", "client.ClientRemovedEvent", 1)
		h.Clock.Advance(time.Second)
		register(http.StatusCreated)
		register(http.StatusServiceUnavailable)
		if got := authorize(h, second); got != http.StatusBadRequest {
			t.Errorf("authorize of the second client = %d, want that it has made room", got)
		}
		h.Invariants(t)
	})
	t.Run("attack 4487: from many networks of one customer", func(t *testing.T) {
		t.Parallel()
		h := authztest.NewWithRegistration(t)
		for i := range 10 {
			res := authztest.Registers(h, cursorMetadata, "X-Test-Address", fmt.Sprintf("2001:db8:1:%d::1", i))
			authztest.WantStatus(t, "registration", res, http.StatusCreated)
		}
		authztest.WantStatus(t, "one more", authztest.Registers(h, cursorMetadata, "X-Test-Address", "2001:db8:1:ffff::1"),
			http.StatusTooManyRequests)
		authztest.WantStatus(t, "another customer", authztest.Registers(h, cursorMetadata, "X-Test-Address", "2001:db8:2::1"), http.StatusCreated)
		h.Invariants(t)
	})
}

// With "token" only those register who have an access token for it.
func TestRegistrationByToken(t *testing.T) {
	t.Parallel()
	registrar := &client.Client{
		ID: "onboarding", Secrets: []secret.String{secret.New(authztest.Secret("onboarding"))},
		Grants: []string{"client_credentials"}, Scopes: []string{"client.register", "other"},
	}
	h := authztest.NewWithRegistration(t, func(c *authz.Config) {
		c.Registration.Who = "token"
		c.Clients = append(c.Clients, registrar)
	})
	tokenFor := func(scope string) string {
		return h.Token("onboarding", url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}).Text("access_token")
	}
	good := tokenFor("client.register")
	bound := authztest.NewKeyHolder(t, h).Token("onboarding",
		url.Values{"grant_type": {"client_credentials"}, "scope": {"client.register"}}).Text("access_token")
	for name, tt := range map[string]struct {
		header string
		want   int
	}{
		"none":           {"", 401},
		"of another use": {"Bearer " + tokenFor("other"), 403},
		"made up":        {"Bearer x", 401},
		"as Basic":       {"Basic " + good, 401},
		"the right one":  {"bearer " + good, 201},
		"bound to a key": {"Bearer " + bound, 401},
	} {
		var headers []string
		if tt.header != "" {
			headers = []string{"Authorization", tt.header}
		}
		if res := authztest.Registers(h, cursorMetadata, headers...); res.Status != tt.want ||
			(tt.want != 201) != (res.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("with a token %s = %d %s, want %d", name, res.Status, res.Body, tt.want)
		}
	}
}

// TestRegistrationTokenIsUsedUp: a token with a usage limit registers as many clients as that. Metadata that are
// refused cost none.
func TestRegistrationTokenIsUsedUp(t *testing.T) {
	t.Parallel()
	registrar := &client.Client{
		ID: "onboarding", Secrets: []secret.String{secret.New(authztest.Secret("onboarding"))},
		Grants: []string{"client_credentials"}, Scopes: []string{"client.register"},
	}
	h := authztest.NewWithRegistration(t, func(c *authz.Config) {
		c.Registration.Who, c.Clients = "token", append(c.Clients, registrar)
		c.Scopes = append(c.Scopes, client.Scope{Name: "client.register", UsageLimit: 1})
	})
	token := h.Token("onboarding", url.Values{"grant_type": {"client_credentials"}, "scope": {"client.register"}}).Text("access_token")
	for i, tt := range []struct {
		metadata string
		want     int
	}{{`{}`, 400}, {cursorMetadata, 201}, {cursorMetadata, 401}} {
		if res := authztest.Registers(h, tt.metadata, "Authorization", "Bearer "+token); res.Status != tt.want {
			t.Errorf("registration %d = %d %s, want %d", i, res.Status, res.Body, tt.want)
		}
	}
}

// A server does not let clients register unless its operator says so, nor manage what they registered.
func TestRegistrationIsOff(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithRegistration(t, func(c *authz.Config) { c.Registration.Who = "" })
	if res := authztest.Registers(h, cursorMetadata); res.Status != http.StatusNotFound {
		t.Errorf("register = %d, want 404", res.Status)
	}
	if _, there := h.Get("/.well-known/openid-configuration").JSON()["registration_endpoint"]; there {
		t.Error("the metadata name an endpoint that does not exist")
	}
	h.Restart(func(c *authz.Config) { c.Registration.Who = "open" })
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		if res := h.Do(method, "/oauth/register?client_id=x", ""); res.Status != http.StatusMethodNotAllowed ||
			res.Header.Get("Allow") != "POST" {
			t.Errorf("%s = %d, want 405", method, res.Status)
		}
	}
}

// An application on people's devices that has a secret listens on any port, and takes answers by its own scheme, if the
// operator says that it is one.
func TestNativeClientOfAnOperator(t *testing.T) {
	t.Parallel()
	desk := func(native bool) *client.Client {
		return &client.Client{
			ID: "desk", Native: native, Secrets: []secret.String{secret.New(authztest.Secret("desk"))},
			RedirectURIs: []string{"http://localhost/cb", "cursor://desk.example/cb"},
			Grants:       []string{"authorization_code"}, Scopes: []string{"openid"}, Consent: "off",
		}
	}
	if err := desk(false).Validate(); err == nil || !strings.Contains(err.Error(), "private scheme cursor") {
		t.Errorf("without native: %v, want an error about the scheme", err)
	}
	h := authztest.New(t, authztest.WithClients(desk(true)))
	b := h.Browser(authztest.Demo)
	for redirect, want := range map[string]bool{
		"http://localhost:40123/cb": true, "http://localhost/cb": true, "cursor://desk.example/cb": true, "http://127.0.0.1/cb": false,
		"http://localhost:1/other": false,
		"cursor://other/cb":        false, "https://localhost/cb": false,
	} {
		res := b.Authorize("desk", "redirect_uri", redirect)
		if target, params := res.Redirect(); (target == redirect && params.Get("code") != "") != want {
			t.Errorf("authorize with %s = %d %s, want a code: %t", redirect, res.Status, res.Location(), want)
		}
	}
	for _, uri := range []string{"javascript:alert(1)", "data:x", "file:///x", "cursor://a@b/", "cursor://x/#y", "http://evil.example/cb"} {
		c := desk(true)
		c.RedirectURIs = []string{uri}
		if c.Validate() == nil {
			t.Errorf("the redirect URI %s of a native client is accepted", uri)
		}
	}
}
