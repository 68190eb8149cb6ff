package oidc_test

import (
	"cmp"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

func openGoogle(t *testing.T, change ...func(*oidc.Config)) *lab {
	t.Helper()
	op := oidctest.NewGoogle(t)
	return openAs(t, "google", op, append([]func(*oidc.Config){func(c *oidc.Config) {
		c.Preset, c.Scopes, c.Mapping = oidc.Google, nil,
			idp.Mapping{Attributes: []idp.Attribute{{From: "email_verified", To: "email_verified"}, {From: "given_name", To: "given_name"}}}
	}}, change...)...)
}

func ofExample(c *oidc.Config) { c.HostedDomains = []string{"Example.com"} }

// TestGoogle: who signs in at Google, as whom, and whose address counts as verified.
func TestGoogle(t *testing.T) {
	t.Parallel()
	t.Run("attack 583,584: accounts outside hosted_domain, and addresses that Google has not", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			config          func(*oidc.Config)
			token, info     map[string]any
			err, email, iss string
			verified        bool
		}{
			"of Workspace":                      {email: "ann@example.com", verified: true},
			"an issuer without scheme":          {iss: "bare", email: "ann@example.com", verified: true},
			"of the domain":                     {config: ofExample, email: "ann@example.com", verified: true},
			"of another domain":                 {config: ofExample, token: map[string]any{"hd": "evil.example"}, err: "rejection"},
			"the hd of userinfo does not count": {config: ofExample, token: map[string]any{"hd": nil}, err: "rejection"},
			"of Gmail, where a domain is demanded": {
				config: ofExample, token: map[string]any{"hd": nil, "email": "ann@gmail.com"},
				err: "rejection",
			},
			"an address of the domain does not replace it": {
				config: ofExample,
				token:  map[string]any{"hd": nil, "email": "ann@example.com"}, err: "rejection",
			},
			"hd is a list": {
				config: ofExample, token: map[string]any{"hd": []string{"example.com", "evil.example"}},
				err: "rejection",
			},
			"of Gmail": {
				token: map[string]any{"hd": nil}, info: map[string]any{"email": "ann@gmail.com"},
				email: "ann@gmail.com", verified: true,
			},
			"an account with an address of another provider, checked when it was made": {token: map[string]any{"hd": nil}, email: "ann@example.com"},
			"an address that is not verified": {
				token: map[string]any{"email_verified": false},
				info:  map[string]any{"email_verified": false}, email: "ann@example.com",
			},
			"verified as a text": {
				token: map[string]any{"email_verified": "true"},
				info:  map[string]any{"email_verified": "true"}, email: "ann@example.com",
			},
			"another issuer":     {token: map[string]any{"iss": "https://accounts.google.com.evil.example"}, err: "invalid"},
			"for another client": {token: map[string]any{"aud": "another"}, err: "invalid"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var change []func(*oidc.Config)
				if c.config != nil {
					change = append(change, c.config)
				}
				l := openGoogle(t, change...)
				l.op.Change(func(s *oidctest.Script) {
					for k, v := range c.token {
						s.IDToken[k] = v
					}
					for k, v := range c.info {
						s.UserInfo[k] = v
					}
					if c.iss == "bare" {
						s.IDToken["iss"] = strings.TrimPrefix(l.op.URL, "http://")
					}
				})
				got, err := l.signIn(whenever)
				if c.err != "" {
					if kind(err) != c.err {
						t.Errorf("%+v, %v, want %s", got, err, c.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got.Issuer != l.op.URL || got.Subject != "110169484474386276334" || got.Email != c.email || got.EmailVerified != c.verified {
					t.Errorf("%+v, want %s %s, verified %t", got, l.op.URL, c.email, c.verified)
				}
				if proof := got.Details["email_verified"]; len(proof) > 0 && proof[0] == "true" && !c.verified {
					t.Errorf("the details prove the address: %v", got.Details)
				}
			})
		}
	})
}

// TestGoogleRequest: Google is asked for what it knows, and not for what ends at a page of its own.
func TestGoogleRequest(t *testing.T) {
	t.Parallel()
	asked := func(l *lab, q idp.Request) url.Values {
		t.Helper()
		u, err := url.Parse(l.begin(q).URL)
		if err != nil {
			t.Fatal(err)
		}
		return u.Query()
	}
	if v := asked(openGoogle(t), whenever); v.Has("hd") || v.Has("prompt") || v.Get("scope") != "openid profile email" {
		t.Errorf("asked for %v", v)
	}
	l := openGoogle(t, ofExample, func(c *oidc.Config) { c.SelectAccount = true })
	if v := asked(l, whenever); v.Get("hd") != "example.com" || v.Get("prompt") != "select_account" {
		t.Errorf("asked for %v", v)
	}
	if v := asked(l, idp.Request{MaxAge: -1, Passive: true}); v.Get("prompt") != "none" {
		t.Errorf("asked for %v, want no page", v)
	}
	l = openGoogle(t, func(c *oidc.Config) { c.HostedDomains = []string{"example.com", "example.org"} })
	if v := asked(l, whenever); v.Get("hd") != "*" {
		t.Errorf("asked for %v, want any domain of Workspace", v)
	}
	for _, q := range []idp.Request{{Flow: flowName, Force: true, MaxAge: -1}, {Flow: flowName, MaxAge: time.Minute}} {
		if next, err := l.Begin(t.Context(), q); !isRejection(err) {
			t.Errorf("a fresh sign-in: %+v, %v, want a rejection before the browser leaves", next, err)
		}
	}
}

func openMicrosoft(t *testing.T, change ...func(*oidc.Config)) *lab {
	t.Helper()
	op := oidctest.NewMicrosoft(t)
	return openAs(t, "ms", op, append([]func(*oidc.Config){func(c *oidc.Config) {
		c.Preset, c.Scopes, c.Mapping = oidc.Microsoft, nil,
			idp.Mapping{Attributes: []idp.Attribute{{From: "preferred_username", To: "email"}, {From: "email_verified", To: "email_verified"}}}
	}}, change...)...)
}

func tenant(id string, several ...string) func(*oidc.Config) {
	return func(c *oidc.Config) { c.Tenant, c.Tenants = id, several }
}

// TestMicrosoft: which tenants sign people in, and what a hostile one cannot do.
func TestMicrosoft(t *testing.T) {
	t.Parallel()
	type claims = map[string]any
	t.Run("attack 581,582: tokens of other tenants, and addresses that a tenant claims", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			config  func(*oidc.Config)
			from    string // tenant. Default: oidctest.Tenant
			token   claims
			info    claims
			key     string // whose key it is, as the key says. Default: everybody's
			err     string
			email   string
			proved  bool
			claimed bool
		}{
			"common, any tenant":      {claimed: true},
			"common, a personal one":  {from: oidctest.PersonalTenant, claimed: true},
			"organizations":           {config: tenant("organizations"), claimed: true},
			"organizations, personal": {config: tenant("organizations"), from: oidctest.PersonalTenant, err: "invalid"},
			"consumers":               {config: tenant("consumers"), from: oidctest.PersonalTenant, claimed: true},
			"consumers, of a tenant":  {config: tenant("consumers"), err: "invalid"},
			"one tenant":              {config: tenant(strings.ToUpper(oidctest.Tenant))},
			"one tenant, of another":  {config: tenant(oidctest.Tenant), from: oidctest.OtherTenant, err: "invalid"},
			"a tenant of the list":    {config: tenant("common", oidctest.Tenant), claimed: true},
			"a tenant not on the list": {
				config: tenant("common", oidctest.Tenant),
				from:   oidctest.OtherTenant, err: "invalid",
			},
			"personal, not on the list": {
				config: tenant("common", oidctest.Tenant),
				from:   oidctest.PersonalTenant, err: "invalid",
			},
			"tid of an allowed tenant, iss of a hostile one": {
				config: tenant("common", oidctest.Tenant), from: oidctest.OtherTenant,
				token: claims{"tid": oidctest.Tenant}, err: "invalid",
			},
			"tid of a hostile tenant, iss of an allowed one": {
				config: tenant("common", oidctest.Tenant),
				token:  claims{"tid": oidctest.OtherTenant}, err: "invalid",
			},
			"no tid":                     {token: claims{"tid": nil}, err: "invalid"},
			"a tid that is a list":       {token: claims{"tid": []string{oidctest.Tenant}}, err: "invalid"},
			"the stand-in for a tenant":  {from: "{tenantid}", err: "invalid"},
			"an issuer below another":    {token: claims{"iss": "https://evil.example/" + oidctest.Tenant + "/v2.0"}, err: "invalid"},
			"a token of version 1":       {token: claims{"iss": "https://sts.windows.net/" + oidctest.Tenant + "/"}, err: "invalid"},
			"a key of another tenant":    {key: oidctest.OtherTenant, err: "invalid"},
			"a key of this tenant":       {key: oidctest.Tenant, claimed: true},
			"a key of personal accounts": {key: oidctest.PersonalTenant, err: "invalid"},
			"an address that is claimed": {token: claims{"email": "victim@example.com"}, email: "victim@example.com", claimed: true},
			"and called verified": {
				token: claims{"email": "victim@example.com", "email_verified": true},
				email: "victim@example.com", claimed: true,
			},
			"and its domain is not": {
				token: claims{"email": "victim@example.com", "xms_edov": false},
				email: "victim@example.com", claimed: true,
			},
			"and its domain is not, as a 0": {
				token: claims{"email": "victim@example.com", "xms_edov": "0"},
				email: "victim@example.com", claimed: true,
			},
			"of a domain of the tenant":       {token: claims{"email": "ann@example.com", "xms_edov": true}, email: "ann@example.com", proved: true},
			"of a domain of the tenant, as 1": {token: claims{"email": "ann@example.com", "xms_edov": "1"}, email: "ann@example.com", proved: true},
			"proved here, another in userinfo": {
				token: claims{"email": "ann@example.com", "xms_edov": true},
				info:  claims{"email": "victim@example.com", "email_verified": true, "xms_edov": true}, email: "victim@example.com", claimed: true,
			},
			"proved by userinfo alone": {
				info:  claims{"email": "victim@example.com", "email_verified": true, "xms_edov": true},
				email: "victim@example.com", claimed: true,
			},
			"of the operator's tenant":    {config: tenant(oidctest.Tenant), token: claims{"email": "ann@example.com"}, email: "ann@example.com"},
			"edov without a token's mail": {token: claims{"xms_edov": true}, claimed: true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var change []func(*oidc.Config)
				if c.config != nil {
					change = append(change, c.config)
				}
				l := openMicrosoft(t, change...)
				if c.from == "" {
					c.from = oidctest.Tenant
				}
				l.op.Change(func(s *oidctest.Script) {
					s.IDToken = l.op.OfTenant(c.from, nil)
					for k, v := range c.token {
						s.IDToken[k] = v
					}
					for k, v := range c.info {
						s.UserInfo[k] = v
					}
					if c.key != "" {
						s.Keys = map[string]any{"keys": []any{oidctest.NewKeys(t, "op").WithIssuer(t, l.op.URL+"/"+c.key+"/v2.0")}}
					}
				})
				got, err := l.signIn(whenever)
				if c.err != "" {
					if kind(err) != c.err {
						t.Errorf("%+v, %v, want %s", got, err, c.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got.Issuer != l.op.URL+"/"+c.from+"/v2.0" || got.Stable != "00000000-0000-0000-66f3-3332eca7ea81" ||
					got.Form != "client "+oidctest.ClientID {
					t.Errorf("the identity is %+v, want the issuer of the tenant, and the oid beside sub", got)
				}
				if got.Email != c.email || got.EmailVerified != c.proved || got.EmailClaimed != c.claimed {
					t.Errorf("address %q, proved %t, claimed %t, want %q, %t, %t", got.Email, got.EmailVerified, got.EmailClaimed,
						c.email, c.proved, c.claimed)
				}
				if proof := got.Details["email_verified"]; len(proof) > 0 && proof[0] == "true" {
					t.Errorf("the details prove an address: %v", got.Details)
				}
			})
		}
	})
}

// TestAzureADB2C: people sign in by one policy of a directory and no other.
func TestAzureADB2C(t *testing.T) {
	t.Parallel()
	type claims = map[string]any
	t.Run("attack 585: tokens of another policy and of another directory", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			config func(*oidc.Config)
			token  func(at string) claims
			err    string
		}{
			"by the policy":                   {},
			"with the policy in the query":    {config: func(c *oidc.Config) { c.PolicyInQuery = true }},
			"in another spelling":             {config: func(c *oidc.Config) { c.Policy = "b2c_1_SIGN_in" }},
			"the domain for the directory":    {config: func(c *oidc.Config) { c.Tenant = "Contoso.onmicrosoft.com" }},
			"an older policy, which says acr": {token: func(string) claims { return claims{"tfp": nil, "acr": "b2c_1_sign_in"} }},
			"by another policy":               {token: func(string) claims { return claims{"tfp": oidctest.AnotherPolicy} }, err: "invalid"},
			"by another policy, which says acr": {
				token: func(string) claims { return claims{"tfp": nil, "acr": oidctest.AnotherPolicy} },
				err:   "invalid",
			},
			"by two policies":       {token: func(string) claims { return claims{"acr": oidctest.AnotherPolicy} }, err: "invalid"},
			"by no policy":          {token: func(string) claims { return claims{"tfp": nil} }, err: "invalid"},
			"by an empty one":       {token: func(string) claims { return claims{"tfp": ""} }, err: "invalid"},
			"by a list of policies": {token: func(string) claims { return claims{"tfp": []string{oidctest.Policy}} }, err: "invalid"},
			"of another directory": {
				token: func(at string) claims { return claims{"iss": at + "/" + oidctest.OtherTenant + "/v2.0/"} },
				err:   "invalid",
			},
			"of a directory elsewhere": {token: func(string) claims {
				return claims{"iss": "https://contoso.b2clogin.com/" + oidctest.Directory + "/v2.0/"}
			}, err: "invalid"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				op := oidctest.NewAzureADB2C(t)
				l := openAs(t, "customers", op, func(cfg *oidc.Config) {
					cfg.Preset, cfg.Tenant, cfg.Policy, cfg.Scopes = oidc.AzureADB2C, "contoso", oidctest.Policy, nil
					if c.config != nil {
						c.config(cfg)
					}
				})
				if c.token != nil {
					op.Change(func(s *oidctest.Script) {
						for k, v := range c.token(op.URL) {
							s.IDToken[k] = v
						}
					})
				}
				if steps := l.Check(t.Context()); steps.Err() != nil {
					t.Errorf("Check = %+v", steps)
				}
				got, err := l.signIn(whenever)
				if kind(err) != cmp.Or(c.err, "none") {
					t.Fatalf("%+v, %v, want the error %q", got, err, c.err)
				}
				if err == nil && (got.Issuer != op.URL+"/"+oidctest.Directory+"/v2.0/" || got.Subject != "alice") {
					t.Errorf("%+v", got)
				}
			})
		}
	})
}

