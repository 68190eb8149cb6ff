package movein

import (
	"strings"
	"testing"

	_ "github.com/gatehouse-id/gatehouse/caddymodule/provider" // the modules by which blocks are checked
)

// TestKeycloakKnownProviders: providers with a kind of their own in Keycloak become blocks of the kinds here, and those
// that a Caddyfile could not have are named.
func TestKeycloakKnownProviders(t *testing.T) {
	t.Parallel()
	provider := func(alias, kind, config string) string {
		return `{"alias":"` + alias + `","providerId":"` + kind + `","enabled":true,"config":{"clientId":"` + alias +
			`-id","clientSecret":"planted-provider-secret"` + config + `}}`
	}
	c, err := Keycloak(strings.NewReader(`{"realm":"demo","clients":[],"users":[],"identityProviders":[` + strings.Join([]string{
		provider("google", "google", `,"hostedDomain":"example.com,example.org","prompt":"select_account","userIp":"true"`),
		provider("entra", "microsoft", `,"tenantId":"72f988bf-86f1-41af-91ab-2d7cd011db47","defaultScope":"openid profile email"`),
		provider("code", "github", ``),
		provider("forge", "github", `,"baseUrl":"https://git.example.com/","apiUrl":"https://git.example.com/api/v3"`),
		provider("social", "facebook", `,"fetchedFields":"picture"`),
		provider("work", "linkedin-openid-connect", ``),
		provider("any", "google", `,"hostedDomain":"*"`),
		provider("plain", "github", `,"baseUrl":"http://git.example.com"`),
		provider("bird", "twitter", ``),
	}, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	text := c.Caddyfile()
	for _, want := range []string{
		"idp google google {\n\tclient_id google-id\n\tclient_secret {env.GOOGLE_SECRET}\n\thosted_domain example.com example.org\n\tselect_account\n}",
		"idp entra microsoft {\n\tclient_id entra-id\n\tclient_secret {env.ENTRA_SECRET}\n\ttenant 72f988bf-86f1-41af-91ab-2d7cd011db47\n\tscopes profile email\n}",
		"idp code github {\n\tclient_id code-id\n\tclient_secret {env.CODE_SECRET}\n}",
		"idp forge github {\n\tclient_id forge-id\n\tclient_secret {env.FORGE_SECRET}\n\tauthorization_url https://git.example.com/login/oauth/authorize\n" +
			"\ttoken_url https://git.example.com/login/oauth/access_token\n\tprofile_url https://git.example.com/api/v3/user\n}",
		"idp social facebook {\n\tclient_id social-id\n\tclient_secret {env.SOCIAL_SECRET}\n}",
		"idp work linkedin {\n\tclient_id work-id\n\tclient_secret {env.WORK_SECRET}\n}",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for alias, want := range map[string]string{
		"google": "userIp", "social": "fetchedFields", "entra": "ENTRA_SECRET", "any": "does not come, since a Caddyfile could not have it: ",
		"plain": "https", "bird": "of the kind twitter", "code": "/oidc/code/callback",
	} {
		said := c.said("identity provider " + alias)
		if !strings.Contains(said, want) {
			t.Errorf("the notes of %s do not mention %s: %s", alias, want, said)
		}
		if strings.Contains(said+text, "planted") || strings.Contains(said, "at export") {
			t.Errorf("the notes of %s have a secret or a place that is not one: %s", alias, said)
		}
	}
	for _, absent := range []string{"idp any", "idp plain", "idp bird"} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is in\n%s", absent, text)
		}
	}
}
