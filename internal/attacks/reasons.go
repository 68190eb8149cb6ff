package attacks

const ldap = "There is no LDAP provider yet."

// reasons say why what stands here cannot meet a case yet. A reason for a case that has a test is an error.
var reasons = map[int]string{
	126: ldap,
	127: ldap,
	128: ldap,
	271: "There is no sign-in that another device approves yet.",
}

// open says what a tested case still leaves out, because what it concerns is not there yet.
var open = map[int]string{}
