package settings_test

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// TestOrganisationWords: words of an organisation that mean nothing are refused with their path.
func TestOrganisationWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.handler = api(w.another(settings.Config{
		Fixed: []settings.LoginMethod{fixed}, Verify: verify,
		APIClients: func() []string { return []string{"acme-api"} },
	}, zap.NewNop()))
	for name, tt := range map[string]struct{ members, path string }{
		"unmapped": {
			`"service_providers":{"one":{"include_unmapped_custom_attributes_within_saml_response":"banana"}}`,
			"service_providers.one.include_unmapped_custom_attributes_within_saml_response",
		},
		"trusted device": {`"service_providers":{"one":{"use_trusted_device":"banana"}}`, "service_providers.one.use_trusted_device"},
		"subject type": {
			`"user_profile_attributes":{"saml_subject_name_attributes":{"type":"banana"}}`,
			"user_profile_attributes.saml_subject_name_attributes.type",
		},
		"subject format": {
			`"user_profile_attributes":{"saml_subject_name_attributes":{"format":"banana"}}`,
			"user_profile_attributes.saml_subject_name_attributes.format",
		},
		"subject without a key": {
			`"user_profile_attributes":{"saml_subject_name_attributes":{"type":"custom"}}`,
			"user_profile_attributes.saml_subject_name_attributes.custom_attribute_key",
		},
		"misspelled default": {
			`"user_profile_attributes":{"saml_subject_name_attributes":{"default":"emial"}}`,
			"user_profile_attributes.saml_subject_name_attributes.default",
		},
		"misspelled attribute": {
			`"user_profile_attributes":{"identity_attributes":{"emial":{}}}`,
			"user_profile_attributes.identity_attributes.emial",
		},
		"misspelled name": {
			`"service_providers":{"one":{"identity_attributes":{"a":{"attribute_name":"famly_name"}}}}`,
			"service_providers.one.identity_attributes.a.attribute_name",
		},
		"name with a space": {
			`"service_providers":{"one":{"identity_attributes":{"a":{"attribute_name":"shoe size"}}}}`,
			"service_providers.one.identity_attributes.a.attribute_name",
		},
		"name of 257 characters": {
			`"service_providers":{"one":{"identity_attributes":{"a":{"attribute_name":"` + strings.Repeat("é", 257) + `"}}}}`,
			"service_providers.one.identity_attributes.a.attribute_name",
		},
		"attribute without a name in assertions": {
			`"service_providers":{"one":{"identity_attributes":{"email":{"saml_attribute_names":{"basic":" "}}}}}`,
			"service_providers.one.identity_attributes.email.saml_attribute_names.basic",
		},
		"mapping to nothing": {
			`"user_profile_attributes":{"custom_attribute_mappings":{"attribute_to_map_from":"a"}}`,
			"user_profile_attributes.custom_attribute_mappings.attribute_to_map_to",
		},
		"mapping from nothing": {
			`"service_providers":{"one":{"custom_attribute_mappings":{"attribute_to_map_to":"a"}}}`,
			"service_providers.one.custom_attribute_mappings.attribute_to_map_from",
		},
		"client that is not there": {`"username_for_basic_auth":"nobody"`, "username_for_basic_auth"},
	} {
		a := w.must(http.StatusBadRequest, http.MethodPost, "/api/v2/config", `{"organisations":[{"id":"acme",`+tt.members+`}]}`)
		if !strings.Contains(a.body, `"path":"organisations[0].`+tt.path+`"`) {
			t.Errorf("%s = %s, want the path %s", name, a.body, tt.path)
		}
	}
	w.must(http.StatusNoContent, http.MethodPost, "/api/v2/config", `{"organisations":[{"id":"acme","username_for_basic_auth":"acme-api",
		"service_providers":{"one":{"use_trusted_device":"TRUE","include_unmapped_custom_attributes_within_saml_response":"false",
			"identity_attributes":{"mail":{},"a":{"attribute_name":"shoe_size"},"b":{"attribute_name":"urn:oid:2.5.4.4"},"email2":{}},
			"custom_attribute_mappings":{"attribute_to_map_from":"shoe_size","attribute_to_map_to":"ShoeSize"}}},
		"user_profile_attributes":{"saml_subject_name_attributes":{"type":"custom_attribute","custom_attribute_key":"staff_number","format":"urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress","default":"username"}}}]}`)
}
