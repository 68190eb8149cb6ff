package provider_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestLoginMethodWorks: a method that is added by the API is on the sign-in page of the running server, and gone when
// it is switched off.
func TestLoginMethodWorks(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	method := func(name, rest string) map[string]any {
		return map[string]any{"login_methods": map[string]any{"login_methods": []any{servertest.Decode[any](t,
			`{"id":"corp","name":"`+name+`","type":"OPEN_ID_CONNECT",`+rest+
				`"open_id_connect_attributes":{"client_id":"gatehouse","client_secret":"secret-of-corp","discovery_url":"https://corp.example.com/.well-known/openid-configuration"}}`)}}}
	}
	if page := s.SignInPage(); strings.Contains(page, "Corp") || !strings.Contains(page, `name="password"`) {
		t.Fatalf("before: %s", page)
	}
	s.MustCall("POST", "/api/v2/config", method("The Corp", `"enabled":true,`), http.StatusNoContent)
	if page := s.SignInPage(); !strings.Contains(page, "The Corp") || !strings.Contains(page, "idp=corp") {
		t.Errorf("once it is added: %s", page)
	}
	s.MustCall("POST", "/api/v2/config", method("Another name", `"enabled":true,`), http.StatusNoContent)
	if page := s.SignInPage(); !strings.Contains(page, "Another name") || strings.Contains(page, "The Corp") {
		t.Errorf("once it is renamed: %s", page)
	}
	s.MustCall("POST", "/api/v2/config", method("Another name", `"enabled":false,`), http.StatusNoContent)
	if page := s.SignInPage(); strings.Contains(page, "Another name") {
		t.Errorf("once it is switched off: %s", page)
	}
	s.MustCall("POST", "/api/v2/config",
		servertest.Decode[any](t, `{"login_methods":{"login_methods":[{"id":"p","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://p.example.com/m","comparison":"EXACT"}}]}}`), http.StatusNoContent)
	if page := s.SignInPage(); !strings.Contains(page, "idp=p") {
		t.Errorf("once a SAML method is added: %s", page)
	}
	for _, bad := range []string{
		`{"id":"f","type":"INSTAGRAM","enabled":true,"instagram_attributes":{"clientId":"x"}}`,
	} {
		body := s.MustCall("POST", "/api/v2/config", servertest.Decode[any](t, `{"login_methods":{"login_methods":[`+bad+`]}}`),
			http.StatusConflict)
		if !strings.Contains(body, "Meta ended the API") {
			t.Errorf("%s: %s", bad, body)
		}
	}
	s.MustCall("POST", "/api/v2/config",
		servertest.Decode[any](t, `{"features":{"mobile_authentication_enabled":true},"login_methods":{"login_methods":[{"id":"q","name":"Acme phone","type":"QR_CODE","enabled":true}]}}`), http.StatusNoContent)
	if page := s.SignInPage(); !strings.Contains(page, "Acme phone") || !strings.Contains(page, "idp=q") {
		t.Errorf("once a method of type QR_CODE is added: %s", page)
	}
	s.MustCall("POST", "/api/v2/config",
		servertest.Decode[any](t, `{"login_methods":{"login_methods":[{"id":"q","type":"QR_CODE","enabled":true,"qr_code_attributes":{"deep_linking_enabled":true}}]}}`), http.StatusBadRequest)
	// The password is a method too.
	s.MustCall("POST", "/api/v2/config",
		servertest.Decode[any](t, `{"login_methods":{"login_methods":[{"id":"identity","name":"Password","type":"USERNAME_AND_PASSWORD","enabled":false},`+
			`{"id":"p","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://p.example.com/m"}}]}}`), http.StatusNoContent)
	if page := s.SignInPage(); strings.Contains(page, `name="password"`) {
		t.Errorf("once passwords are switched off: %s", page)
	}
}

// TestProvidersOfTheCaddyfileAreShown: the API shows a provider of the Caddyfile as the login method that means the
// same, and takes it back unchanged.
func TestProvidersOfTheCaddyfileAreShown(t *testing.T) {
	s := servertest.Configured(t, "")
	s.Extra += "\nidp corp oidc {\n issuer https://corp.example.com\n client_id gatehouse\n client_secret secret-of-corp\n level 2\n map mail email\n}\n" +
		"idp partner saml {\n metadata https://partner.example.com/m\n level 2\n authn_context exact urn:x:strong\n map_level urn:x:strong 3\n}"
	s.MustLoad()
	type method struct {
		ID       string           `json:"id"`
		Type     string           `json:"type"`
		Level    int              `json:"authentication_level"`
		Mappings []map[string]any `json:"attribute_mappings"`
		SAML     map[string]any   `json:"saml_attributes"`
		OIDC     map[string]any   `json:"open_id_connect_attributes"`
	}
	shown := s.MustCall("GET", "/api/v2/config", nil, http.StatusOK)
	list := servertest.Decode[struct {
		LoginMethods struct {
			List []method `json:"login_methods"`
		} `json:"login_methods"`
	}](t, shown).LoginMethods.List
	found := map[string]method{}
	for _, m := range list {
		found[m.ID] = m
	}
	if m := found["corp"]; m.Type != "OPEN_ID_CONNECT" || m.Level != 2 || len(m.Mappings) != 1 || m.Mappings[0]["map_from"] != "mail" ||
		m.Mappings[0]["map_to"] != "email" ||
		m.OIDC["issuer"] != "https://corp.example.com" || m.OIDC["client_id"] != "gatehouse" || strings.Contains(shown, "secret-of-corp") {
		t.Errorf("idp corp is shown as %+v", m)
	}
	if m := found["partner"]; m.Type != "SAML" || m.Level != 2 || m.SAML["idp_metadata"] != "https://partner.example.com/m" ||
		m.SAML["comparison"] != "EXACT" {
		t.Errorf("idp partner is shown as %+v", m)
	}
	if body := s.MustCall("GET", "/api/config/identity-providers", nil, http.StatusOK); !strings.Contains(body,
		`"saml_properties":{"authn_context":"urn:x:strong"}`) {
		t.Errorf("identity-providers = %s", body)
	}
	whole := servertest.Decode[map[string]any](t, shown)
	s.MustCall("POST", "/api/v2/config", map[string]any{"login_methods": whole["login_methods"]}, http.StatusNoContent)
	if after := s.MustCall("GET", "/api/v2/config", nil, http.StatusOK); after != shown {
		t.Errorf("once it is sent back:\n%s\nwant\n%s", after, shown)
	}
}

