package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
)

// TestClaimsParameter holds what the claims parameter adds. (OpenID Connect Core 5.5)
func TestClaimsParameter(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for _, c := range []struct {
		name              string
		client            string
		claims            string
		userinfo, idToken string // claims that must be there, and only there, of those that scopes give
	}{
		{"none", "shop", "", "", ""},
		{"essential name for userinfo", "shop", `{"userinfo":{"name":{"essential":true}}}`, "name", ""},
		{"voluntary ones", "shop", `{"userinfo":{"email":null,"address":null},"id_token":{"email":null}}`, "email address", "email"},
		{
			"for the ID token", "shop", `{"id_token":{"given_name":{"essential":true},"email_verified":null,"updated_at":null}}`, "",
			"given_name email_verified updated_at",
		},
		{"not known of the person", "shop", `{"userinfo":{"nickname":{"essential":true}}}`, "", ""},
		{
			"unknown claims and members", "shop",
			`{"userinfo":{"http://x/y":null,"iss":null},"id_token":{"iss":{"value":"evil"},"exp":null},"other":{}}`, "", "",
		},
		{"of a scope that the client may not have", "spa", `{"userinfo":{"phone_number":{"essential":true},"name":null}}`, "name", ""},
		{"null", "shop", `{"userinfo":null,"id_token":null}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tokens := h.Tokens(c.client, authztest.Demo, "claims", c.claims)
			res := h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Access)
			wantClaims(t, "userinfo", res.JSON(), c.userinfo)
			wantClaims(t, "ID token", authztest.IDClaimsFor(t, h, tokens.ID, c.client), c.idToken)
			if iss := authztest.IDClaimsFor(t, h, tokens.ID, c.client)["iss"]; iss != h.Issuer {
				t.Errorf("iss = %v", iss)
			}
			again := h.Refresh(c.client, tokens.Refresh)
			wantClaims(t, "userinfo after a refresh", h.Get("/oauth/userinfo", "Authorization", "Bearer "+again.Text("access_token")).JSON(),
				c.userinfo)
			wantClaims(t, "ID token after a refresh", authztest.IDClaimsFor(t, h, again.Text("id_token"), c.client), c.idToken)
		})
	}
	h.Invariants(t)
}

func wantClaims(t *testing.T, what string, got map[string]any, want string) {
	t.Helper()
	wanted := map[string]bool{}
	for name := range strings.FieldsSeq(want) {
		wanted[name] = true
		if got[name] == nil {
			t.Errorf("%s = %v, want %s in it", what, got, name)
		}
	}
	for _, name := range strings.Fields("name given_name family_name preferred_username email email_verified phone_number address updated_at nickname locale http://x/y") {
		if got[name] != nil && !wanted[name] {
			t.Errorf("%s has %s = %v, which nobody asked for", what, name, got[name])
		}
	}
}

// TestClaimsRefused holds which values of the parameter are invalid.
func TestClaimsRefused(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	for name, c := range map[string]struct{ claims, err string }{
		"no JSON":                    {"nonsense", "invalid_request"},
		"an array":                   {"[]", "invalid_request"},
		"a text":                     {`"x"`, "invalid_request"},
		"null":                       {"null", "invalid_request"},
		"a member that is no object": {`{"userinfo":[]}`, "invalid_request"},
		"a claim that is no object":  {`{"userinfo":{"name":true}}`, "invalid_request"},
		"two values":                 {`{} {}`, "invalid_request"},
		"too long":                   {`{"x":"` + strings.Repeat("x", 8<<10) + `"}`, "invalid_request"},
		"too many":                   {`{"userinfo":{` + strings.TrimSuffix(manyClaims(65), ",") + `}}`, "invalid_request"},
		"two persons":                {`{"id_token":{"sub":{"values":["a","b"]}}}`, "invalid_request"},
		"an unknown essential level": {`{"id_token":{"acr":{"essential":true,"values":["urn:else:9"]}}}`, "unmet_authentication_requirements"},
		"a level out of reach": {
			`{"id_token":{"acr":{"essential":true,"value":"urn:gatehouse:level:4"}}}`,
			"unmet_authentication_requirements",
		},
	} {
		t.Run(name, func(t *testing.T) {
			authztest.WantRedirectError(t, h, name, b.Authorize("shop", "claims", c.claims), c.err)
		})
	}
	h.Invariants(t)
}

func manyClaims(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"c` + strings.Repeat("x", i) + `":null,`)
	}
	return b.String()
}

