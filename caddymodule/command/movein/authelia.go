package movein

import (
	"errors"
	"fmt"
	"io"
	"slices"

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
}

// Authelia reads the clients of its configuration.yml.
func Authelia(r io.Reader) (*Clients, error) {
	var file struct {
		Access    *yaml.Node `yaml:"access_control"`
		Providers struct {
			OIDC struct {
				Clients []autheliaClient `yaml:"clients"`
			} `yaml:"oidc"`
		} `yaml:"identity_providers"`
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
		out.note("access_control", "rules of sites do not come: say them by protect and policy (docs/gateways.md)")
	}
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
		default:
			c.note(a.ID, "the grant "+g+" does not come")
		}
	}
	if len(a.GrantTypes) == 0 {
		one.Grants = []string{"authorization_code"}
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
	if a.Policy != "" && a.Policy != "one_factor" {
		c.note(a.ID, "the policy "+a.Policy+" does not come: ask for a level by the scopes of the client")
	}
	if len(a.Audience) > 0 {
		c.note(a.ID, "its audiences do not come: name those that are addresses by audiences")
	}
	c.add(&one)
}
