package movein

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
)

// holds checks that each block of the text is a client that the Caddyfile takes.
func holds(t *testing.T, c *Clients) map[string]client.Client {
	t.Helper()
	d, got := caddyfile.NewTestDispenser(c.Caddyfile()), map[string]client.Client{}
	for d.Next() {
		one, err := client.Read(d, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, c.Caddyfile())
		}
		got[one.ID] = one
	}
	return got
}

func (c *Clients) said(id string) string {
	var all []string
	for _, n := range c.Notes {
		if n.Client+n.About == id {
			all = append(all, n.Text)
		}
	}
	return strings.Join(all, "\n")
}

func TestKeycloakClients(t *testing.T) {
	t.Parallel()
	c, err := Keycloak(strings.NewReader(`{"realm":"demo","users":[{"username":"ada"}],"clients":[
{"clientId":"account","publicClient":true},
{"clientId":"shop","name":"The {env.HOME} shop","secret":"planted-client-secret","standardFlowEnabled":true,"directAccessGrantsEnabled":true,"rootUrl":"https://shop.example.com/",
 "redirectUris":["/callback","https://shop.example.com/*","https://{host}/x"],"webOrigins":["+","https://www.example.com"],"consentRequired":true,
 "defaultClientScopes":["web-origins","acr","profile","roles","email"],"optionalClientScopes":["offline_access","orders"],
 "attributes":{"post.logout.redirect.uris":"https://shop.example.com/bye##+","pkce.code.challenge.method":"S256","access.token.lifespan":"300","backchannel.logout.url":"https://shop.example.com/out"},
 "protocolMappers":[{"name":"x"}]},
{"clientId":"spa","publicClient":true,"standardFlowEnabled":true,"implicitFlowEnabled":true,"redirectUris":["https://spa.example.com/"],"enabled":false},
{"clientId":"robot","secret":"planted-client-secret","serviceAccountsEnabled":true,"clientAuthenticatorType":"client-secret"},
{"clientId":"signed","standardFlowEnabled":true,"clientAuthenticatorType":"client-jwt","redirectUris":["https://s.example.com/cb"],"attributes":{"use.jwks.url":"true","jwks.url":"https://s.example.com/jwks.json"}},
{"clientId":"wild","publicClient":true,"standardFlowEnabled":true,"redirectUris":["*"]},
{"clientId":"api","bearerOnly":true},
{"clientId":"https://wiki.example.com/saml","protocol":"saml"}
]}`))
	if err != nil {
		t.Fatal(err)
	}
	text, got := c.Caddyfile(), holds(t, c)
	if len(got) != 4 {
		t.Fatalf("%d clients:\n%s", len(got), text)
	}
	shop := got["shop"]
	if shop.Name != "The env.HOME shop" || shop.Public || strings.Join(shop.RedirectURIs, " ") != "https://shop.example.com/callback" ||
		shop.Consent != "on" || !shop.PKCERequired ||
		strings.Join(shop.Scopes, " ") != "openid profile email orders" || shop.Lifetimes.AccessToken != "300s" ||
		strings.Join(shop.Grants, " ") != "authorization_code refresh_token" ||
		string(shop.Secrets[0]) != "{env.SHOP_SECRET}" ||
		strings.Join(shop.PostLogoutRedirectURIs, " ") != "https://shop.example.com/bye https://shop.example.com/callback" ||
		strings.Join(shop.Origins, " ") != "https://www.example.com" || shop.BackchannelLogoutURI != "https://shop.example.com/out" {
		t.Errorf("shop is %+v", shop)
	}
	if spa := got["spa"]; !spa.Public || !spa.Disabled || len(spa.Secrets) != 0 {
		t.Errorf("spa is %+v", spa)
	}
	if signed := got["signed"]; signed.AuthMethod != "private_key_jwt" || signed.JWKS != "https://s.example.com/jwks.json" {
		t.Errorf("signed is %+v", signed)
	}
	for id, wants := range map[string][]string{
		"shop": {"wildcards", "{host}", "password", `"orders"`, "mappers", "SHOP_SECRET"}, "spa": {"implicit"},
		"wild": {"wildcards", "none of its redirect URIs"},
		"api":  {"api_client"}, "https://wiki.example.com/saml": {"saml"}, "robot": {"ROBOT_SECRET"},
	} {
		for _, want := range wants {
			if !strings.Contains(c.said(id), want) {
				t.Errorf("the notes of %s do not mention %s:\n%s", id, want, c.said(id))
			}
		}
		if strings.Contains(text+c.said(id), "planted") {
			t.Errorf("a secret is printed:\n%s%s", text, c.said(id))
		}
	}
}

