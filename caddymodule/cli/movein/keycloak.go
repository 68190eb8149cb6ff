package movein

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
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
	Mappers       []struct {
		Name string `json:"name"`
		Kind string `json:"protocolMapper"`
	} `json:"protocolMappers"`
}

// clientMembers are the members of a client that have an option or a line of their own. The last ones mean nothing
// outside of Keycloak: its own id, who may edit the client, and how its adapters register.
var clientMembers = []string{
	"clientId", "name", "enabled", "protocol", "publicClient", "bearerOnly", "clientAuthenticatorType", "rootUrl", "redirectUris",
	"webOrigins", "consentRequired",
	"standardFlowEnabled", "implicitFlowEnabled", "directAccessGrantsEnabled", "serviceAccountsEnabled", "defaultClientScopes",
	"optionalClientScopes", "attributes", "protocolMappers", "secret", "authorizationServicesEnabled",
	"authenticationFlowBindingOverrides", "fullScopeAllowed", "frontchannelLogout",
	"id", "access", "nodeReRegistrationTimeout", "registeredNodes",
}

// Keycloak reads the clients of a realm that Keycloak has exported, and names what else of the realm does not come.
func Keycloak(r io.Reader) (*Clients, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if err := checkJSON(raw); err != nil {
		return nil, err
	}
	var realm map[string]json.RawMessage
	if err := json.Unmarshal(raw, &realm); err != nil {
		return nil, errors.New("the file is no realm: want one JSON object")
	}
	var list []json.RawMessage
	if raw := realm["clients"]; raw != nil {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, errors.New("clients of the file is not a list")
		}
	}
	out := new(Clients)
	var own []string
	lifespan := realmLifespan(realm)
	for i, raw := range list {
		var k keycloakClient
		err := json.Unmarshal(raw, &k)
		if out.refuses(err, k.ID, i) {
			continue
		}
		if err != nil || k.ID == "" {
			return nil, errors.New("client " + strconv.Itoa(i+1) + " of the file is not one of Keycloak's")
		}
		if slices.Contains(ownClients, k.ID) || strings.HasPrefix(k.ID, "realm-") || strings.HasSuffix(k.ID, "-realm") {
			own = append(own, k.ID)
			continue
		}
		out.keycloak(&k, objectOf(raw), lifespan)
	}
	if len(own) > 0 {
		out.about("realm", "Keycloak's own clients do not come: "+strings.Join(own, ", "))
	}
	out.keycloakRealm(realm)
	return out, nil
}

