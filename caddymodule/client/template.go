package client

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// template is a client as a library for signing in expects it.
type template struct {
	name     string
	callback string // path of the redirect URI that the library has by default
	after    string // path to which it leads after a sign-out. Default: /
	idToken  bool   // it signs in by an ID token alone and has no secret (response_type=id_token)
	// es256: it verifies ES256 without being told, by what the metadata of the issuer name. Others want RS256.
	es256 bool
}

// templates are the libraries that For knows, in the order of the alphabet. They read the name and groups of people
// from the ID token.
var templates = []template{
	{name: "aspnet", callback: "/signin-oidc", after: "/signout-callback-oidc", es256: true},
	{name: "auth.js", callback: "/api/auth/callback/gatehouse"},
	{name: "django-allauth", callback: "/accounts/oidc/gatehouse/login/callback/"},
	{name: "express-openid-connect", callback: "/callback", idToken: true},
	{name: "gitlab", callback: "/users/auth/openid_connect/callback"},
	{name: "grafana", callback: "/login/generic_oauth"},
	{name: "nextcloud", callback: "/apps/user_oidc/code"},
	{name: "oauth2-proxy", callback: "/oauth2/callback", es256: true},
	{name: "spring", callback: "/login/oauth2/code/gatehouse"},
}

// Libraries are the names that For knows.
func Libraries() []string {
	out := make([]string, len(templates))
	for i, t := range templates {
		out[i] = t.name
	}
	return out
}

// For fills in what a library expects of its client and what the client does not say itself. address is that of the
// application; the redirect URI is the one that the library has there by default. It can be empty if the client has
// redirect URIs.
func (c *Client) For(library, address string) error {
	i := slices.IndexFunc(templates, func(t template) bool { return t.name == library })
	if i < 0 {
		return fmt.Errorf("%q is not a library known here: want one of %s", library, strings.Join(Libraries(), ", "))
	}
	t := templates[i]
	if address != "" {
		u, err := url.Parse(address)
		if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("%q is not the address of an application such as https://app.example.com", address)
		}
		base := strings.TrimSuffix(address, "/")
		if len(c.RedirectURIs) == 0 {
			c.RedirectURIs = []string{base + t.callback}
		}
		if len(c.PostLogoutRedirectURIs) == 0 {
			c.PostLogoutRedirectURIs = []string{base + cmp.Or(t.after, "/")}
		}
	}
	if len(c.RedirectURIs) == 0 {
		return fmt.Errorf("the address of the application or its redirect URIs are missing: %s is called back at %s below the address",
			library, t.callback)
	}
	if len(c.Grants) == 0 {
		c.Grants = []string{"authorization_code", "refresh_token"}
		if t.idToken {
			c.Grants, c.Public = []string{"id_token"}, true
		}
	}
	if len(c.Scopes) == 0 {
		c.Scopes = []string{"openid", "profile", "email", "groups"}
	}
	c.Name = cmp.Or(c.Name, c.ID)
	c.IDTokenClaims = true
	if t.es256 {
		c.IDTokenAlg = cmp.Or(c.IDTokenAlg, "ES256")
	}
	return nil
}
