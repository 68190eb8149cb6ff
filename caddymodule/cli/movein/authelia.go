package movein

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
)

// autheliaClient is a client of Authelia's configuration. (Authelia 4.39, "OpenID Connect 1.0 Clients")
type autheliaClient struct {
	ID           string   `yaml:"client_id"`
	Name         string   `yaml:"client_name"`
	Public       bool     `yaml:"public"`
	RedirectURIs []string `yaml:"redirect_uris"`
	Scopes       []string `yaml:"scopes"`
	GrantTypes   []string `yaml:"grant_types"`
	Policy       string   `yaml:"authorization_policy"`
	Consent      string   `yaml:"consent_mode"`
	PKCE         bool     `yaml:"require_pkce"`
	PAR          bool     `yaml:"require_pushed_authorization_requests"`
	Auth         string   `yaml:"token_endpoint_auth_method"`
	JWKS         string   `yaml:"jwks_uri"`
	Audience     []string `yaml:"audience"`
	Secret       string   `yaml:"client_secret"`
	IDTokenAlg   string   `yaml:"id_token_signed_response_alg"`
	UserinfoAlg  string   `yaml:"userinfo_signed_response_alg"`
	ResponseAlg  string   `yaml:"authorization_signed_response_alg"`
	AccessAlg    string   `yaml:"access_token_signed_response_alg"`
	Responses    []string `yaml:"response_types"`
	Sector       string   `yaml:"sector_identifier_uri"`
	Challenge    string   `yaml:"pkce_challenge_method"`

	Rest map[string]any `yaml:",inline"`
}

// Authelia reads the clients of its configuration.yml.
func Authelia(r io.Reader) (*Clients, error) {
	var file struct {
		Access    *yaml.Node `yaml:"access_control"`
		Providers struct {
			OIDC struct {
				Clients []autheliaClient `yaml:"clients"`

				Rest map[string]any `yaml:",inline"`
			} `yaml:"oidc"`

			Rest map[string]any `yaml:",inline"`
		} `yaml:"identity_providers"`

		Rest map[string]any `yaml:",inline"`
	}
	if err := yaml.NewDecoder(io.LimitReader(r, 16<<20)).Decode(&file); err != nil {
		return nil, fmt.Errorf("the file is not Authelia's configuration: %w", err)
	}
	out := new(Clients)
	for _, a := range file.Providers.OIDC.Clients {
		if a.ID == "" {
			return nil, errors.New("a client of the file has no client_id")
		}
		out.authelia(&a)
	}
	if file.Access != nil {
		out.about("access_control", "rules of sites do not come: say them by protect and policy (docs/gateways.md)")
	}
	out.lacksAbout("identity_providers.oidc", unread(file.Providers.OIDC.Rest))
	out.lacksAbout("identity_providers", unread(file.Providers.Rest))
	out.lacksAbout("configuration", unread(file.Rest))
	return out, nil
}

