package effect

var passwordPolicy = []Effect{
	does("password_policy.min_length", "The least number of characters of a new password.", "PasswordPolicyOnEveryWay"),
	does("password_policy.max_length", "The largest number of characters of a new password, 256 at the most.", "PasswordPolicyOnEveryWay"),
	does("password_policy.lower_case_char_required", "A new password has a lower case letter.", "PasswordPolicyOnEveryWay"),
	does("password_policy.upper_case_char_required", "A new password has an upper case letter.", "PasswordPolicyOnEveryWay"),
	does("password_policy.special_char_required", "A new password has a character that is neither letter nor digit.", "PasswordPolicyOnEveryWay"),
	does("password_policy.breached_password_blocked", "A new password that is known from a breach is refused. Who is asked stands in the Caddyfile: `identity { breach }`.", "BreachedPasswordBlocked"),
}
