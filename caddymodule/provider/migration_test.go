package provider_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/ldap/ldaptest"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// TestMigrationByAPI switches migration on by the configuration API: a directory brings people with their passwords,
// an OpenID provider asks newcomers for the account that they have.
func TestMigrationByAPI(t *testing.T) {
	cfg := annInDirectory()
	cfg.TLS = false
	directory := ldaptest.Start(t, cfg)
	op := oidctest.New(t)
	op.Change(func(s *oidctest.Script) {
		s.UserInfo = map[string]any{"email": nil, "email_verified": nil, "employee": "E-17"}
	})
	s := servertest.Configured(t, "outbound {\n allow 127.0.0.0/8\n}")
	s.Site = remoteSite
	s.MustLoad()
	set := func(body string) {
		t.Helper()
		s.MustCall(http.MethodPost, "/api/v2/config", servertest.Decode[any](t, body), http.StatusNoContent)
	}
	methods := func(during bool) string {
		return fmt.Sprintf(`{"login_methods":{"login_methods":[{"id":"staff","name":"Staff directory","type":"LDAP","enabled":true,"migration_during_sign_up":%[1]t,`+
			`"attribute_mappings":[{"id":"1","map_from":"uid","map_to":"username"}],`+
			`"ladp_attributes":{"server_urls":"%[2]s","base_suffix":"%[3]s","user_distinguished_name":"%[4]s","password":"%[5]s"}},`+
			`{"id":"corp","name":"The Corp","type":"OPEN_ID_CONNECT","enabled":true,"migration_during_sign_up":%[1]t,"attribute_mappings":[{"id":"1","map_from":"employee","map_to":"person_identifier"}],`+
			`"open_id_connect_attributes":{"client_id":"%[6]s","client_secret":%[7]q,"discovery_url":"%[8]s/.well-known/openid-configuration"}}]}}`,
			during, directory.URL, ldaptest.People, ldaptest.Reader, ldaptest.ReaderPW, oidctest.ClientID, oidctest.ClientSecret, op.URL)
	}
	site := "http://" + s.API + "/"
	typed := func(username, password string) (*http.Response, string) {
		b := servertest.NewBrowser(t)
		page, body := b.Open(site)
		return b.Submit(page, body, url.Values{"username": {username}, "password": {password}})
	}
	offered := func() bool { return strings.Contains(s.SignInPage(), "Staff directory") }
	set(methods(true))
	if !offered() {
		t.Error("while migration_enabled is off the directory is not offered")
	}
	if page, body := typed("ann", "ann password"); page.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("while migration_enabled is off: %d %s", page.StatusCode, body)
	}
	set(`{"features":{"migration_enabled":true}}`)
	if offered() {
		t.Error("with migration_enabled the directory has a page of its own")
	}
	if _, body := typed("ann", "ann password"); !strings.HasPrefix(body, "[ann]") {
		t.Errorf("with migration_enabled: %s", body)
	}

	arrive := func() (*http.Response, string) {
		b := servertest.NewBrowser(t)
		page, _ := b.Open(site)
		flow := page.Request.URL.Query().Get("flow")
		return b.Open(s.Issuer() + "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {"corp"}}.Encode())
	}
	s.Run(`{"username":"ida","external_id":"E-17"}`+"\n", "import", "jsonl", "-")
	if page, body := arrive(); !strings.Contains(body, "for the first time") {
		t.Errorf("a newcomer by a provider is not asked for an account: %d %s", page.StatusCode, body)
	}
	set(`{"features":{"migration_enabled":true,"person_identifier_in_external_profile_required_for_migration":true}}`)
	if _, body := arrive(); !strings.Contains(body, "for the first time") {
		t.Errorf("with the identifier: %s", body)
	}
	set(`{"features":{"migration_enabled":true,"unauthenticated_migration_enabled":true}}`)
	if _, body := arrive(); !strings.HasPrefix(body, "[ida]") {
		t.Errorf("without the password: %s", body)
	}
	set(`{"features":{"migration_enabled":true,"person_identifier_in_external_profile_required_for_migration":true}}`)
	op.Change(func(s *oidctest.Script) {
		s.Sub, s.UserInfo = "else", map[string]any{"email": nil, "email_verified": nil}
	})
	if _, body := arrive(); !strings.HasPrefix(body, "[corp-") {
		t.Errorf("without an identifier: %s", body)
	}
}