func TestAutheliaClients(t *testing.T) {
	t.Parallel()
	c, err := Authelia(strings.NewReader(`
access_control:
  default_policy: deny
identity_providers:
  oidc:
    clients:
      - client_id: grafana
        client_name: Grafana
        client_secret: '$pbkdf2-sha512$310000$planted$planted'
        redirect_uris: [https://grafana.example.com/login/generic_oauth]
        scopes: [openid, groups, offline_access]
        authorization_policy: two_factor
        consent_mode: implicit
        require_pkce: true
        token_endpoint_auth_method: client_secret_post
      - client_id: cli
        public: true
        redirect_uris: [http://localhost/callback]
        grant_types: [authorization_code, 'urn:ietf:params:oauth:grant-type:device_code']
`))
	if err != nil {
		t.Fatal(err)
	}
	got := holds(t, c)
	if g := got["grafana"]; g.Consent != "off" || !g.PKCERequired || g.SecondFactor != "always" || g.AuthMethod != "post" ||
		strings.Join(g.Grants, " ") != "authorization_code refresh_token" ||
		strings.Join(g.Scopes, " ") != "openid groups" || string(g.Secrets[0]) != "{env.GRAFANA_SECRET}" {
		t.Errorf("grafana is %+v", g)
	}
	if cli := got["cli"]; !cli.Public || strings.Join(cli.Grants, " ") != "authorization_code device_code" ||
		strings.Join(cli.Scopes, " ") != "openid groups profile email" {
		t.Errorf("cli is %+v", cli)
	}
	for id, want := range map[string]string{"cli": "two_factor", "access_control": "protect"} {
		if !strings.Contains(c.said(id), want) {
			t.Errorf("the notes of %s do not mention %s:\n%s", id, want, c.said(id))
		}
	}
	if strings.Contains(c.Caddyfile(), "planted") {
		t.Errorf("a secret is printed:\n%s", c.Caddyfile())
	}
	for _, bad := range []string{"", "- a\n", "identity_providers:\n  oidc:\n    clients:\n      - client_name: x\n"} {
		if _, err := Authelia(strings.NewReader(bad)); err == nil {
			t.Errorf("Authelia(%q) = nil, want an error", bad)
		}
	}
}

