package movein

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
)

// realmLifespan returns the lifetime of access tokens unless the client says otherwise, in seconds.
func realmLifespan(realm map[string]json.RawMessage) string {
	var seconds int
	if json.Unmarshal(realm["accessTokenLifespan"], &seconds) != nil || seconds <= 0 {
		return ""
	}
	return strconv.Itoa(seconds)
}

// realmLines say what to write for parts of a realm that have no block of their own here.
var realmLines = map[string]string{
	"passwordPolicy":              "the password policy does not come: set it by the configuration API or the console (docs/configuration.md)",
	"smtpServer":                  "the mail server does not come: write a block mail",
	"ssoSessionIdleTimeout":       "the lifetime of sessions does not come: say it by identity { session { idle and absolute } }",
	"ssoSessionMaxLifespan":       "the lifetime of sessions does not come: say it by identity { session { idle and absolute } }",
	"roles":                       "roles do not come: make groups of those that applications ask for",
	"clientScopes":                "the meanings of client scopes do not come: write a block scope for those that clients have",
	"browserFlow":                 "flows of authentication do not come: second factors are demanded by levels (docs/guide.md)",
	"authenticationFlows":         "flows of authentication do not come: second factors are demanded by levels (docs/guide.md)",
	"loginTheme":                  "themes do not come: see pages in docs/caddyfile.md",
	"registrationAllowed":         "sign-up does not come: switch it on by identity { sign_up on }",
	"rememberMe":                  "staying signed in does not come: say how long by identity { session { remember } }",
	"resetPasswordAllowed":        "the way to a new password is on as soon as there is a block mail",
	"registrationEmailAsUsername": "addresses as usernames do not come: say identity { usernames email }",
	"internationalizationEnabled": "languages do not come: name them by locales",
	"supportedLocales":            "languages do not come: name them by locales",
	"eventsListeners":             "listeners of events do not come: write a webhook (docs/events.md)",
	"organizations":               "organisations do not come: make partitions or groups of them",
}

// realmSilent are members that mean nothing outside of Keycloak, or that are read elsewhere.
var realmSilent = []string{
	"id", "realm", "keycloakVersion", "enabled", "clients", "users", "accessTokenLifespan", "identityProviders",
	"components", "groups", "scopeMappings", "clientScopeMappings", "identityProviderMappers",
}

// keycloakRealm notes what of the realm does not come, and writes its providers of OpenID Connect.
func (c *Clients) keycloakRealm(realm map[string]json.RawMessage) {
	members := map[string]any{}
	for name, raw := range realm {
		var v any
		if name != "clients" && name != "users" && json.Unmarshal(raw, &v) == nil {
			members[name] = v
		}
	}
	var rest []string
	for _, name := range unread(members, realmSilent...) {
		of, _ := members[name].(map[string]any)
		switch text, ok := realmLines[name]; {
		case ok:
			c.about("realm", name+": "+text)
		case name == "attributes":
			for _, attribute := range unread(of) {
				rest = append(rest, "attribute "+attribute)
			}
		default:
			rest = append(rest, name)
		}
	}
	c.keycloakProviders(realm["identityProviders"])
	c.keycloakComponents(realm["components"])
	var groups []struct {
		Name      string            `json:"name"`
		Subgroups []json.RawMessage `json:"subGroups"`
	}
	if json.Unmarshal(realm["groups"], &groups) == nil {
		for _, g := range groups {
			if len(g.Subgroups) > 0 {
				c.about("group "+g.Name, "is not above its subgroups here: people are in groups of the names of the whole path")
			}
		}
	}
	if !isNothing(members["identityProviderMappers"]) {
		c.about("realm", "identityProviderMappers do not come: say by map what a provider's claims become")
	}
	if !isNothing(members["scopeMappings"]) || !isNothing(members["clientScopeMappings"]) {
		c.about("realm", "scopeMappings: roles do not come")
	}
	c.lacksAbout("realm", rest)
}

