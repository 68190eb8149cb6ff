package effect

var passwordPolicy = []Effect{
	does("password_policy.min_length", "Minimum length of a new password, in characters.", "PasswordPolicyOnEveryWay"),
	does("password_policy.max_length", "Maximum length of a new password, in characters; at most 256.", "PasswordPolicyOnEveryWay"),
	does("password_policy.lower_case_char_required", "Requires a lowercase letter in a new password.", "PasswordPolicyOnEveryWay"),
	does("password_policy.upper_case_char_required", "Requires an uppercase letter in a new password.", "PasswordPolicyOnEveryWay"),
	does("password_policy.special_char_required", "Requires a character that is neither letter nor digit in a new password.",
		"PasswordPolicyOnEveryWay"),
	does("password_policy.breached_password_blocked",
		"Refuses a new password that is known from a breach. The service is set in the Caddyfile: `identity { breach }`.",
		"BreachedPasswordBlocked"),
}
