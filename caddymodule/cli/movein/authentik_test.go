package movein

import (
	"maps"
	"os"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"
)

// TestAuthentikClients converts the blueprint of the tests of the command, and another one.
func TestAuthentikClients(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../testdata/movein/authentik.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := Authentik(f)
	if err != nil {
		t.Fatal(err)
	}
	wiki := holds(t, c)["moved-wiki-client"]
	if got := strings.Join(wiki.Groups, " "); got != "wiki-readers" {
		t.Errorf("groups = %q, want those that the application is bound to", got)
	}
	if wiki.Name != "The wiki" || wiki.Public || wiki.Consent != "on" || strings.Join(wiki.Scopes, " ") != "openid profile groups" ||
		strings.Join(wiki.RedirectURIs, " ") != "https://wiki.example.com/callback" || wiki.Lifetimes.AccessToken != "300s" ||
		strings.Join(wiki.Grants, " ") != "authorization_code refresh_token" || string(wiki.Secrets[0]) != "{env.MOVED_WIKI_CLIENT_SECRET}" {
		t.Errorf("the client is %+v", wiki)
	}
	for _, want := range []string{
		"regex", "hashed_user_id", "meta_launch_url", "/application/o/wiki/", "scope groups",
	} {
		if !strings.Contains(c.said("moved-wiki-client"), want) {
			t.Errorf("the notes do not mention %q:\n%s", want, c.said("moved-wiki-client"))
		}
	}
	if c, err = Authentik(strings.NewReader(`
entries:
- model: authentik_flows.flow
  identifiers: {pk: f1}
  attrs: {slug: default-provider-authorization-implicit-consent}
- model: authentik_providers_oauth2.oauth2provider
  identifiers: {pk: 1}
  attrs: {client_id: spa, name: "{env.HOME}", client_type: public, authorization_flow: f1, redirect_uris: "https://a.example.com/cb\nhttps://b.example.com/.*",
    grant_types: [authorization_code, implicit], logout_uri: https://a.example.com/out, logout_method: backchannel, access_token_validity: forever}
- model: authentik_providers_oauth2.oauth2provider
  attrs: {name: Nameless}
- model: authentik_sources_oauth.oauthsource
  attrs: {slug: corp, name: Corp, provider_type: openidconnect, consumer_key: us, consumer_secret: planted, oidc_well_known_url: https://corp.example.com/.well-known/openid-configuration}
- model: authentik_sources_oauth.oauthsource
  attrs: {slug: gh, provider_type: github}
- model: authentik_sources_oauth.oauthsource
  attrs: {slug: open, provider_type: openidconnect, consumer_key: us, oidc_well_known_url: https://open.example.com/.well-known/openid-configuration, enabled: true, enrollment_flow: f2}
- model: authentik_sources_oauth.oauthsource
  attrs: {slug: off, provider_type: openidconnect, consumer_key: us, oidc_well_known_url: https://off.example.com/.well-known/openid-configuration, enabled: false, enrollment_flow: f2}
- model: authentik_sources_oauth.oauthsource
  state: absent
  attrs: {slug: gone, provider_type: openidconnect, consumer_key: us, oidc_well_known_url: https://gone.example.com/.well-known/openid-configuration, enrollment_flow: f2}
- model: authentik_providers_saml.samlprovider
  attrs: {name: Old}
- model: authentik_core.application
  attrs: {slug: old, provider: 9}
`)); err != nil {
		t.Fatal(err)
	}
	text := c.Caddyfile()
	spa := holds(t, &Clients{List: c.List})["spa"]
	if !spa.Public || spa.Name != "env.HOME" || spa.Consent != "off" || strings.Join(spa.Grants, " ") != "authorization_code" ||
		strings.Join(spa.RedirectURIs, " ") != "https://a.example.com/cb" || spa.BackchannelLogoutURI != "https://a.example.com/out" {
		t.Errorf("spa is %+v", spa)
	}
	if !strings.Contains(text, "idp corp oidc {\n\tissuer https://corp.example.com\n\tclient_id us\n\tclient_secret {env.CORP_SECRET}\n") ||
		strings.Contains(text, "planted") {
		t.Errorf("the Caddyfile is:\n%s", text)
	}
	blocks := map[string]bool{} // whether those of the providers are switched off
	for _, block := range strings.Split(text, "\nidp ")[1:] {
		id, rest, _ := strings.Cut(block, " ")
		rest, _, _ = strings.Cut(rest, "\n}")
		blocks[id] = strings.Contains(rest+"\n", "\n\tdisabled\n")
	}
	if want := map[string]bool{"corp": true, "open": false, "off": true}; !maps.Equal(blocks, want) {
		t.Errorf("switched off are %v, want %v, in:\n%s", blocks, want, text)
	}
	for about, want := range map[string]string{
		"spa": "implicit", "provider Nameless": "client_id", "source gh": "github", "application old": "no OAuth2 provider",
		"authentik_providers_saml.samlprovider": "service_provider", "source corp": "CORP_SECRET",
	} {
		if !strings.Contains(c.said(about), want) {
			t.Errorf("the notes of %s do not mention %q:\n%s", about, want, c.said(about))
		}
	}
	for _, bad := range []string{"", "- a\n", "version: 1\n", "entries: [{attrs: {}}]\n"} {
		if _, err := Authentik(strings.NewReader(bad)); err == nil {
			t.Errorf("Authentik(%q) = nil, want an error", bad)
		}
	}
}

