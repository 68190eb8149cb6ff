package settings_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestOwnMethodMembers: members that mean nothing for usernames and passwords are refused with the reason, and those
// that have an effect are stored.
func TestOwnMethodMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const method = `{"login_methods":{"login_methods":[{"id":"identity","type":"USERNAME_AND_PASSWORD","enabled":true,"authentication_level":1,`
	for member, value := range map[string]string{
		"auto_email_verification": "true", "synchronise_attributes": "true", "migration_during_sign_up": "true",
		"force_creating_username_and_password_during_sign_up": "true", "excluded_unmapped_attributes": `["a"]`,
		"attribute_mappings":        `[{"map_from":"a","map_to":"email"}]`,
		"custom_attribute_mappings": `[{"attribute_to_map_from":"a","attribute_to_map_to":"b"}]`,
	} {
		a := w.must(http.StatusBadRequest, http.MethodPost, "/api/v2/config", method+`"`+member+`":`+value+`}]}}`)
		if !strings.Contains(a.body, `"path":"login_methods.login_methods[0].`+member+`"`) || !strings.Contains(a.body, "must be ") {
			t.Errorf("%s = %s, want its path and a reason", member, a.body)
		}
	}
	w.must(http.StatusNoContent, http.MethodPost, "/api/v2/config", method+`"name":"Library card","auto_activation_enabled":true}]}}`)
	if a := w.must(http.StatusOK, http.MethodGet, "/api/v2/config/login-methods", ""); !strings.Contains(a.body, `"name":"Library card"`) {
		t.Errorf("GET = %s", a.body)
	}
}
