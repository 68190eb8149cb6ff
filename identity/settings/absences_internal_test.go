package settings

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
)

// What a member that is absent, and an empty list, mean for who passes.
const (
	absentClosed = "closed" // no one passes, or no one more than with it. A switch is off
	absentArgued = "argued" // someone passes who would not with it: the reason says why that is right
	absentOther  = "other"  // it is not about who passes
)

// absences say it of every member. A row that ends with * is about all that begin so and have no row of their own.
var absences = []struct{ path, means, why string }{
	{"attributes.*", absentOther, ""},
	{
		"attributes.verification.email_enabled", absentArgued,
		"addresses are taken as typed, are marked as unverified, and neither link nor reset anything by themselves",
	},
	{"attributes.verification.email_required", absentArgued, "the credentials API tells of people without a verified address, as unverified"},
	{"attributes.verification.mobile_number_enabled", absentArgued, "numbers are taken as typed, are marked as unverified, and get no codes"},
	{"custom_messages.*", absentOther, ""},
	{"email_notifications.*", absentOther, ""},
	{"messages", absentOther, ""},
	{"redirects.*", absentClosed, ""},
	{"redirects.show_wait_page_while_logging_in", absentOther, ""},
	{"ui_extension.*", absentClosed, ""},
	{"password_policy.*", absentArgued, "8 characters, and none of the most common passwords, hold without it"},
	{"profile.required_attributes_validation_rules*", absentArgued, "accounts need no more than a username"},

	{"features.accepting_invitation_enabled", absentClosed, ""},
	{"features.admin_console_enabled", absentClosed, ""},
	{"features.allow_sign_up_without_invitation_validation", absentClosed, ""},
	{"features.app_passwords_enabled", absentArgued, "no site takes app passwords unless it says accept app_passwords"},
	{"features.automated_external_identity_coupling_enabled", absentClosed, ""},
	{"features.bind_multiple_external_accounts_with_one_cim_account", absentClosed, ""},
	{"features.configuration_api_enabled", absentArgued, "only API clients with configuration are let in"},
	{"features.cookie_based_saml_authentication", absentArgued, "who is signed in here is signed in there, as with every application"},
	{"features.credentials_api_enabled", absentArgued, "only API clients with credentials are let in"},
	{"features.events_api_enabled", absentArgued, "only API clients with events are let in"},
	{"features.experimental_features_enabled", absentClosed, ""},
	{"features.google_authenticator_step_up_authentication_enabled", absentArgued, "it adds a second step and takes none away"},
	{"features.login_enabled", absentArgued, "off is for maintenance"},
	{"features.migration_enabled", absentClosed, ""},
	{"features.mobile_authentication_enabled", absentClosed, ""},
	{"features.mobile_number_validation_backend_services_enabled", absentClosed, ""},
	{"features.password_reset_enabled", absentClosed, ""},
	{"features.person_api_enabled", absentArgued, "only clients with scim, and API clients with persons, are let in"},
	{
		"features.person_identifier_in_external_profile_required_for_migration", absentArgued,
		"a newcomer is asked for the password of an account all the same",
	},
	{"features.pin_enabled", absentClosed, ""},
	{"features.post_login_extra_registration_after_second_login", absentOther, ""},
	{"features.session_api_enabled", absentClosed, ""},
	{"features.sign_up_enabled", absentClosed, ""},
	{"features.sms_enabled", absentClosed, ""},
	{"features.statistics_api_enabled", absentArgued, "only API clients with statistics are let in"},
	{"features.storage_api_enabled", absentArgued, "only API clients with storage are let in, each to its own values"},
	{"features.unauthenticated_migration_enabled", absentClosed, ""},
	{"features.username_reminder_via_sms_enabled", absentClosed, ""},
	{"features.step_up_authentication_method_externally_delivered_code_enabled", absentClosed, ""},
	{"features.externally_delivered_code_step_up.enabled", absentClosed, ""},
	{"features.externally_delivered_code_step_up.expiration_time", absentOther, ""},
	{"features.action_token.*", absentClosed, ""},
	{"features.action_token.login.ttl", absentOther, ""},
	{"features.action_token.login.authentication_level", absentArgued, "1, the least that there is"},
	{"features.action_token.app_to_web.ttl", absentOther, ""},
	{"features.action_token.app_to_web.authentication_level", absentArgued, "1, the least that there is"},
	{"features.action_token.coupling.ttl", absentOther, ""},
	{"features.person_activation.*", absentArgued, "who makes a person has decided about them; SCIM and the API can make inactive ones"},
	{"features.custom_email_validation.*", absentArgued, "any address that mail can be sent to"},
	{"features.invitation_verification_required.*", absentArgued, "the link is the proof: it was sent to the address, or handed over"},

	{"step_up.actions.allow_set_initial_step_up_method_enabled", absentClosed, ""},
	{
		"step_up.actions.*", absentArgued,
		"the standard levels hold; setting up a method never needs less than the strongest that the person has",
	},
	{"step_up.authentication_methods.*", absentArgued, "the standard levels hold"},
	{"step_up.stategy", absentOther, ""},
	{"step_up.second_factor", absentArgued, "as second_factor of the Caddyfile says, and WHEN_SET_UP without it"},

	{"organisations[].*", absentOther, ""},
	{
		"organisations[].username_for_basic_auth", absentArgued,
		"the organisation has no API client. What one is bound to stands at the API client and outlives this",
	},
	{"organisations[].is_private", absentArgued, "name and logo of the organisation are shown before the sign-in"},
	{"organisations[].user_profile_attributes.*", absentClosed, ""},
	{"organisations[].service_providers{}.id", absentOther, ""},
	{"organisations[].service_providers{}.name", absentOther, ""},
	{"organisations[].service_providers{}.custom_attribute_mappings*", absentOther, ""},
	{"organisations[].service_providers{}.identity_attributes*", absentClosed, ""},
	{"organisations[].service_providers{}.include_unmapped_custom_attributes_within_saml_response", absentClosed, ""},
	{"organisations[].service_providers{}.saml_metadata", absentClosed, ""},
	{"organisations[].service_providers{}.use_trusted_device", absentClosed, ""},
	{"organisations[].service_providers{}.type", absentArgued, "the client of the same id signs people in by what it is configured for"},
	{
		"organisations[].service_providers{}.required_authentication_level", absentArgued,
		"any sign-in, with the second step that second_factor asks for",
	},
	{"organisations[].service_providers{}.required_identity_assurance_level", absentArgued, "people whose identity no one has assured"},
	{"organisations[].service_providers{}.second_factor", absentArgued, "as the client says, then the settings, and WHEN_SET_UP without them"},

	// Without a policy of the name a site lets in no one, and a list that is there and empty is refused.
	{"policies{}.allow[].name", absentOther, ""},
	{"policies{}.allow[].message", absentOther, ""},
	{"policies{}.allow[].match*", absentArgued, "every request, of the callers that need and when name"},
	{"policies{}.allow[].need*", absentArgued, "everyone who is signed in, at the requests that match and when name"},
	{"policies{}.allow[].when", absentArgued, "every hour, for the callers that need names"},
	{"policies{}.deny[].*", absentArgued, "no one is refused by it, and allow still decides"},
	{"policies{}.public", absentClosed, ""},

	// A login method works only with what its type requires, and is off until enabled says otherwise.
	{"login_methods.login_methods[].enabled", absentClosed, ""},
	{"login_methods.login_methods[].*", absentOther, ""},
	{"login_methods.login_methods[].administrators_enabled", absentClosed, ""},
	{"login_methods.login_methods[].auto_activation_enabled", absentClosed, ""},
	{"login_methods.login_methods[].auto_email_verification", absentClosed, ""},
	{"login_methods.login_methods[].synchronise_attributes", absentClosed, ""},
	{"login_methods.login_methods[].migration_during_sign_up", absentClosed, ""},
	{"login_methods.login_methods[].force_creating_username_and_password_during_sign_up", absentOther, ""},
	{"login_methods.login_methods[].authentication_level", absentArgued, "1, the least that there is"},
	{"login_methods.login_methods[].identity_assurance_level", absentClosed, ""},
	{"login_methods.login_methods[].attribute_mappings[].editable", absentClosed, ""},
	{
		"login_methods.login_methods[].excluded_unmapped_attributes", absentArgued,
		"details that no mapping makes are told too: they give no group and verify nothing",
	},
	{
		"login_methods.login_methods[].saml_mutual_ssl_tls_attributes.server_certificate_id", absentArgued,
		"a server with a certificate that the system trusts",
	},
	{"login_methods.login_methods[].eidas_attributes.required_level_of_assurance", absentClosed, ""},
	{"login_methods.login_methods[].digid_attributes.required_authentication_level", absentClosed, ""},
	{"login_methods.login_methods[].kerberos_attributes.auto_login_enabled", absentClosed, ""},
	{"login_methods.login_methods[].ladp_attributes.ip_range_enabled", absentArgued, "people at any address: the password decides"},
	{"login_methods.login_methods[].ladp_attributes.ip_ranges", absentClosed, ""},
	{"login_methods.login_methods[].ladp_attributes.match_pattern", absentArgued, "the entry whose uid was typed"},
	{"login_methods.login_methods[].open_id_connect_attributes.front_channel_logout_enabled", absentClosed, ""},
	{
		"login_methods.login_methods[].open_id_connect_attributes.id_token_encryption_required", absentArgued,
		"answers that are signed and not encrypted",
	},
	{
		"login_methods.login_methods[].open_id_connect_attributes.user_info_encryption_required", absentArgued,
		"answers that are signed and not encrypted",
	},
	{"login_methods.login_methods[].qr_code_attributes.deep_linking_enabled", absentClosed, ""},
	{"login_methods.login_methods[].azure_ad_b2c_attributes.front_channel_logout_enabled", absentClosed, ""},
	{"login_methods.login_methods[].itsme_attributes.front_channel_logout_enabled", absentClosed, ""},
	{"login_methods.login_methods[].itsme_attributes.security_level", absentArgued, "BASIC, which is level 1 here"},
	{"login_methods.login_methods[].saml_attributes.authentication_level_mappings*", absentArgued, "every class, at the level of the method"},
	{"login_methods.mobile_login.enabled", absentClosed, ""},
	{"login_methods.mobile_login.*", absentOther, ""},
	{"login_methods.mobile_login.allowed_login_attempts", absentArgued, "5 numbers"},
	{"login_methods.mobile_login.step_up_type", absentArgued, "the level of the sign-in on the phone, which an app answers for"},
	{"login_methods.mobile_login.authentication_type", absentArgued, "either way, of which an app needs an API client with persons"},
}