// TestAuthentikLosesNothing: every member of a provider, its application and a source is an option or has a line.
func TestAuthentikLosesNothing(t *testing.T) {
	t.Parallel()
	var whole map[string]any
	if err := yaml.Unmarshal([]byte(`
entries:
- model: authentik_core.group
  identifiers: {pk: g1}
  attrs: {name: staff, is_superuser: true, parent: g0, attributes: {a: b}}
- model: authentik_flows.flow
  identifiers: {pk: f1}
  attrs: {slug: default-provider-authorization-implicit-consent}
- model: authentik_providers_oauth2.scopemapping
  identifiers: {pk: m1}
  attrs: {name: Orders, scope_name: orders, expression: "return {}"}
- model: authentik_providers_oauth2.oauth2provider
  identifiers: {pk: 1}
  attrs:
    name: Shop
    client_id: shop
    client_secret: planted
    client_type: confidential
    authorization_flow: f1
    authentication_flow: f2
    invalidation_flow: f3
    property_mappings: [m1]
    access_code_validity: minutes=1
    access_token_validity: minutes=5
    refresh_token_validity: days=30
    refresh_token_threshold: seconds=1
    include_claims_in_id_token: false
    signing_key: k1
    encryption_key: k2
    redirect_uris: [{matching_mode: strict, url: "https://shop.example.com/cb"}, {matching_mode: strict, redirect_uri_type: logout, url: "https://shop.example.com/bye"}]
    sub_mode: user_uuid
    issuer_mode: per_provider
    jwt_federation_sources: [s1]
    grant_types: [authorization_code, refresh_token, client_credentials]
    logout_uri: https://shop.example.com/out
    logout_method: frontchannel
- model: authentik_core.application
  identifiers: {pk: a1}
  attrs: {name: The shop, slug: shop, provider: 1, meta_description: x, group: Work, open_in_new_tab: true, backchannel_providers: [2]}
- model: authentik_policies.policybinding
  identifiers: {pk: b1}
  attrs: {target: a1, group: g1}
- model: authentik_sources_oauth.oauthsource
  identifiers: {pk: s1}
  attrs: {slug: corp, name: Corp, provider_type: openidconnect, consumer_key: us, consumer_secret: planted, additional_scopes: groups, user_matching_mode: email_link,
    oidc_well_known_url: "https://corp.example.com/.well-known/openid-configuration"}
- model: authentik_stages_password.passwordstage
  identifiers: {pk: p1}
  attrs: {name: x}
`), &whole); err != nil {
		t.Fatal(err)
	}
	silent := map[string]bool{
		"entries[].attrs.client_secret": true, "entries[].attrs.consumer_secret": true, // from the environment
		"entries[].attrs.signing_key": true, // keys are made again
		"entries[].attrs.expression":  true, // is named by its scope
		"entries[].attrs.client_type": true, // at its default
	}
	for _, path := range loses(t, Authentik, whole, yamlText, nil) {
		if silent[path] || strings.HasPrefix(path, "entries[].identifiers") || strings.HasSuffix(path, "attributes.a") ||
			path == "entries[].attrs" || path == "entries[].attrs.name" { // of the flow, and of the stage
			continue
		}
		t.Errorf("%s is lost without a line", path)
	}
	if text := told(t, Authentik, yamlText(whole)); strings.Contains(text, "planted") {
		t.Errorf("a secret is told:\n%s", text)
	}
}
