package effect

var profile = []Effect{
	does("profile.required_attributes_validation_rules[].any_of",
		"A person without any of these is not created, whether by sign-up, whose form asks for one, by an invitation, SCIM, import or command. The credentials API answers 403 with code 3003 for a person who exists without.", "CredentialsRequiredAttributes"),
}
