package provider_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/servertest"
)

// TestLoginMethodWorks: a method that is added by the API is on the sign-in page of the running server, and gone when
// it is switched off.
func TestLoginMethodWorks(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	method := func(name, rest string) map[string]any {
		return map[string]any{"login_methods": map[string]any{"login_methods": []any{servertest.Decode[any](t, `{"id":"corp","name":"`+name+`","type":"OPEN_ID_CONNECT",`+rest+
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
	s.MustCall("POST", "/api/v2/config", servertest.Decode[any](t, `{"login_methods":{"login_methods":[{"id":"p","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://p.example.com/m","comparison":"EXACT"}}]}}`), http.StatusNoContent)
	if page := s.SignInPage(); !strings.Contains(page, "idp=p") {
		t.Errorf("once a SAML method is added: %s", page)
	}
	for _, bad := range []string{
		`{"id":"f","type":"INSTAGRAM","enabled":true,"instagram_attributes":{"clientId":"x"}}`,
	} {
		body := s.MustCall("POST", "/api/v2/config", servertest.Decode[any](t, `{"login_methods":{"login_methods":[`+bad+`]}}`), http.StatusConflict)
		if !strings.Contains(body, "Meta ended the API") {
			t.Errorf("%s: %s", bad, body)
		}
	}
	s.MustCall("POST", "/api/v2/config", servertest.Decode[any](t, `{"features":{"mobile_authentication_enabled":true},"login_methods":{"login_methods":[{"id":"q","name":"Acme phone","type":"QR_CODE","enabled":true}]}}`), http.StatusNoContent)
	if page := s.SignInPage(); !strings.Contains(page, "Acme phone") || !strings.Contains(page, "idp=q") {
		t.Errorf("once a method of type QR_CODE is added: %s", page)
	}
	s.MustCall("POST", "/api/v2/config", servertest.Decode[any](t, `{"login_methods":{"login_methods":[{"id":"q","type":"QR_CODE","enabled":true,"qr_code_attributes":{"deep_linking_enabled":true}}]}}`), http.StatusBadRequest)
	// The password is a method too.
	s.MustCall("POST", "/api/v2/config", servertest.Decode[any](t, `{"login_methods":{"login_methods":[{"id":"identity","name":"Password","type":"USERNAME_AND_PASSWORD","enabled":false},`+
		`{"id":"p","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://p.example.com/m"}}]}}`), http.StatusNoContent)
	if page := s.SignInPage(); strings.Contains(page, `name="password"`) {
		t.Errorf("once passwords are switched off: %s", page)
	}
}
