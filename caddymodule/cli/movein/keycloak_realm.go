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
		if text, ok := realmLines[name]; ok {
			c.note("realm", name+": "+text)
		} else {
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
				c.note("group "+g.Name, "is not above its subgroups here: people are in groups of the names of the whole path")
			}
		}
	}
	if !isNothing(members["identityProviderMappers"]) {
		c.note("realm", "identityProviderMappers do not come: say by map what a provider's claims become")
	}
	if !isNothing(members["scopeMappings"]) || !isNothing(members["clientScopeMappings"]) {
		c.note("realm", "scopeMappings: roles do not come")
	}
	c.lacks("realm", rest)
}

// keycloakProviders writes providers of OpenID Connect as blocks, and names the others.
func (c *Clients) keycloakProviders(raw json.RawMessage) {
	var list []struct {
		Alias   string            `json:"alias"`
		Name    string            `json:"displayName"`
		Kind    string            `json:"providerId"`
		Enabled *bool             `json:"enabled"`
		Config  map[string]string `json:"config"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return
	}
	for _, p := range list {
		about := "identity provider " + p.Alias
		issuer, id := noBraces(p.Config["issuer"]), noBraces(p.Config["clientId"])
		switch {
		case p.Enabled != nil && !*p.Enabled:
			c.note(about, "does not come: it is switched off")
		case p.Kind == "saml":
			c.note(about, "does not come: write an idp of the kind saml with its metadata (docs/saml.md)")
		case p.Kind != "oidc" && p.Kind != "keycloak-oidc" || issuer == "" || id == "" || !providerID(p.Alias):
			c.note(about, "does not come, since it is of the kind "+p.Kind+" or has no issuer: write an idp for it (docs/openid-providers.md)")
		default:
			b := Block{
				Head:  []string{"idp", p.Alias, "oidc"},
				Lines: [][]string{{"issuer", issuer}, {"client_id", id}, {"client_secret", "{env." + client.SecretName(p.Alias) + "}"}},
			}
			if p.Name != "" && !strings.HasPrefix(p.Name, "${") {
				b.Lines = append(b.Lines, []string{"name", noBraces(p.Name)})
			}
			if scopes := strings.Fields(noBraces(p.Config["defaultScope"])); len(scopes) > 0 {
				b.Lines = append(b.Lines, append([]string{"scopes"}, slices.DeleteFunc(scopes, func(s string) bool { return s == "openid" })...))
			}
			b.Lines = slices.DeleteFunc(b.Lines, func(l []string) bool { return len(l) == 1 })
			b.Lines = append(b.Lines, []string{"map", "email", "email"}, []string{"map", "name", "name"})
			c.Blocks = append(c.Blocks, b)
			c.note(about, "its secret is read from the environment variable "+client.SecretName(p.Alias)+", and its redirect URI is /oidc/"+p.Alias+
				"/callback here: register that there")
		}
	}
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
			c.note("user federation "+d.Name,
				"does not come: write an idp of the kind "+d.Kind+" (docs/ldap.md); its people sign in by the directory")
		}
	}
	c.lacks("realm", unread(members, "component org.keycloak.keys.KeyProvider"))
}
