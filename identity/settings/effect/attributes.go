package effect

var attributes = []Effect{
	does("attributes.name_visible_on_dashboard", "The account page shows the person's name.", "NameVisibleOnDashboard"),
	does("attributes.person_creation_mandatory_fields.first_name_required",
		"A person without a given name is not created: by command, SCIM or import. The sign-up page asks for it.", "MandatoryFields"),
	does("attributes.person_creation_mandatory_fields.last_name_required",
		"A person without a family name is not created. The sign-up page asks for it.", "MandatoryFields"),
	does("attributes.person_creation_mandatory_fields.mobile_number_required",
		"A person without a phone number is not created. The sign-up page asks for it.", "MandatoryFields"),
	does("attributes.sign_up_form_fields.mobile_number_enabled", "The sign-up page asks for a mobile number.", "SignUpFields"),
	does("attributes.sign_up_form_fields.mobile_number_confirmation_enabled", "The number is typed twice there.", "SignUpFields"),
	does("attributes.sign_up_form_fields.email_confirmation_enabled", "The e-mail address is typed twice there.", "SignUpFields"),
	does("attributes.verification.email_enabled",
		"An e-mail address is added once the person has typed the code that was sent to it; only such an address can become the primary one. Off, or without `mail` in the Caddyfile: addresses are taken as typed, and are not verified. A sign-up needs such a code before the account exists, so without `mail` there is no sign-up. Off: an account can be made with the address of anyone, and the page reveals which addresses are taken.", "VerificationEmail"),
	does("attributes.verification.email_required",
		"The credentials API answers 403 with code 3003 for a person without a verified e-mail address.", "CredentialsRequiredAttributes"),
	does("attributes.verification.mobile_number_enabled",
		"A telephone number is added once the person has typed the code that was sent to it, while `features.sms_enabled` is on and the Caddyfile has `sms`. Off: numbers are taken as typed, and are not verified. At sign-up too.", "VerificationPhone"),
}