func TestDexClients(t *testing.T) {
	t.Parallel()
	c, err := Dex(strings.NewReader(`
issuer: https://dex.example.com
oauth2:
  grantTypes: [authorization_code, password]
  skipApprovalScreen: true
staticClients:
  - id: shop
    name: The {env.HOME} shop
    secret: planted-secret
    redirectURIs: [https://shop.example.com/callback, /device/callback]
    trustedPeers: [cli]
  - id: cli
    public: true
  - idEnv: OTHER
staticPasswords: []
connectors:
  - type: oidc
    id: corp
    name: The "Corp" {env.HOME}
    config:
      issuer: https://corp.example.com
      clientID: $CORP_ID
      clientSecret: planted-secret
  - type: github
    id: github
    config: {clientID: x, clientSecret: planted-secret}
`))
	if err != nil {
		t.Fatal(err)
	}
	text := c.Caddyfile()
	idp := text[strings.Index(text, "idp "):]
	if want := "idp corp oidc {\n\tissuer https://corp.example.com\n\tclient_id {env.CORP_ID}\n\tclient_secret {env.CORP_SECRET}\n\tname \"The \\\"Corp\\\" env.HOME\"\n\tscopes profile email\n\tmap email email\n\tmap name name\n}\n"; idp != want {
		t.Errorf("the provider is\n%s\nwant\n%s", idp, want)
	}
	c.Blocks = nil
	got := holds(t, c)
	if shop := got["shop"]; shop.Consent != "off" || strings.Join(shop.Grants, " ") != "authorization_code refresh_token device_code" ||
		strings.Join(shop.RedirectURIs, " ") != "https://shop.example.com/callback" || string(shop.Secrets[0]) != "{env.SHOP_SECRET}" ||
		shop.Name != "The env.HOME shop" {
		t.Errorf("shop is %+v", shop)
	}
	if cli := got["cli"]; !cli.Public || strings.Join(cli.RedirectURIs, " ") != "http://localhost" {
		t.Errorf("cli is %+v", cli)
	}
	for id, want := range map[string]string{
		"shop": "trustedPeers", "OTHER": "environment variable", "oauth2": "password",
		"connector corp": "/oidc/corp/callback", "connector github": "github",
	} {
		if !strings.Contains(c.said(id), want) {
			t.Errorf("the notes of %s do not mention %s:\n%s", id, want, c.said(id))
		}
		if strings.Contains(text+c.said(id), "planted") {
			t.Errorf("a secret is printed:\n%s%s", text, c.said(id))
		}
	}
	for _, bad := range []string{"", "- a\n", "issuer: x\nstaticClients: [{name: x}]\n"} {
		if _, err := Dex(strings.NewReader(bad)); err == nil {
			t.Errorf("Dex(%q) = nil, want an error", bad)
		}
	}
}

