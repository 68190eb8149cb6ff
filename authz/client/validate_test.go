package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// goodSecret is long enough for a client.
const goodSecret = "0123456789abcdef0123456789abcdef0123456789a"

func TestValidateClient(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*client.Client)
		want   string // part of the error; empty: none
	}{
		{"good", func(*client.Client) {}, ""},
		{"no id", func(c *client.Client) { c.ID = "" }, "id is missing"},
		{"long id", func(c *client.Client) { c.ID = strings.Repeat("x", 129) }, "128 bytes"},
		{"control in id", func(c *client.Client) { c.ID = "a\nb" }, "control characters"},
		{"no secret", func(c *client.Client) { c.Secrets = nil }, "secret is missing"},
		{"short secret", func(c *client.Client) { c.Secrets = []secret.String{secret.New(strings.Repeat("x", 31))} }, "fewer than 32"},
		{"bad hash", func(c *client.Client) { c.SecretHashes = []string{"$md5$x"} }, "secret_hash"},
		{"bad keyed hash", func(c *client.Client) { c.SecretHashes = []string{"hmac:x"} }, "secret_hash"},
		{"public with secret", func(c *client.Client) { c.Public = true }, "public client has no secret"},
		{"public", func(c *client.Client) { c.Public, c.Secrets = true, nil }, ""},
		{"public, client_credentials", func(c *client.Client) {
			c.Public, c.Secrets, c.Grants = true, nil, []string{"client_credentials"}
		}, "public client cannot use client_credentials"},
		{"public, post", func(c *client.Client) { c.Public, c.Secrets, c.AuthMethod = true, nil, "post" }, "does not authenticate"},
		{"unknown method", func(c *client.Client) { c.AuthMethod = "digest" }, `"digest" is not one of`},
		{"no grants", func(c *client.Client) { c.Grants = nil }, "grants is missing"},
		{"implicit", func(c *client.Client) { c.Grants = []string{"implicit"} }, ""},
		{
			"implicit, nowhere to go", func(c *client.Client) { c.Grants, c.RedirectURIs = []string{"implicit"}, nil },
			"redirect_uris is missing: implicit",
		},
		{"implicit cannot refresh", func(c *client.Client) { c.Grants = []string{"implicit", "refresh_token"} }, "add authorization_code"},
		{"password", func(c *client.Client) { c.Grants = []string{"password", "refresh_token"} }, ""},
		{"password only", func(c *client.Client) { c.Grants, c.PasswordOnly = []string{"password"}, true }, ""},
		{
			"password only, without the grant", func(c *client.Client) { c.PasswordOnly = true },
			"password_only: the client does not have the grant password",
		},
		{
			"password, public", func(c *client.Client) { c.Grants, c.Public, c.Secrets = []string{"password"}, true, nil },
			"public client cannot use password",
		},
		{
			"password beside code", func(c *client.Client) { c.Grants = []string{"password", "authorization_code"} },
			"cannot be combined with authorization_code",
		},
		{"validate_bearer", func(c *client.Client) { c.Grants = []string{"validate_bearer"} }, ""},
		{
			"validate_bearer, public", func(c *client.Client) { c.Grants, c.Public, c.Secrets = []string{"validate_bearer"}, true, nil },
			"cannot use validate_bearer",
		},
		{"unknown grant", func(c *client.Client) { c.Grants = []string{"foo"} }, `"foo" is not one of`},
		{"refresh alone", func(c *client.Client) { c.Grants = []string{"refresh_token"} }, "add authorization_code"},
		{"no redirect", func(c *client.Client) { c.RedirectURIs = nil }, "redirect_uris is missing"},
		{"fragment", func(c *client.Client) { c.RedirectURIs = []string{"https://a.example/#x"} }, "fragment"},
		{"post logout", func(c *client.Client) { c.PostLogoutRedirectURIs = []string{"javascript:alert(1)"} }, "post_logout_redirect_uris"},
		{"scope", func(c *client.Client) { c.Scopes = []string{`a"b`} }, "scopes"},
		{"default scope", func(c *client.Client) { c.DefaultScopes = []string{"other"} }, "not one of the client's scopes"},
		{"default offline_access", func(c *client.Client) {
			c.Grants = append(c.Grants, "refresh_token")
			c.DefaultScopes = []string{"offline_access"}
		}, ""},
		{"idps", func(c *client.Client) { c.IDPs = []string{"identity", "partner"} }, ""},
		{"idp twice", func(c *client.Client) { c.IDPs = []string{"partner", "partner"} }, `"partner" is named twice`},
		{"consent", func(c *client.Client) { c.Consent = "never" }, `"never" is not one of on, off, always`},
		{"alg", func(c *client.Client) { c.IDTokenAlg = "HS256" }, "not one of RS256, ES256, EdDSA"},
		{"jwt", func(c *client.Client) { c.TokenFormat, c.Lifetimes.AccessToken = "jwt", 24*time.Hour }, ""},
		{
			"jwt that outlives its key", func(c *client.Client) { c.TokenFormat, c.Lifetimes.AccessToken = "jwt", 25*time.Hour },
			"too long for a JWT",
		},
		{"token_format", func(c *client.Client) { c.TokenFormat = "saml" }, "not one of opaque, jwt"},
		{"app", func(c *client.Client) { c.App = &client.App{Identifier: "com.example.app", Platform: "ios"} }, "app: the version"},
		{"audience", func(c *client.Client) { c.Audiences = []string{"api"} }, "absolute URI"},
		{"audience fragment", func(c *client.Client) { c.Audiences = []string{"https://a.example/#x"} }, "absolute URI"},
		{"origin", func(c *client.Client) { c.Origins = []string{"https://a.example/path"} }, "not an origin"},
		{"origins", func(c *client.Client) { c.Origins = []string{"https://a.example", "*"} }, `"*"`},
		{"code lifetime", func(c *client.Client) { c.Lifetimes.Code = time.Hour }, "lifetimes: code"},
		{"negative lifetime", func(c *client.Client) { c.Lifetimes.AccessToken = -1 }, "lifetimes: access_token"},
		{"max_sessions", func(c *client.Client) { c.MaxSessions = -1 }, "max_sessions"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := &client.Client{
				ID: "shop", Secrets: []secret.String{secret.New(goodSecret)}, RedirectURIs: []string{"https://shop.example.com/cb"},
				Grants: []string{"authorization_code"}, Scopes: []string{"openid"}, DefaultScopes: []string{"openid"},
			}
			tc.change(c)
			wantProblem(t, c.Validate(), tc.want)
		})
	}
}