// TestClaimsOfASubject holds that sub with a value accepts that person alone. (OpenID Connect Core 5.5.1)
func TestClaimsOfASubject(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	for subject, want := range map[string]string{authztest.Demo: "", authztest.Guest: "login_required", "nobody": "login_required"} {
		_, params := b.Authorize("shop", "prompt", "none", "claims", `{"id_token":{"sub":{"value":"`+subject+`"}}}`).Redirect()
		if params.Get("error") != want || (want == "") != params.Has("code") {
			t.Errorf("sub %q: %v, want error %q", subject, params, want)
		}
	}
	h.Invariants(t)
}

// TestClaimsLevel holds that acr with values is a level to be reached, and that a voluntary one never causes a refusal.
func TestClaimsLevel(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	tokens := h.Tokens("shop", authztest.Demo, "claims",
		`{"id_token":{"acr":{"essential":true,"values":["urn:gatehouse:level:2","urn:else:9"]},"auth_time":{"essential":true}}}`)
	if c := authztest.IDClaims(t, h, tokens.ID); c["acr"] != "urn:gatehouse:level:2" || c["auth_time"] == nil {
		t.Errorf("ID token = %v, want level 2 and auth_time", c)
	}
	h.Tokens("shop", authztest.Demo, "claims", `{"id_token":{"acr":{"values":["urn:else:9"]}}}`)
	h.Invariants(t)
}

// TestClaimsConsent holds that a person is asked about claims as about the scopes that give them.
func TestClaimsConsent(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	b.Code("asks", "scope", "openid")
	_, params := b.Authorize("asks", "scope", "openid", "prompt", "none", "claims", `{"userinfo":{"email":null}}`).Redirect()
	if params.Get("error") != "consent_required" {
		t.Errorf("silent request for more = %v, want consent_required", params)
	}
	b.Pages = nil
	b.Code("asks", "scope", "openid", "claims", `{"userinfo":{"email":null}}`)
	if len(b.Pages) != 1 || !strings.Contains(b.Pages[0].Body, "See your e-mail address") {
		t.Errorf("%d pages, want one that names the e-mail address", len(b.Pages))
	}
	b.Code("asks", "scope", "openid", "prompt", "none", "claims", `{"userinfo":{"email":null}}`) // remembered
	h.Invariants(t)
}

// TestClaimsTakenAway holds that a client loses the claims of a scope together with the scope.
func TestClaimsTakenAway(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	tokens := h.Tokens("shop", authztest.Demo, "claims", `{"userinfo":{"email":null},"id_token":{"email":null}}`)
	h.Restart(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Scopes = []string{"openid"} })
	})
	wantClaims(t, "userinfo", h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Access).JSON(), "")
	res := h.Token("shop", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.Refresh}})
	authztest.WantStatus(t, "refresh", res, http.StatusOK)
	wantClaims(t, "ID token", authztest.IDClaims(t, h, res.Text("id_token")), "")
	h.Invariants(t)
}

// FuzzClaims: whatever the parameter says, the request is answered, and claims alone come of it that a scope of the
// client gives.
func FuzzClaims(f *testing.F) {
	for _, seed := range []string{
		`{"userinfo":{"name":null}}`, `{"id_token":{"sub":{"value":"x"}}}`, `{`, `{"userinfo":{"name":{"values":[1,{},[]]}}}`, "\x00",
		`{"userinfo":{"email":null,"name":null},"id_token":{"phone_number":{"essential":true},"given_name":null}}`,
	} {
		f.Add(seed)
	}
	h := authztest.New(f, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.Scopes = []string{"openid", "profile"} })
	}))
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	f.Fuzz(func(t *testing.T, raw string) {
		h.T = t
		res := b.Authorize("shop", "claims", raw)
		_, answer := res.Redirect()
		if answer.Get("code") == "" && answer.Get("error") == "" && res.Status != http.StatusBadRequest {
			t.Fatalf("claims %q = %d %s", raw, res.Status, res.Location())
		}
		if answer.Get("code") == "" {
			return
		}
		tokens := h.Redeem("shop", answer.Get("code"))
		userinfo := h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Text("access_token")).JSON()
		for _, got := range []map[string]any{userinfo, authztest.IDClaimsFor(t, h, tokens.Text("id_token"), "shop")} {
			for name := range got {
				if scope := client.ScopeOfClaim(name); scope != "" && scope != "profile" {
					t.Errorf("%q gives %s, which no scope of the client gives", raw, name)
				}
			}
		}
	})
}