// TestMappingsThatGiveNobodyAnything: a mapping that is turned round or misspelled is refused at the mapping, by every
// type of provider that has them, as the Caddyfile is warned of.
func TestMappingsThatGiveNobodyAnything(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	const (
		ldap   = `"type":"LDAP","ladp_attributes":{"server_urls":"ldaps://ldap.example.com","user_distinguished_name":"cn=x,dc=example","password":"p","base_suffix":"dc=example"}`
		oidc   = `"type":"OPEN_ID_CONNECT","open_id_connect_attributes":{"issuer":"https://corp.example.com","client_id":"x","client_secret":"a-secret-at-the-provider"}`
		saml   = `"type":"SAML","saml_attributes":{"idp_metadata":"https://p.example.com/m"}`
		google = `"type":"GOOGLE","google_attributes":{"clientId":"x","client_secret":"a-secret-at-the-provider"}`
		at     = "login_methods.login_methods[0]."
	)
	mapping := func(from, to string) string {
		return `"attribute_mappings":[{"map_from":"` + from + `","map_to":"` + to + `"}]`
	}
	custom := func(from, to string) string {
		return `"custom_attribute_mappings":[{"attribute_to_map_from":"` + from + `","attribute_to_map_to":"` + to + `"}]`
	}
	for name, tt := range map[string]struct {
		of, mappings, path, problem string // no path: it is stored
	}{
		"a directory": {ldap, mapping("username", "uid"), "attribute_mappings[0]", "is the wrong way round"},
		"OpenID":      {oidc, mapping("username", "preferred_username"), "attribute_mappings[0]", "is the wrong way round"},
		"Google":      {google, mapping("id", "sub"), "attribute_mappings[0]", "is the wrong way round"},
		"SAML": {
			saml, mapping("email", "urn:oid:0.9.2342.19200300.100.1.3"), "attribute_mappings[0]",
			"is the wrong way round",
		},
		"a custom one":              {ldap, custom("email", "mail"), "custom_attribute_mappings[0]", "is the wrong way round"},
		"a misspelled detail":       {oidc, mapping("mail", "emial"), "attribute_mappings[0].map_to", "did you mean email?"},
		"a misspelled one of SAML":  {saml, mapping("givenName", "given_nmae"), "attribute_mappings[0].map_to", "did you mean given_name?"},
		"the right way":             {ldap, mapping("uid", "username"), "", ""},
		"an attribute of one's own": {oidc, mapping("dept", "department_of_person"), "", ""},
		"a field that is nearly one": {
			oidc,
			mapping("mail", "emails") + `,"custom_attribute_fields":[{"id":"emails","name":"emails","type":"TEXT"}]`, "", "",
		},
		"another word for a claim": {ldap, mapping("sn", "surname"), "", ""},
	} {
		body := servertest.Decode[any](t, `{"login_methods":{"login_methods":[{"id":"d","enabled":true,`+tt.of+`,`+tt.mappings+`}]}}`)
		want := http.StatusNoContent
		if tt.path != "" {
			want = http.StatusBadRequest
		}
		resp, got := s.Call("POST", "/api/v2/config", body) //nolint:bodyclose // it is read and closed
		if resp.StatusCode != want || tt.path != "" && (!strings.Contains(got, `"path":"`+at+tt.path+`"`) || !strings.Contains(got, tt.problem)) {
			t.Errorf("POST of %s = %d %s, want %d %s: %s", name, resp.StatusCode, got, want, tt.path, tt.problem)
		}
	}
}

// TestProblemsNameMembers: what is wrong with a login method is said by the path to its member.
func TestProblemsNameMembers(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	for body, want := range map[string]string{
		`{"id":"d","type":"LDAP","enabled":true,"ladp_attributes":{"server_urls":"ldaps://ldap.example.com","user_distinguished_name":"cn=x,dc=example","password":"p","authentication_dn_template":"uid=%s,dc=example"}}`:               "login_methods.login_methods[0].ladp_attributes.authentication_dn_template",
		`{"id":"c","type":"OPEN_ID_CONNECT","enabled":true,"open_id_connect_attributes":{"issuer":"https://corp.example.com","client_id":"x","client_authentication_method":"CLIENT_SECRET_BASIC"}}`:                                     "login_methods.login_methods[0].open_id_connect_attributes.client_secret",
		`{"id":"p","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://p.example.com/m","comparison":"EXACT","authentication_level_mappings":[{"authn_context_class_ref_name":"no URI","authentication_level":2}]}}`: "login_methods.login_methods[0].saml_attributes.authentication_level_mappings[0].authn_context_class_ref_name",
	} {
		got := s.MustCall("POST", "/api/v2/config", servertest.Decode[any](t, `{"login_methods":{"login_methods":[`+body+`]}}`),
			http.StatusBadRequest)
		if !strings.Contains(got, `"path":"`+want+`"`) {
			t.Errorf("POST %s = %s, want the path %s", body, got, want)
		}
	}
}
