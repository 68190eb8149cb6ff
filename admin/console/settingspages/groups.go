package settingspages

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/admin/console/members"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// groups are the parts of long forms, by their units.
var groups = map[string][]members.Group{
	"features": {
		{Name: "sign_in", Fields: []string{
			"features.login_", "features.password_reset_", "features.app_passwords_", "features.mobile_authentication_",
			"features.cookie_based_", "features.automated_external_", "features.bind_multiple_",
		}},
		{Name: "sign_up", Fields: []string{
			"features.sign_up_", "features.accepting_invitation_", "features.allow_sign_up_", "features.invitation_verification_",
			"features.custom_email_", "features.post_login_extra_",
		}},
		{Name: "activation", Fields: []string{"features.person_activation."}},
		{Name: "factors", Fields: []string{
			"features.google_authenticator_", "features.pin_", "features.externally_delivered_code_", "features.step_up_",
		}},
		{Name: "phone", Fields: []string{"features.sms_", "features.username_reminder_", "features.mobile_number_"}},
		{Name: "migration", Fields: []string{
			"features.migration_", "features.person_identifier_", "features.unauthenticated_migration_",
		}},
		{Name: "tokens", Fields: []string{"features.action_token."}},
		{Name: "systems"},
	},
	"organisations": {
		{},
		{Name: "attributes", Fields: []string{
			"entry.user_profile_attributes.", "entry.custom_attribute_mappings.", "entry.identity_attributes",
		}},
	},
}

// grouped puts the fields of a long form into groups, and marks those whose value is not the default.
func grouped(u *settings.UnitState, fields []web.Field) {
	list := groups[u.Name]
	if list == nil {
		return
	}
	members.Grouped(list, fields)
	for i := range fields {
		f := &fields[i]
		f.Differs = slices.ContainsFunc(u.Members, func(m settings.Member) bool { return m.Path == f.Name && m.Value != m.Standard })
	}
}
