package movein

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
)

// dexFile is the part of Dex's configuration that is moved. (Dex 2.43)
type dexFile struct {
	Issuer  string `yaml:"issuer"`
	Clients []struct {
		ID           string   `yaml:"id"`
		IDEnv        string   `yaml:"idEnv"`
		Name         string   `yaml:"name"`
		RedirectURIs []string `yaml:"redirectURIs"`
		Public       bool     `yaml:"public"`
		Peers        []string `yaml:"trustedPeers"`
		Secret       string   `yaml:"secret"`
		SecretEnv    string   `yaml:"secretEnv"`

		Rest map[string]any `yaml:",inline"`
	} `yaml:"staticClients"`
	Connectors []struct {
		Type   string `yaml:"type"`
		ID     string `yaml:"id"`
		Name   string `yaml:"name"`
		Config struct {
			Issuer   string   `yaml:"issuer"`
			ClientID string   `yaml:"clientID"`
			Scopes   []string `yaml:"scopes"`
			Host     string   `yaml:"host"`
			Secret   string   `yaml:"clientSecret"`
			Redirect string   `yaml:"redirectURI"`

			Rest map[string]any `yaml:",inline"`
		} `yaml:"config"`

		Rest map[string]any `yaml:",inline"`
	} `yaml:"connectors"`
	OAuth2 struct {
		Grants       []string `yaml:"grantTypes"`
		SkipApproval bool     `yaml:"skipApprovalScreen"`

		Rest map[string]any `yaml:",inline"`
	} `yaml:"oauth2"`
	Passwords []any `yaml:"staticPasswords"` // are read with the persons

	Rest map[string]any `yaml:",inline"`
}

// Dex reads the static clients and the connectors of its configuration.
func Dex(r io.Reader) (*Clients, error) {
	var file dexFile
	if err := yaml.NewDecoder(io.LimitReader(r, 16<<20)).Decode(&file); err != nil {
		return nil, fmt.Errorf("the file is not Dex's configuration: %w", err)
	}
	if file.Issuer == "" {
		return nil, errors.New("the file is not Dex's configuration: it has an issuer")
	}
	out := new(Clients)
	for _, c := range file.Clients {
		if c.ID == "" {
			if c.IDEnv == "" {
				return nil, errors.New("a client of the file has no id")
			}
			out.note(c.IDEnv, "does not come: its id is in an environment variable of Dex")
			continue
		}
		one := client.Client{
			ID: c.ID, Name: c.Name, Public: c.Public, Consent: "on", IDTokenClaims: true, Scopes: []string{"openid", "profile", "email", "groups"},
			Grants: []string{"authorization_code", "refresh_token"}, RedirectURIs: out.redirects(c.ID, "", dexRedirects(c.RedirectURIs, c.Public)),
		}
		if file.OAuth2.SkipApproval {
			one.Consent = "off"
		}
		if slices.Contains(c.RedirectURIs, "/device/callback") {
			one.Grants = append(one.Grants, "device_code")
		}
		if len(c.Peers) > 0 {
			out.note(c.ID, "its trustedPeers do not come: a token is for one client; another one exchanges it (token exchange)")
		}
		out.lacks(c.ID, unread(c.Rest))
		out.add(&one)
	}
	for _, g := range file.OAuth2.Grants {
		switch {
		case g == "implicit" || g == "password":
			out.about("oauth2", "the grant "+g+" does not come")
		case g != "authorization_code" && g != "refresh_token":
			out.about("oauth2", "the grant "+g+" comes to no client: name it by grants at those that use it")
		}
	}
	for _, c := range file.Connectors {
		if limits := limitsOf(c.Config.Rest); c.Type == "oidc" && len(limits) > 0 { // an idp would let in everyone
			out.about("connector "+c.ID, "does not come, since "+strings.Join(limits, " and ")+
				" limits who can sign in by it: write an idp for it, and name groups at the clients and sites (docs/caddyfile.md)")
			continue
		}
		out.dexConnector(c.Type, c.ID, c.Name, c.Config.Issuer, c.Config.ClientID, c.Config.Scopes)
		if c.Type == "oidc" {
			out.lacksAbout("connector "+c.ID, append(unread(c.Config.Rest), unread(c.Rest)...))
		}
	}
	out.lacksAbout("oauth2", unread(file.OAuth2.Rest))
	out.lacksAbout("configuration", unread(file.Rest, "enablePasswordDB"))
	return out, nil
}

// limitsOf returns the members of a connector of OpenID Connect that limit who can sign in by it.
func limitsOf(config map[string]any) []string {
	return slices.DeleteFunc(unread(config), func(name string) bool { return name != "allowedGroups" && name != "hostedDomains" })
}

// dexRedirects are redirect URIs without Dex's own. A public client without any can use loopback there.
func dexRedirects(list []string, public bool) (out []string) {
	for _, uri := range list {
		if uri != "/device/callback" && uri != "urn:ietf:wg:oauth:2.0:oob" {
			out = append(out, uri)
		}
	}
	if public && len(list) == 0 {
		out = []string{"http://localhost"}
	}
	return out
}

func (c *Clients) dexConnector(kind, id, name, issuer, clientID string, scopes []string) {
	about := "connector " + id
	switch {
	case kind != "oidc":
		c.about(about, "does not come, since it is of the type "+kind+": write an idp for it (docs/caddyfile.md)")
		return
	}
	if issuer == "" || clientID == "" {
		c.about(about, "does not come: it has no issuer or no clientID")
		return
	}
	if name, ok := strings.CutPrefix(clientID, "$"); ok { // Dex replaces it by the environment
		clientID = "{env." + noBraces(name) + "}"
	} else {
		clientID = noBraces(clientID)
	}
	c.oidcProvider(about, id, name, issuer, clientID, scopes)
}

// oidcProvider writes an idp of OpenID Connect. The client id can be a placeholder.
func (c *Clients) oidcProvider(about, id, name, issuer, clientID string, scopes []string, more ...[]string) {
	if !providerID(id) {
		c.about(about, "does not come, since its id cannot be that of an idp: write one of another id (docs/caddyfile.md)")
		return
	}
	b := Block{
		Head:  []string{"idp", id, "oidc"},
		Lines: [][]string{{"issuer", noBraces(issuer)}, {"client_id", clientID}, {"client_secret", "{env." + client.SecretName(id) + "}"}},
	}
	if name != "" {
		b.Lines = append(b.Lines, []string{"name", noBraces(name)})
	}
	if len(scopes) == 0 {
		scopes = []string{"profile", "email"} // the default of Dex, and what authentik asks for
	}
	line := []string{"scopes"}
	for _, s := range scopes {
		line = append(line, noBraces(s))
	}
	b.Lines = slices.Concat(b.Lines, [][]string{line, {"map", "email", "email"}, {"map", "name", "name"}}, more)
	if !c.addProvider(about, b) {
		return
	}
	c.about(about, "its secret is read from the environment variable "+client.SecretName(id)+", and its redirect URI is /oidc/"+
		id+"/callback here: register that there")
}
