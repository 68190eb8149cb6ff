// Package alias lists the options of the Caddyfile that stand for switches of the settings, such as sign_up on.
package alias

import "strings"

// Word is a word of the Caddyfile that sets switches.
type Word struct {
	Name string
	// Paths are the switches, which all get the value.
	Paths []string
	// Text says what happens while they are on, and Default what holds without the word.
	Text, Default string
}

// Example is the value that is not the default.
func (w Word) Example() string {
	if strings.HasPrefix(w.Default, "`on`") {
		return "off"
	}
	return "on"
}

// SecurityEmails are the switches of the e-mails that tell people what was changed in their accounts.
var SecurityEmails = []string{
	"email_notifications.identity_coupled_to_account",
	"email_notifications.password_reset",
	"email_notifications.account_removed",
	"email_notifications.attributes_update.on_email_updated",
	"email_notifications.attributes_update.on_password_updated",
	"email_notifications.attributes_update.on_phone_number_updated",
}

// Words are all words of this kind.
var Words = []Word{
	{
		"sign_in",
		[]string{"features.login_enabled"},
		"People can sign in. Off, for maintenance: pages, providers and the password grant refuse; sessions stay.", "`on`",
	},
	{
		"sign_up",
		[]string{"features.sign_up_enabled"},
		"People make accounts of their own, from the sign-in page. Their e-mail addresses are confirmed first, which needs `mail`, unless `verify_email off` stands here too.", "`off`",
	},
	{
		"verify_email",
		[]string{"attributes.verification.email_enabled"},
		"An e-mail address is used once its owner has typed the code that was sent there. Needs `mail`.", "`off`, with `sign_up on` `on`",
	},
	{
		"verify_phone",
		[]string{"attributes.verification.mobile_number_enabled"},
		"A telephone number is used once its owner has typed the code that was sent there. Needs `sms on`.", "`off`",
	},
	{
		"invitations",
		[]string{"features.accepting_invitation_enabled"},
		"People are invited, by `caddy gatehouse person invite` and by the API.", "`off`",
	},
	{
		"activation",
		[]string{"features.person_activation.enabled"},
		"People who are created by command, SCIM or API must activate their accounts.", "`off`",
	},
	{
		"password_reset",
		[]string{"features.password_reset_enabled"},
		"The sign-in page leads people who have forgotten their password to a link by e-mail. Needs `mail`.", "`on` with `mail`",
	},
	{
		"username_reminder",
		[]string{"features.username_reminder_via_sms_enabled"},
		"People who have forgotten their username get it by text message. Needs `sms on`.", "`off`",
	},
	{
		"breach_check",
		[]string{"password_policy.breached_password_blocked"},
		"New passwords that are known from a breach are refused.", "`off`",
	},
	{
		"link_several",
		[]string{"features.bind_multiple_external_accounts_with_one_cim_account"},
		"A person links accounts at several providers. Off: one at most.", "`off`",
	},
	{
		"another_device",
		[]string{"features.action_token.login.ui_generation_enabled", "features.action_token.login.enabled"},
		"People make a link on the account pages that signs them in on another device.", "`off`",
	},
	{
		"phone_sign_in",
		[]string{
			"features.mobile_authentication_enabled", "login_methods.mobile_login.enabled",
			"login_methods.mobile_login.show_use_mobile_to_login",
		},
		"People sign in by scanning a code with a phone on which they are signed in: [qr-sign-in.md](qr-sign-in.md).", "`off`",
	},
	{
		"app_passwords",
		[]string{"features.app_passwords_enabled"},
		"People make app passwords for programs, at sites with `protect { accept app_passwords }`. Off: existing ones are not accepted.", "`on`",
	},
	{
		"admin_console",
		[]string{"features.admin_console_enabled"},
		"Administrators have pages at `/admin`: [console.md](console.md). Each needs a role, by `admin` or by a group.", "`off`",
	},
	{
		"authenticator",
		[]string{"features.google_authenticator_step_up_authentication_enabled"},
		"People set up an authenticator app, with recovery codes.", "`on`",
	},
	{
		"pin",
		[]string{"features.pin_enabled"},
		"People choose a PIN as a second factor.", "`off`",
	},
	{
		"pin_reset",
		[]string{"email_notifications.pin_reset"},
		"People who have forgotten their PIN get a link by e-mail. Needs `mail`.", "`off`",
	},
	{
		"email_code",
		[]string{"email_notifications.step_up_authentication"},
		"Codes by e-mail, to verified addresses, are a second factor. Needs `mail`.", "`off`",
	},
	{
		"sms",
		[]string{"features.sms_enabled"},
		"Text messages are sent: as a second factor, and to verify numbers. Needs `sms` in the block `gatehouse`.", "`off`",
	},
	{
		"delivered_code",
		[]string{
			"features.externally_delivered_code_step_up.enabled",
			"features.step_up_authentication_method_externally_delivered_code_enabled",
		},
		"Codes that you deliver yourself (`caddy gatehouse person code`) are a second factor.", "`off`",
	},
	{
		"set_up_on_demand",
		[]string{"step_up.actions.allow_set_initial_step_up_method_enabled"},
		"A person without a second factor sets up the first one when a site or application demands one.", "`off`",
	},
	{
		"security_emails", SecurityEmails,
		"People are told when their password, e-mail address or telephone number changes, when their password is reset, their account removed or linked. Needs `mail`.", "`on` with `mail`",
	},
	{
		"welcome_emails",
		[]string{"email_notifications.welcome.on_web_enabled", "email_notifications.welcome.on_api_enabled"},
		"New people are welcomed by e-mail. Needs `mail`.", "`off`",
	},
	{
		"invitation_emails",
		[]string{"email_notifications.account_invitation"},
		"The link of an invitation is sent by e-mail. Off: the inviting administrator hands it over. Needs `mail`.", "`off`",
	},
	{
		"configuration_api",
		[]string{"features.configuration_api_enabled"},
		"The configuration API is open to API clients that have it. `caddy gatehouse config` always works.", "`on`",
	},
	{
		"credentials_api",
		[]string{"features.credentials_api_enabled"},
		"The credentials API is open to API clients that have it.", "`on`",
	},
	{
		"events_api",
		[]string{"features.events_api_enabled"},
		"The events API is open to API clients that have it.", "`on`",
	},
	{
		"person_api",
		[]string{"features.person_api_enabled"},
		"SCIM and `/api/persons` are open to API clients that have them.", "`on`",
	},
	{
		"statistics_api",
		[]string{"features.statistics_api_enabled"},
		"The statistics API is open to API clients that have it.", "`on`",
	},
	{
		"session_api",
		[]string{"features.session_api_enabled"},
		"API clients that have the session API see who is signed in where, and end sessions.", "`off`",
	},
	{
		"storage_api",
		[]string{"features.storage_api_enabled"},
		"API clients that have the storage API keep small values for people.", "`on`",
	},
}
