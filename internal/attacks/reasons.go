package attacks

const ldap = "There is no LDAP provider yet."

// reasons say why what stands here cannot meet a case yet. A reason for a case that has a test is an error.
var reasons = map[int]string{
	126: ldap,
	127: ldap,
	128: ldap,
	92:  "No provider has an endpoint for user details yet: those of the header provider come with the sign-in.",
}

// open says what a tested case still leaves out, because what it concerns is not there yet.
var open = map[int]string{
	276: "names, links and logos of organisations: no page shows them",
	36:  "providers of organisations: there is no external provider to ask",
	37:  "the AuthnRequest: there is no SAML provider to send one to",
}