func TestHydraClients(t *testing.T) {
	t.Parallel()
	list := `[{"client_id":"shop","client_name":"Shop","client_secret":"planted","redirect_uris":["https://shop.example.com/cb"],"grant_types":["authorization_code","implicit"],
"response_types":["code"],"scope":"openid offline orders photos.*","token_endpoint_auth_method":"client_secret_post","audience":["https://api.example.com"],"allowed_cors_origins":["https://*.example.com"],
"subject_type":"pairwise","skip_consent":true},
{"client_id":"job","client_secret":"planted","grant_types":["client_credentials"],"scope":"reports","token_endpoint_auth_method":"client_secret_basic"},
{"client_id":"app","redirect_uris":["https://app.example.com/"],"token_endpoint_auth_method":"none"},
{"client_id":"old","grant_types":["implicit"]}]`
	for name, file := range map[string]string{"a list": list, "a page": `{"items":` + list + `,"next_page_token":""}`} {
		c, err := Hydra(strings.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		got := holds(t, c)
		if shop := got["shop"]; shop.Consent != "off" || shop.AuthMethod != "post" ||
			strings.Join(shop.Grants, " ") != "authorization_code refresh_token" ||
			strings.Join(shop.Scopes, " ") != "openid orders" || string(shop.Secrets[0]) != "{env.SHOP_SECRET}" {
			t.Errorf("%s: shop is %+v", name, shop)
		}
		if job, app := got["job"], got["app"]; strings.Join(job.Grants, " ") != "client_credentials" || !app.Public ||
			strings.Join(app.Grants, " ") != "authorization_code" {
			t.Errorf("%s: job is %+v, app %+v", name, job, app)
		}
		for id, wants := range map[string][]string{
			"shop": {"implicit", `"photos.*"`, "audiences", "pairwise", "https://*.example.com"},
			"old":  {"no grant is left"},
		} {
			for _, want := range wants {
				if !strings.Contains(c.said(id), want) {
					t.Errorf("%s: the notes of %s do not mention %s:\n%s", name, id, want, c.said(id))
				}
			}
		}
		if len(got) != 3 || strings.Contains(c.Caddyfile(), "planted") {
			t.Errorf("%s:\n%s", name, c.Caddyfile())
		}
	}
	if c, err := Hydra(strings.NewReader(`{"items":[],"next_page_token":"x"}`)); err != nil ||
		!strings.Contains(c.said("the list"), "--page-token") {
		t.Errorf("a page that is not the last: %+v, %v", c, err)
	}
	for _, bad := range []string{"", "x", `[{"client_name":"x"}]`, `{"a":1}`} {
		if _, err := Hydra(strings.NewReader(bad)); err == nil {
			t.Errorf("Hydra(%q) = nil, want an error", bad)
		}
	}
}

// TestFilesThatAreBroken: the line on which an export stops being JSON is named.
func TestFilesThatAreBroken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		read func(io.Reader) (*Clients, error)
		file string
		want string
	}{
		"keycloak, a comma too many": {Keycloak, "{\n\"realm\": \"x\",\n\"clients\": [\n{},\n]}", "line 5: the file is not JSON: invalid character ']'"},
		"keycloak, cut off":          {Keycloak, "{\n\"realm\": \"x\",\n\"clients\": [", "line 3: the file is not JSON: unexpected end"},
		"keycloak, two realms":       {Keycloak, "{}\n{}", "line 2: the file is not JSON: invalid character '{'"},
		"keycloak, a list":           {Keycloak, "[]", "the file is no realm"},
		"hydra, a line break":        {Hydra, "[{\n\"client_id\": \"a\nb\"}]", "line 2: the file is not JSON: invalid character '\\n'"},
		"hydra, a text":              {Hydra, "\"x\"", "the file is not what Hydra prints"},
	} {
		if _, err := c.read(strings.NewReader(c.file)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}

// TestMembersOfAnotherType: a client with a member of another type is named with the member, and the others come.
func TestMembersOfAnotherType(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		read       func(io.Reader) (*Clients, error)
		file, want string
	}{
		"keycloak, a flag as text": {
			Keycloak, `{"realm":"x","clients":[{"clientId":"a","standardFlowEnabled":"true"},%s]}`,
			`client a: does not come: standardFlowEnabled must not be of the type string`,
		},
		"keycloak, a list as text": {
			Keycloak, `{"realm":"x","clients":[{"clientId":"a","redirectUris":"https://a.example/cb"},%s]}`,
			`client a: does not come: redirectUris must not be of the type string`,
		},
		"keycloak, a number as id": {
			Keycloak, `{"realm":"x","clients":[{"clientId":7},%s]}`,
			`client 1 of the file: does not come: clientId must not be of the type number`,
		},
		"keycloak, a number":   {Keycloak, `{"realm":"x","clients":[12345,%s]}`, `client 1 of the file: does not come: the whole must not be of the type number`},
		"hydra, scope as list": {Hydra, `[{"client_id":"a","scope":["openid"]},%s]`, `client a: does not come: scope must not be of the type array`},
		"hydra, a flag as text": {
			Hydra, `[{"client_id":"a","skip_consent":"true"},%s]`,
			`client a: does not come: skip_consent must not be of the type string`,
		},
	} {
		good := `{"clientId":"good","client_id":"good","redirectUris":["https://g.example/cb"],"redirect_uris":["https://g.example/cb"],` +
			`"standardFlowEnabled":true,"grant_types":["authorization_code"]}`
		got, err := c.read(strings.NewReader(strings.Replace(c.file, "%s", good, 1)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(got.List) != 1 || !slices.ContainsFunc(got.Notes, func(n Note) bool { return n.String() == c.want }) {
			t.Errorf("%s: clients %d, notes %v, want the other client and %s", name, len(got.List), got.Notes, c.want)
		}
	}
}