// TestAbsentMembersAllowNothing: what is absent is not allowed. Each member of each unit says what its absence means,
// so a new one has to be decided; one whose absence lets someone pass says why; a switch that is closed is off.
func TestAbsentMembersAllowNothing(t *testing.T) {
	t.Parallel()
	standard, used := Defaults(), map[string]bool{}
	values := map[string]reflect.Value{}
	for _, un := range table {
		standard.visitMembers(un, func(v reflect.Value, p place) {
			if !p.entry {
				values[p.path] = v
			}
		})
	}
	for _, m := range members() {
		row := slices.IndexFunc(absences, func(a struct{ path, means, why string }) bool { return a.path == m.path })
		if row < 0 { // the longest that fits
			for i, a := range absences {
				start, open := strings.CutSuffix(a.path, "*")
				if open && strings.HasPrefix(m.path, start) && (row < 0 || len(a.path) > len(absences[row].path)) {
					row = i
				}
			}
		}
		if row < 0 {
			t.Errorf("%s: what does its absence mean for who passes? Write it into absences", m.path)
			continue
		}
		a := absences[row]
		used[a.path] = true
		v, plain := values[m.path]
		switch {
		case a.means == absentClosed && plain && v.Kind() == reflect.Bool && v.Bool():
			t.Errorf("%s is closed, and on while no one has set it", m.path)
		case a.means == absentClosed && plain && (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() > 0:
			t.Errorf("%s is closed, and has entries while no one has set it", m.path)
		case a.means == absentArgued && a.why == "":
			t.Errorf("%s: its absence lets someone pass, and nothing says why", m.path)
		}
	}
	for _, a := range absences {
		if !used[a.path] {
			t.Errorf("absences has the row %s, which is about nothing", a.path)
		}
	}
	for f := range wire.Fields(reflect.TypeFor[Units]()) {
		if !slices.ContainsFunc(table, func(un unit) bool { return un.name == f.Name }) {
			t.Errorf("%s is no unit of the table", f.Name)
		}
	}
}