func wantProblem(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("Validate = %v, want nil", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("Validate = %v, want %q in it", err, want)
	case err != nil && strings.Contains(err.Error(), goodSecret):
		t.Errorf("Validate = %v, which holds the secret", err)
	}
}

func TestValidateAPIClient(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*client.APIClient)
		want   string
	}{
		{"good", func(*client.APIClient) {}, ""},
		{"colon", func(c *client.APIClient) { c.ID = "a:b" }, "colon"},
		{"no secret", func(c *client.APIClient) { c.Secrets = nil }, "secret is missing"},
		{"no apis", func(c *client.APIClient) { c.APIs = nil }, "apis is missing"},
		{"unknown api", func(c *client.APIClient) { c.APIs = []string{"all"} }, `"all" is not one of`},
		{"audience", func(c *client.APIClient) { c.Audiences = []string{"x"} }, "absolute URI"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := &client.APIClient{ID: "ops", Secrets: []secret.String{secret.New(goodSecret)}, APIs: []string{"introspection"}}
			tc.change(c)
			wantProblem(t, c.Validate(), tc.want)
		})
	}
	for name, want := range map[client.Scope]string{
		{Name: "a"}: "", {Name: ""}: "name", {Name: "a b"}: "name", {Name: "a", Level: 5}: "level", {Name: "a", UsageLimit: 5}: "",
		{Name: "a", UsageLimit: -1}: "usage_limit: -1 is not between",
	} {
		wantProblem(t, name.Validate(), want)
	}
}
