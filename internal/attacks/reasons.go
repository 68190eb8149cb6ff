package attacks

// reasons say why what stands here cannot meet a case yet. A reason for a case that has a test is an error.
var reasons = map[int]string{
	73: "`private_key_jwt` is not served: `auth_method private_key_jwt` is refused when the configuration is read.",
	91: "Usage limits are not served: `usage_limit` is refused when the configuration is read.",
	92: "There are no external providers, so there are no user details to fetch.",
}

// open says what a tested case still leaves out, because what it concerns is not there yet.
var open = map[int]string{
	16: "the implicit grant itself, whose requests are refused",
	17: "`response_mode=form_post` itself, whose requests are refused",
	36: "providers of organisations: there is no external provider to ask",
	37: "the AuthnRequest: there is no SAML provider to send one to",
}
