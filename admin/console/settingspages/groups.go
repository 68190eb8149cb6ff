package settingspages

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// group is a part of a form: its name in messages, and the beginnings of its members.
type group struct {
	name    string
	members []string
}

// groups are the parts of the form of the unit features, which is long: what is in none
// of them is in the last one.
var groups = []group{
	{"sign_in", []string{
		"login_", "password_reset_", "app_passwords_", "mobile_authentication_", "cookie_based_", "automated_external_", "bind_multiple_",
	}},
	{"sign_up", []string{
		"sign_up_", "accepting_invitation_", "allow_sign_up_", "invitation_verification_", "custom_email_", "post_login_extra_",
	}},
	{"activation", []string{"person_activation."}},
	{"factors", []string{"google_authenticator_", "pin_", "externally_delivered_code_", "step_up_"}},
	{"phone", []string{"sms_", "username_reminder_", "mobile_number_"}},
	{"migration", []string{"migration_", "person_identifier_", "unauthenticated_migration_"}},
	{"tokens", []string{"action_token."}},
	{"systems", nil},
}

func groupOf(path string) int {
	i := slices.IndexFunc(groups, func(g group) bool {
		return slices.ContainsFunc(g.members, func(begin string) bool { return strings.HasPrefix(path, "features."+begin) })
	})
	if i < 0 {
		return len(groups) - 1
	}
	return i
}

// grouped puts the fields of a long unit into groups.
func grouped(u *settings.UnitState, fields []web.Field) {
	if u.Name != "features" {
		return
	}
	slices.SortStableFunc(fields, func(a, b web.Field) int { return cmp.Compare(groupOf(a.Name), groupOf(b.Name)) })
	for i := range fields {
		f := &fields[i]
		f.Group = "console.group." + groups[groupOf(f.Name)].name
		f.Differs = slices.ContainsFunc(u.Members, func(m settings.Member) bool { return m.Path == f.Name && m.Value != m.Standard })
	}
}
