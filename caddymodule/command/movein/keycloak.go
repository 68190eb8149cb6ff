package movein

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
)

// ownClients are the clients that Keycloak makes for itself in each realm.
var ownClients = []string{"account", "account-console", "admin-cli", "broker", "realm-management", "security-admin-console"}

// keycloakClient is a client as Keycloak writes it. (ClientRepresentation)
type keycloakClient struct {
	ID            string            `json:"clientId"`
	Name          string            `json:"name"`
	Enabled       *bool             `json:"enabled"`
	Protocol      string            `json:"protocol"`
	Public        bool              `json:"publicClient"`
	BearerOnly    bool              `json:"bearerOnly"`
	AuthType      string            `json:"clientAuthenticatorType"`
	RootURL       string            `json:"rootUrl"`
	RedirectURIs  []string          `json:"redirectUris"`
	Origins       []string          `json:"webOrigins"`
	Consent       bool              `json:"consentRequired"`
	Standard      bool              `json:"standardFlowEnabled"`
	Implicit      bool              `json:"implicitFlowEnabled"`
	Direct        bool              `json:"directAccessGrantsEnabled"`
	Machine       bool              `json:"serviceAccountsEnabled"`
	Frontchannel  bool              `json:"frontchannelLogout"`
	DefaultScopes []string          `json:"defaultClientScopes"`
	Scopes        []string          `json:"optionalClientScopes"`
	Attributes    map[string]string `json:"attributes"`
	Mappers       []json.RawMessage `json:"protocolMappers"`
}

// Keycloak reads the clients of a realm that `kc.sh export` has written.
func Keycloak(r io.Reader) (*Clients, error) {
	var realm struct {
		Clients []json.RawMessage `json:"clients"`
	}
	if err := json.NewDecoder(r).Decode(&realm); err != nil {
		return nil, fmt.Errorf("the file is not JSON: %w", err)
	}
	out := new(Clients)
	for i, raw := range realm.Clients {
		var k keycloakClient
		if err := json.Unmarshal(raw, &k); err != nil || k.ID == "" {
			return nil, errors.New("client " + strconv.Itoa(i+1) + " of the file is not one of Keycloak's")
		}
		if slices.Contains(ownClients, k.ID) || strings.HasPrefix(k.ID, "realm-") || strings.HasSuffix(k.ID, "-realm") {
			continue
		}
		out.keycloak(&k)
	}
	return out, nil
}

func (c *Clients) keycloak(k *keycloakClient) {
	switch {
	case k.Protocol != "" && k.Protocol != "openid-connect":
		c.note(k.ID, "does not come: it speaks "+k.Protocol)
		return
	case k.BearerOnly:
		c.note(k.ID, "does not come: it only checks tokens; give it an api_client with introspection")
		return
	}
	one := client.Client{ID: k.ID, Name: k.Name, Public: k.Public, Consent: "off", Disabled: k.Enabled != nil && !*k.Enabled}
	if k.Consent {
		one.Consent = "on"
	}
	if strings.HasPrefix(k.Name, "${") {
		one.Name = ""
	}
	if k.Standard {
		one.Grants = append(one.Grants, "authorization_code", "refresh_token")
	}
	if k.Machine {
		one.Grants = append(one.Grants, "client_credentials")
	}
	if k.Attributes["oauth2.device.authorization.grant.enabled"] == "true" {
		one.Grants = append(one.Grants, "device_code")
	}
	if k.Implicit {
		c.note(k.ID, "the implicit flow does not come: the authorization code flow with PKCE takes its place (RFC 9700)")
	}
	if k.Direct {
		c.note(k.ID, "the grant password does not come: applications that ask for passwords get around second factors; add the grant if it must stay")
	}
	if len(one.Grants) == 0 {
		c.note(k.ID, "does not come: no flow is left that it could use")
		return
	}
	if k.Standard {
		one.RedirectURIs = c.redirects(k.ID, k.RootURL, k.RedirectURIs)
	}
	for _, uri := range strings.Split(k.Attributes["post.logout.redirect.uris"], "##") {
		if uri == "+" {
			one.PostLogoutRedirectURIs = append(one.PostLogoutRedirectURIs, one.RedirectURIs...)
		} else if uri != "" && uri != "-" {
			one.PostLogoutRedirectURIs = append(one.PostLogoutRedirectURIs, c.redirects(k.ID, k.RootURL, []string{uri})...)
		}
	}
	for _, o := range k.Origins {
		if o != "+" && o != "*" && o != "" && !strings.ContainsAny(o, "{}") {
			one.Origins = append(one.Origins, o)
		} else if o == "*" {
			c.note(k.ID, "scripts of all origins could call Keycloak; here those of its redirect URIs can")
		}
	}
	one.BackchannelLogoutURI = noBraces(k.Attributes["backchannel.logout.url"])
	one.PKCERequired = !k.Public && k.Attributes["pkce.code.challenge.method"] == "S256"
	one.PARRequired = k.Attributes["require.pushed.authorization.requests"] == "true"
	one.DPoPRequired = k.Attributes["dpop.bound.access.tokens"] == "true"
	if s := k.Attributes["access.token.lifespan"]; s != "" && s != "-1" {
		if n, err := strconv.Atoi(s); err == nil && n > 0 {
			one.Lifetimes.AccessToken = options.Duration(strconv.Itoa(n) + "s")
		}
	}
	switch k.AuthType {
	case "", "client-secret", "client-secret-basic":
	case "client-jwt":
		if url := k.Attributes["jwks.url"]; k.Attributes["use.jwks.url"] == "true" && url != "" {
			one.AuthMethod, one.JWKS = "private_key_jwt", noBraces(url)
		} else {
			c.note(k.ID, "it signs in by a key that the export does not have as a key set: it gets a secret")
		}
	default:
		c.note(k.ID, "it signs in by "+k.AuthType+", which does not come: it gets a secret")
	}
	one.Scopes = c.scopes(k)
	if len(k.Mappers) > 0 {
		c.note(k.ID, "its mappers of claims do not come")
	}
	one.IDTokenClaims = k.Standard
	c.add(&one)
}

// scopes returns those of a client that mean something here.
func (c *Clients) scopes(k *keycloakClient) (out []string) {
	if k.Standard {
		out = []string{"openid"}
	}
	for _, s := range slices.Concat(k.DefaultScopes, k.Scopes) {
		switch s {
		case "profile", "email", "phone", "address", "groups":
		case "offline_access":
			continue // a refresh token comes with the grant
		case "roles", "web-origins", "acr", "basic", "microprofile-jwt", "organization", "service_account":
			continue // Keycloak's own
		default:
			c.note(k.ID, "the scope "+strconv.Quote(s)+" comes as a name: say what it means by a block scope")
		}
		if !slices.Contains(out, s) && !strings.ContainsAny(s, "{} ") {
			out = append(out, s)
		}
	}
	return out
}