func (c *Clients) authelia(a *autheliaClient) {
	one := client.Client{
		ID: a.ID, Name: a.Name, Public: a.Public, Consent: "on", PKCERequired: a.PKCE && !a.Public, PARRequired: a.PAR,
		RedirectURIs: c.redirects(a.ID, "", a.RedirectURIs), IDTokenClaims: true,
	}
	for _, g := range a.GrantTypes {
		switch g {
		case "authorization_code", "refresh_token", "client_credentials":
			one.Grants = append(one.Grants, g)
		case "urn:ietf:params:oauth:grant-type:device_code":
			one.Grants = append(one.Grants, "device_code")
		case "implicit":
			c.note(a.ID, "the implicit flow does not come: the authorization code flow with PKCE takes its place (RFC 9700)")
		default:
			c.note(a.ID, "the grant "+strconv.Quote(g)+" does not come")
		}
	}
	if len(a.GrantTypes) == 0 {
		one.Grants = []string{"authorization_code"}
	}
	if len(one.Grants) == 0 {
		c.note(a.ID, "does not come: no grant is left that it could use")
		return
	}
	scopes := a.Scopes
	if len(scopes) == 0 {
		scopes = []string{"openid", "groups", "profile", "email"}
	}
	for _, s := range scopes {
		switch {
		case s == "offline_access":
			if !slices.Contains(one.Grants, "refresh_token") {
				one.Grants = append(one.Grants, "refresh_token")
			}
		case strings.ContainsAny(s, "{} "):
			c.note(a.ID, "the scope "+strconv.Quote(s)+" does not come")
		case slices.Contains(one.Scopes, s):
		default:
			one.Scopes = append(one.Scopes, noBraces(s))
		}
	}
	switch a.Consent {
	case "implicit":
		one.Consent = "off"
	case "explicit":
		one.Consent = "always"
	}
	switch {
	case a.Auth == "private_key_jwt" && a.JWKS != "":
		one.AuthMethod, one.JWKS = a.Auth, noBraces(a.JWKS)
	case a.Auth == "private_key_jwt":
		c.note(a.ID, "it signs in by a key: put its key set into a file for jwks, or give it a secret")
	case a.Auth == "client_secret_post" && !a.Public:
		one.AuthMethod = "post"
	}
	// RFC 6749 6: a refresh token comes with a grant that a person takes part in.
	if slices.Contains(one.Grants, "refresh_token") && !slices.Contains(one.Grants, "authorization_code") &&
		!slices.Contains(one.Grants, "device_code") {
		one.Grants = slices.DeleteFunc(one.Grants, func(g string) bool { return g == "refresh_token" })
		c.note(a.ID, "the grant refresh_token does not come: none of the others gives a refresh token")
	}
	if !slices.Contains(one.Scopes, "openid") {
		one.IDTokenClaims = false
	}
	algs := []string{"RS256", "ES256", "EdDSA"}
	c.oneOf(a.ID, "id_token_signed_response_alg", a.IDTokenAlg, &one.IDTokenAlg, algs...)
	if a.UserinfoAlg != "none" {
		c.oneOf(a.ID, "userinfo_signed_response_alg", a.UserinfoAlg, &one.UserinfoAlg, algs...)
	}
	if a.ResponseAlg != "none" {
		c.oneOf(a.ID, "authorization_signed_response_alg", a.ResponseAlg, &one.ResponseAlg, algs...)
	}
	if a.AccessAlg != "" && a.AccessAlg != "none" {
		if one.TokenFormat = "jwt"; a.AccessAlg != cmp.Or(a.IDTokenAlg, "RS256") {
			c.note(a.ID, "access_token_signed_response_alg "+strconv.Quote(a.AccessAlg)+
				" does not come: access tokens are signed like its ID tokens")
		}
	}
	if a.Sector != "" {
		one.SubjectType = "pairwise"
		c.note(a.ID, "sector_identifier_uri: its pairwise subjects are others here, one for each host: the application sees new users")
	}
	if a.Challenge != "" && a.Challenge != "S256" {
		c.note(a.ID, "pkce_challenge_method "+strconv.Quote(a.Challenge)+" does not come: S256 alone is taken")
	}
	for _, r := range a.Responses {
		if r != "code" {
			c.note(a.ID, "the response type "+strconv.Quote(r)+" does not come: code takes its place")
		}
	}
	c.lacks(a.ID, unread(a.Rest))
	if slices.Contains(one.Grants, "authorization_code") || slices.Contains(one.Grants, "device_code") {
		c.autheliaPolicy(&one, noBraces(a.Policy))
	}
	if len(a.Audience) > 0 {
		c.note(a.ID, "its audiences do not come: name those that are addresses by audiences")
	}
	c.add(&one)
}

// autheliaPolicy says who can sign in at a client, and how. The policy is Authelia's default if it is empty.
func (c *Clients) autheliaPolicy(one *client.Client, policy string) {
	switch policy {
	case "one_factor":
		return
	case "two_factor":
	case "":
		c.note(one.ID, "it has no authorization_policy, which is two_factor: it comes with second_factor always")
	case "deny":
		one.Disabled = true
		c.note(one.ID, "its policy is deny: it comes disabled")
	default:
		c.closeTo(one, "the policy "+strconv.Quote(policy)+" does not come")
	}
	one.SecondFactor = "always"
}