// providerMembers are the members of an identity provider that are read. The last two mean nothing outside Keycloak.
var providerMembers = []string{"alias", "displayName", "providerId", "enabled", "config", "internalId", "addReadTokenRoleOnCreate"}

// providerConfig are the members of its config that are read, or that discovery tells, or that are so here.
var providerConfig = []string{
	"issuer", "clientId", "clientSecret", "defaultScope", "clientAuthMethod",
	"authorizationUrl", "tokenUrl", "userInfoUrl", "jwksUrl", "logoutUrl", "metadataDescriptorUrl", "useJwksUrl",
	"validateSignature", "pkceEnabled", "guiOrder",
}

// providerKinds are the kinds of idp that take the place of Keycloak's.
var providerKinds = map[string]string{
	"oidc": "oidc", "keycloak-oidc": "oidc", "google": "google", "microsoft": "microsoft",
	"github": "github", "facebook": "facebook", "linkedin-openid-connect": "linkedin",
}

// knownConfig are further members of the config of a known provider that are read.
var knownConfig = map[string][]string{
	"google": {"hostedDomain", "prompt"}, "microsoft": {"tenantId", "prompt"}, "github": {"baseUrl", "apiUrl"},
}

// knownProvider returns the options of a known provider that its block has besides client_id and client_secret.
func knownProvider(kind string, config map[string]string) (lines [][]string) {
	of := func(name string) string { return strings.TrimSpace(noBraces(config[name])) }
	switch kind {
	case "google":
		if domains := strings.FieldsFunc(of("hostedDomain"), func(r rune) bool { return r == ',' || r == ' ' }); len(domains) > 0 {
			lines = append(lines, append([]string{"hosted_domain"}, domains...))
		}
	case "microsoft":
		if tenant := of("tenantId"); tenant != "" {
			lines = append(lines, []string{"tenant", tenant})
		}
	case "github":
		if base := strings.TrimSuffix(of("baseUrl"), "/"); base != "" {
			lines = append(lines, []string{"authorization_url", base + "/login/oauth/authorize"},
				[]string{"token_url", base + "/login/oauth/access_token"})
		}
		if api := strings.TrimSuffix(of("apiUrl"), "/"); api != "" {
			lines = append(lines, []string{"profile_url", api + "/user"})
		}
	}
	if knownConfig[kind] != nil && slices.Contains(strings.Fields(of("prompt")), "select_account") {
		lines = append(lines, []string{"select_account"})
	}
	return lines
}

// providerLines say what a member of an identity provider means where it does not come.
var providerLines = map[string]string{
	"trustEmail": "trusted addresses do not come: say couple email, if this provider alone gives people their addresses",
	"linkOnly":   "does not come: signing in was not possible by it, only linking, and by an idp people can sign in",
	"filteredByClaim": "does not come, since a filter by a claim decides who can sign in by it: " +
		"write an idp for it, and name groups at the clients and sites, or let the provider decide",
}

