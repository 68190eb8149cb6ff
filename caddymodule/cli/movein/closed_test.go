package movein

import (
	"io"
	"strings"
	"testing"
)

// TestWhoMaySignInStaysLimited plays attack 7147: someone refused by the old system uses what an import has printed.
func TestWhoMaySignInStaysLimited(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		read   func(io.Reader) (*Clients, error)
		file   string
		want   string // in what is printed
		absent string
		said   string // in the notes
	}{
		"oauth2-proxy, an organisation of GitHub": {
			OAuth2Proxy, proxyFile("github_org = \"corp\""), "groups members", "", "github_org",
		},
		"oauth2-proxy, a team": {
			OAuth2Proxy, proxyFile("github_team = \"corp/ops\""), "groups members", "", "github_team",
		},
		"oauth2-proxy, users": {
			OAuth2Proxy, proxyFile("github_users = [\"ann\"]"), "groups members", "", "github_users",
		},
		"oauth2-proxy, groups of GitLab": {
			OAuth2Proxy, proxyFile("gitlab_groups = [\"ops\"]"), "groups members", "", "gitlab_groups",
		},
		"oauth2-proxy, groups of Google": {
			OAuth2Proxy, proxyFile("google_groups = [\"ops@x.example\"]"), "groups members", "", "google_groups",
		},
		"oauth2-proxy, roles": {
			OAuth2Proxy, proxyFile("allowed_roles = [\"admin\"]"), "groups members", "", "allowed_roles",
		},
		"oauth2-proxy, an unknown member": {
			OAuth2Proxy, proxyFile("gitlab_stars = 5"), "groups members", "", "gitlab_stars",
		},
		"oauth2-proxy, a token of GitHub": {
			OAuth2Proxy, proxyFile("github_token = \"planted\""), "login", "groups", "github_token",
		},
		"oauth2-proxy, also groups": {
			OAuth2Proxy, proxyFile("github_org = \"corp\"\nallowed_groups = [\"ops\"]"), "groups ops", "", "github_org",
		},
		"caddy-security, one path": {
			CaddySecurity, securityFile("allow roles guest with get to /public"), "groups members", "guest", "with get to",
		},
		"caddy-security, a method": {
			CaddySecurity, securityFile("allow roles guest with get"), "groups members", "guest", "with get",
		},
		"caddy-security, a path alone": {
			CaddySecurity, securityFile("allow roles guest to /public"), "groups members", "guest", "to /public",
		},
		"caddy-security, paths of a token": {
			CaddySecurity, securityFile("allow roles a\nvalidate path acl"), "groups members", "", "validate path acl",
		},
		"caddy-security, an unknown line": {
			CaddySecurity, securityFile("allow roles a\nrequire mfa"), "groups members", "", "require mfa",
		},
		"caddy-security, a way around": {
			CaddySecurity, securityFile("allow roles a\nbypass uri prefix /x"), "groups a", "members", "bypass",
		},
		"oauth2-proxy, no addresses": {
			OAuth2Proxy, "client_id = \"x\"\nprovider = \"github\"\nupstreams = [\"http://127.0.0.1:1\"]\n", "groups members", "", "email_domains",
		},
		"oauth2-proxy, an empty address": {
			OAuth2Proxy, "client_id = \"x\"\nprovider = \"github\"\nemail_domains = [\"\"]\nupstreams = [\"http://127.0.0.1:1\"]\n",
			"groups members", "", "email_domains",
		},
		"Authelia, no policy":              {Authelia, autheliaFile(""), "second_factor always", "groups", "two_factor"},
		"Authelia, two factors":            {Authelia, autheliaFile("two_factor"), "second_factor always", "groups", ""},
		"Authelia, one factor":             {Authelia, autheliaFile("one_factor"), "client app", "second_factor", ""},
		"Authelia, deny":                   {Authelia, autheliaFile("deny"), "disabled", "", "disabled"},
		"Authelia, a policy of its own":    {Authelia, autheliaFile("staff"), "groups members", "", `policy "staff"`},
		"authentik, a group":               {Authentik, authentikBound("group: g1"), "groups ops", "members", ""},
		"authentik, a group that it lacks": {Authentik, authentikBound("group: g9"), "groups members", "", "g9"},
		"authentik, a person":              {Authentik, authentikBound("user: u1"), "groups members", "", "u1"},
		"authentik, a policy":              {Authentik, authentikBound("policy: p1"), "groups members", "", "a policy"},
		"authentik, all but a group":       {Authentik, authentikBound("group: g1, negate: true"), "groups members", "", "g1"},
		"authentik, a binding that is off": {
			Authentik, authentikBound("user: u1, enabled: false"), "client app", "groups members", "",
		},
		"Dex, groups of a connector":  {Dex, dexConnected("allowedGroups: [ops]"), "", "idp", "allowedGroups"},
		"Dex, domains of a connector": {Dex, dexConnected("hostedDomains: [x.example]"), "", "idp", "hostedDomains"},
		"Keycloak, a filter by a claim": {
			Keycloak, keycloakWith("{}", `"filteredByClaim":"true"`), "", "idp", "filter by a claim",
		},
		"Keycloak, linking alone": {Keycloak, keycloakWith("{}", `"linkOnly":"true"`), "", "idp", "only linking"},
		"Keycloak, a flow of a client": {
			Keycloak, keycloakWith(`{"browser":"x"}`, `"guiOrder":""`), "groups members", "", "authenticationFlowBindingOverrides",
		},
	} {
		t.Run("attack 7147: "+name, func(t *testing.T) {
			t.Parallel()
			c, err := tt.read(strings.NewReader(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			parses(t, c)
			var notes strings.Builder
			for _, n := range c.Notes {
				notes.WriteString(n.String() + "\n")
			}
			text := c.Caddyfile() + c.Sites
			if !strings.Contains(text, tt.want) || tt.absent != "" && strings.Contains(text, tt.absent) {
				t.Errorf("want %q and not %q:\n%s", tt.want, tt.absent, text)
			}
			if !strings.Contains(notes.String(), tt.said) {
				t.Errorf("the notes do not mention %q:\n%s", tt.said, notes.String())
			}
		})
	}
}

func proxyFile(line string) string {
	return "client_id = \"x\"\nprovider = \"github\"\nemail_domains = [\"*\"]\nupstreams = [\"http://127.0.0.1:1\"]\n" + line + "\n"
}

func securityFile(lines string) string {
	return "{\n\tsecurity {\n\t\tauthorization policy p {\n" + lines + "\n\t\t}\n\t}\n}\na.example {\n\tauthorize with p\n\trespond x\n}\n"
}

func autheliaFile(policy string) string {
	if policy != "" {
		policy = ", authorization_policy: " + policy
	}
	return "identity_providers: {oidc: {clients: [{client_id: app, scopes: [openid], redirect_uris: ['https://a.example/cb']" +
		policy + "}]}}"
}

func authentikBound(to string) string {
	return `
entries:
- {model: authentik_core.group, identifiers: {pk: g1}, attrs: {name: ops}}
- {model: authentik_providers_oauth2.oauth2provider, identifiers: {pk: 1},
   attrs: {client_id: app, redirect_uris: "https://a.example/cb"}}
- {model: authentik_core.application, identifiers: {pk: a1}, attrs: {name: App, slug: app, provider: 1}}
- {model: authentik_policies.policybinding, identifiers: {pk: b1}, attrs: {target: a1, ` + to + `}}
`
}

func dexConnected(line string) string {
	return "issuer: https://dex.example\nconnectors: [{type: oidc, id: corp, name: Corp, config: {issuer: 'https://corp.example', clientID: c, " +
		line + "}}]\n"
}

func keycloakWith(flows, config string) string {
	return `{"realm":"demo","clients":[{"clientId":"app","redirectUris":["https://a.example/cb"],"standardFlowEnabled":true,` +
		`"authenticationFlowBindingOverrides":` + flows + `}],"users":[],"identityProviders":[{"alias":"corp","providerId":"oidc","enabled":true,` +
		`"config":{"issuer":"https://corp.example","clientId":"c",` + config + `}}]}`
}
