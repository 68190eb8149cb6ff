package reference

// LDAPGroups is the block groups of a directory.
var LDAPGroups = Block{
	Head: "groups", Text: "Which groups of the directory are which groups here. A person is put into the groups on the right, and taken out of them, at each sign-in by this provider.",
	Needs: "map cn=admins,ou=groups,dc=example,dc=com admins",
	Options: []Option{
		{
			Word: "map", Arguments: "<group of the directory> <group>", Repeats: true, Default: "required",
			Example: "map cn=admins,ou=groups,dc=example,dc=com admins",
			Text:    "A group of the directory, by its DN or its name alone, and the group that it is here. The name alone means every group of that name, wherever it is.",
		},
		{
			Word: "base", Arguments: "<DN>", Default: "`memberOf` of the person's entry",
			Text:    "The DN below which groups are searched for. It needs `match`.",
			Example: "base ou=groups,dc=example,dc=com\nmatch (member=%d)",
		},
		{
			Word: "match", Arguments: "<filter>",
			Text:    "The filter that finds the groups of a person: `%d` is the person's DN, `%u` their mapped `username`.",
			Example: "base ou=groups,dc=example,dc=com\nmatch (&(objectClass=groupOfNames)(member=%d))",
		},
	},
}