// keycloakProviders writes providers of OpenID Connect and known ones as blocks, and names the others.
func (c *Clients) keycloakProviders(raw json.RawMessage) {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return
	}
	for i, raw := range all {
		var p struct {
			Alias   string            `json:"alias"`
			Name    string            `json:"displayName"`
			Kind    string            `json:"providerId"`
			Enabled *bool             `json:"enabled"`
			Config  map[string]string `json:"config"`
		}
		if json.Unmarshal(raw, &p) != nil {
			c.about("identity provider "+strconv.Itoa(i+1), "does not come: it cannot be read")
			continue
		}
		about := "identity provider " + p.Alias
		kind, issuer, id := providerKinds[p.Kind], noBraces(p.Config["issuer"]), noBraces(p.Config["clientId"])
		switch {
		case p.Enabled != nil && !*p.Enabled:
			c.about(about, "does not come: it is switched off")
		case p.Kind == "saml":
			c.about(about, "does not come: write an idp of the kind saml with its metadata (docs/saml.md)")
		case kind == "":
			c.about(about, "does not come, since it is of the kind "+p.Kind+": write an idp for it (docs/openid-providers.md)")
		case kind == "oidc" && issuer == "" || id == "":
			c.about(about, "does not come, since it has no issuer or no clientId: write an idp for it (docs/openid-providers.md)")
		case !providerID(p.Alias):
			c.about(about, "does not come, since its name cannot be that of an idp: write one of another name (docs/openid-providers.md)")
		default:
			b := Block{
				Head:  []string{"idp", p.Alias, kind},
				Lines: [][]string{{"client_id", id}, {"client_secret", "{env." + client.SecretName(p.Alias) + "}"}},
			}
			if kind == "oidc" {
				b.Lines = slices.Insert(b.Lines, 0, []string{"issuer", issuer})
			} else {
				b.Lines = append(b.Lines, knownProvider(kind, p.Config)...)
			}
			if p.Name != "" && !strings.HasPrefix(p.Name, "${") {
				b.Lines = append(b.Lines, []string{"name", noBraces(p.Name)})
			}
			if scopes := strings.Fields(noBraces(p.Config["defaultScope"])); len(scopes) > 0 {
				b.Lines = append(b.Lines, append([]string{"scopes"}, slices.DeleteFunc(scopes, func(s string) bool { return s == "openid" })...))
			}
			b.Lines = slices.DeleteFunc(b.Lines, func(l []string) bool { return len(l) == 1 && l[0] == "scopes" })
			switch method := p.Config["clientAuthMethod"]; {
			case kind != "oidc" || method == "" || method == "client_secret_basic":
			case method == "client_secret_post":
				b.Lines = append(b.Lines, []string{"auth_method", "post"})
			default:
				c.about(about, "signs Gatehouse in by "+strconv.Quote(noBraces(method))+", which does not come: here it is a secret")
			}
			c.keycloakProviderRest(about, kind, objectOf(raw), p.Config)
			if on, _ := objectOf(raw)["linkOnly"].(bool); on || p.Config["filteredByClaim"] == "true" || p.Config["linkOnly"] == "true" {
				continue // an idp would let in more people
			}
			if kind == "oidc" { // the others have their own
				b.Lines = append(b.Lines, []string{"map", "email", "email"}, []string{"map", "name", "name"})
			}
			if !c.addProvider(about, b) {
				continue
			}
			c.about(about, "its secret is read from the environment variable "+client.SecretName(p.Alias)+", and its redirect URI is /oidc/"+p.Alias+
				"/callback here: register that there")
		}
	}
}

// keycloakProviderRest names what of an identity provider is not in its block.
func (c *Clients) keycloakProviderRest(about, kind string, members map[string]any, config map[string]string) {
	for name, v := range config {
		if v != "" && v != "false" && !slices.Contains(providerConfig, name) && !slices.Contains(knownConfig[kind], name) {
			members[name] = v
		}
	}
	var rest []string
	for _, name := range unread(members, providerMembers...) {
		if text, ok := providerLines[name]; ok {
			c.about(about, text)
		} else {
			rest = append(rest, name)
		}
	}
	c.lacksAbout(about, rest)
}

// keycloakComponents names directories, and the kinds of the other components.
func (c *Clients) keycloakComponents(raw json.RawMessage) {
	var kinds map[string][]struct {
		Name string `json:"name"`
		Kind string `json:"providerId"`
	}
	if json.Unmarshal(raw, &kinds) != nil {
		return
	}
	members := map[string]any{}
	for kind, list := range kinds {
		if !strings.HasSuffix(kind, "UserStorageProvider") {
			members["component "+kind] = len(list)
			continue
		}
		for _, d := range list {
			c.about("user federation "+d.Name,
				"does not come: write an idp of the kind "+d.Kind+" (docs/ldap.md); its people sign in by the directory")
		}
	}
	c.lacksAbout("realm", unread(members, "component org.keycloak.keys.KeyProvider"))
}