// TestSameNumberInTwoTenants: a sub or an oid that a hostile tenant chooses names another person than elsewhere.
func TestSameNumberInTwoTenants(t *testing.T) {
	t.Parallel()
	l := openMicrosoft(t)
	first, err := l.signIn(whenever)
	if err != nil {
		t.Fatal(err)
	}
	l.op.Change(func(s *oidctest.Script) { s.IDToken = l.op.OfTenant(oidctest.OtherTenant, nil) })
	second, err := l.signIn(whenever)
	if err != nil {
		t.Fatal(err)
	}
	if first.Subject != second.Subject || first.Stable != second.Stable || first.Issuer == second.Issuer {
		t.Errorf("%s %s and %s %s are one person, want two", first.Issuer, first.Subject, second.Issuer, second.Subject)
	}
}

// TestPresetOptions: what cannot be meant is refused, in words.
func TestPresetOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*oidc.Config)
		want   string
	}{
		"unknown": {func(c *oidc.Config) { c.Preset = "magic" }, `no preset "magic"`},
		"domain elsewhere": {
			func(c *oidc.Config) { c.Issuer, c.HostedDomains = "https://a.example", []string{"example.com"} },
			"hosted_domain is for Google",
		},
		"no domain":        {func(c *oidc.Config) { c.Preset, c.HostedDomains = oidc.Google, []string{"example"} }, `hosted_domain "example"`},
		"policy elsewhere": {func(c *oidc.Config) { c.Preset, c.Policy = oidc.Google, "B2C_1_x" }, "for Azure AD B2C"},
		"no directory": {
			func(c *oidc.Config) { c.Preset, c.Tenant, c.Policy = oidc.AzureADB2C, "contoso.example", "B2C_1_x" },
			`tenant "contoso.example"`,
		},
		"no policy":        {func(c *oidc.Config) { c.Preset, c.Tenant, c.Policy = oidc.AzureADB2C, "contoso", "../x" }, `policy "../x"`},
		"tenant elsewhere": {func(c *oidc.Config) { c.Preset, c.Tenant = oidc.Google, "common" }, "for Microsoft"},
		"no tenant":        {func(c *oidc.Config) { c.Preset, c.Tenant = oidc.Microsoft, "contoso" }, `tenant "contoso"`},
		"list beside one tenant": {func(c *oidc.Config) {
			c.Preset, c.Tenant, c.Tenants = oidc.Microsoft, oidctest.Tenant, []string{oidctest.Tenant}
		}, "choose among"},
		"a list of something else": {
			func(c *oidc.Config) { c.Preset, c.Tenants = oidc.Microsoft, []string{"example.com"} },
			`tenants "example.com"`,
		},
	} {
		cfg := oidc.Config{ClientID: "x"}
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