func (c *Clients) keycloak(k *keycloakClient, members map[string]any, lifespan string) {
	switch {
	case k.Protocol == "saml":
		c.note(k.ID, "does not come: it is a service provider of SAML; write a service_provider with its metadata (docs/saml-service-providers.md)")
		return
	case k.Protocol != "" && k.Protocol != "openid-connect":
		c.note(k.ID, "does not come: it speaks "+k.Protocol)
		return
	case k.BearerOnly:
		c.note(k.ID, "does not come: it only checks tokens; give it an api_client with introspection")
		return
	}
	one := client.Client{
		ID: k.ID, Name: k.Name, Public: k.Public, Consent: "off", Disabled: k.Enabled != nil && !*k.Enabled,
		TokenFormat: "jwt", // as Keycloak's are
	}
	if k.Consent {
		one.Consent = "on"
	}
	if strings.HasPrefix(k.Name, "${") {
		one.Name = ""
	}
	at := attributes{k.Attributes, map[string]bool{}}
	refreshes := at.take("use.refresh.tokens") != "false"
	if k.Standard {
		if one.Grants = append(one.Grants, "authorization_code"); refreshes {
			one.Grants = append(one.Grants, "refresh_token")
		}
	}
	if k.Machine {
		one.Grants = append(one.Grants, "client_credentials")
		c.note(k.ID, "the roles of its service account do not come: name what it can do by scopes")
	}
	if at.take("oauth2.device.authorization.grant.enabled") == "true" {
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
	for _, uri := range strings.Split(at.take("post.logout.redirect.uris"), "##") {
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
	if on, _ := members["authorizationServicesEnabled"].(bool); on {
		c.note(k.ID, "its authorization services (UMA) do not come: say who may what by policy (docs/guide.md)")
	}
	if on, _ := members["fullScopeAllowed"].(bool); on && slices.Contains(k.DefaultScopes, "roles") {
		c.note(k.ID, "the scope roles does not come: tokens have no roles; make groups of those that the application asks for")
	} else if slices.Contains(append(slices.Clone(k.DefaultScopes), k.Scopes...), "roles") {
		c.note(k.ID, "the scope roles does not come: make groups of the roles that the application asks for")
	}
	c.keycloakLogout(k, &at, &one)
	c.keycloakTokens(k, &at, &one, lifespan)
	c.keycloakSecret(k, &at, &one)
	one.Scopes, one.DefaultScopes = c.scopes(k)
	var mappers []string
	for _, m := range k.Mappers {
		mappers = append(mappers, noBraces(m.Name))
		if strings.Contains(m.Kind, "pairwise") {
			one.SubjectType = "pairwise"
			c.note(k.ID, "its pairwise subjects are others here: the application sees new users")
		}
	}
	if len(k.Mappers) > 0 {
		c.note(k.ID, "its mappers of claims do not come: "+strings.Join(mappers, ", "))
	}
	one.IDTokenClaims = k.Standard
	if name := "authenticationFlowBindingOverrides"; !isNothing(members[name]) { // a flow can refuse people
		c.closeTo(&one, name+" does not come")
	}
	c.lacks(k.ID, unread(members, clientMembers...))
	c.lacks(k.ID, at.rest())
	c.add(&one)
}

// attributes are those of a client, each of which is taken or named.
type attributes struct {
	of    map[string]string
	taken map[string]bool
}

func (a *attributes) take(name string) string {
	a.taken[name] = true
	return a.of[name]
}

// rest names the attributes that no one has taken, but for those that are off or at Keycloak's default, and those that
// mean nothing outside of it.
func (a *attributes) rest() (out []string) {
	ofKeycloak := []string{
		"client.secret.creation.time", "realm_client", "client_credentials.use_refresh_token", "display.on.consent.screen",
		"saml_force_name_id_format",
	}
	object := map[string]any{}
	for name, v := range a.of {
		if v != "" && v != "false" && v != "-1" && !a.taken[name] && !slices.Contains(ofKeycloak, name) {
			object["attribute "+name] = v
		}
	}
	return unread(object)
}

func (c *Clients) keycloakLogout(k *keycloakClient, at *attributes, one *client.Client) {
	one.BackchannelLogoutURI = noBraces(at.take("backchannel.logout.url"))
	front := noBraces(at.take("frontchannel.logout.url"))
	switch {
	case k.Frontchannel && front != "":
		one.FrontchannelLogoutURI = front
	case front != "":
		c.note(k.ID, "its front-channel logout, which is off, does not come")
	case k.Frontchannel && one.BackchannelLogoutURI == "":
		c.note(k.ID, "frontchannelLogout has no address (frontchannel.logout.url) and does not come")
	}
	at.take("backchannel.logout.session.required") // sid is always there
	at.take("frontchannel.logout.session.required")
}

// keycloakTokens takes over what the client says about its tokens.
func (c *Clients) keycloakTokens(k *keycloakClient, at *attributes, one *client.Client, lifespan string) {
	c.oneOf(k.ID, "id.token.signed.response.alg", at.take("id.token.signed.response.alg"), &one.IDTokenAlg, "RS256", "ES256", "EdDSA")
	if alg := at.take("user.info.response.signature.alg"); alg != "" && alg != "unsigned" {
		c.oneOf(k.ID, "user.info.response.signature.alg", alg, &one.UserinfoAlg, "RS256", "ES256", "EdDSA")
	}
	c.oneOf(k.ID, "authorization.signed.response.alg", at.take("authorization.signed.response.alg"), &one.ResponseAlg,
		"RS256", "ES256", "EdDSA")
	if alg := at.take("access.token.signed.response.alg"); alg != "" && alg != one.IDTokenAlg {
		c.note(k.ID, "access.token.signed.response.alg "+strconv.Quote(alg)+" does not come: access tokens are signed like its ID tokens")
	}
	for name, takes := range map[string]bool{
		"pkce.code.challenge.method": true, "require.pushed.authorization.requests": true, "dpop.bound.access.tokens": true,
		"tls.client.certificate.bound.access.tokens": true,
	} {
		if v := at.take(name); takes && v != "" && v != "false" {
			switch name {
			case "pkce.code.challenge.method":
				if v == "S256" {
					one.PKCERequired = !k.Public
				} else {
					c.note(k.ID, "the PKCE method "+strconv.Quote(v)+" does not come: S256 alone is taken")
				}
			case "require.pushed.authorization.requests":
				one.PARRequired = true
			case "dpop.bound.access.tokens":
				one.DPoPRequired = true
			case "tls.client.certificate.bound.access.tokens":
				c.note(k.ID, "its tokens were bound to a certificate: add `mtls required` where certificates of clients are configured (docs/certificates.md)")
			}
		}
	}
	for name, to := range map[string]*caddyfileutil.Duration{
		"access.token.lifespan": &one.Lifetimes.AccessToken, "client.session.max.lifespan": &one.Lifetimes.RefreshChain,
		"client.session.idle.timeout": &one.Lifetimes.RefreshToken,
	} {
		v := at.take(name)
		if name == "access.token.lifespan" && (v == "" || v == "-1") {
			v = lifespan
		}
		switch n, err := strconv.Atoi(v); {
		case v == "" || v == "-1" || v == "0":
		case err != nil || n < 0 || n > 366*24*3600 || name == "access.token.lifespan" && n > 24*3600:
			c.note(k.ID, name+" "+strconv.Quote(v)+" does not come: it is no number of seconds, or too many")
		case name != "access.token.lifespan" && !slices.Contains(one.Grants, "refresh_token"):
			c.note(k.ID, name+" does not come: the client has no refresh tokens")
		default:
			*to = caddyfileutil.Duration(strconv.Itoa(n) + "s")
		}
	}
	for _, name := range []string{"acr.loa.map", "default.acr.values", "minimum.acr.value"} {
		if v := at.take(name); v != "" && v != "{}" {
			c.note(k.ID, name+" does not come: acr_values are the levels 1 to 4 here; demand one by the level of a scope")
		}
	}
}

// oneOf takes a word over that is one of those that are known here.
func (c *Clients) oneOf(id, name, v string, to *string, known ...string) {
	switch {
	case v == "":
	case slices.Contains(known, v):
		*to = v
	default:
		c.note(id, name+" "+strconv.Quote(v)+" does not come: it is not one of "+strings.Join(known, ", "))
	}
}

// keycloakSecret says how the client authenticates.
func (c *Clients) keycloakSecret(k *keycloakClient, at *attributes, one *client.Client) {
	keys := noBraces(at.take("jwks.url"))
	uses := at.take("use.jwks.url") == "true"
	switch k.AuthType {
	case "", "client-secret", "client-secret-basic":
	case "client-jwt":
		if uses && keys != "" {
			one.AuthMethod, one.JWKS = "private_key_jwt", keys
			return
		}
		c.note(k.ID, "it signs in by a key that the export does not have as a key set: it gets a secret")
	default:
		c.note(k.ID, "it signs in by "+k.AuthType+", which does not come: it gets a secret")
	}
	if keys != "" && k.AuthType != "client-jwt" {
		c.note(k.ID, "its key set jwks.url does not come: it signs in by a secret")
	}
}

// scopes returns those of a client that mean something here, and those that a request without scopes gets.
func (c *Clients) scopes(k *keycloakClient) (out, usual []string) {
	if k.Standard {
		out, usual = []string{"openid"}, []string{"openid"}
	}
	for i, s := range slices.Concat(k.DefaultScopes, k.Scopes) {
		switch s {
		case "profile", "email", "phone", "address", "groups":
		case "offline_access":
			continue // a refresh token comes with the grant
		case "roles", "web-origins", "acr", "basic", "service_account":
			continue // Keycloak's own
		case "microprofile-jwt", "organization":
			c.note(k.ID, "the scope "+s+" does not come")
			continue
		default:
			c.note(k.ID, "the scope "+strconv.Quote(s)+" comes as a name: say what it means by a block scope")
		}
		if strings.ContainsAny(s, "{} ") {
			continue
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
		if i < len(k.DefaultScopes) && !slices.Contains(usual, s) {
			usual = append(usual, s)
		}
	}
	return out, usual
}
