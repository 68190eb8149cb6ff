package reference

// Person is an account.
var Person = Block{
	Head: "person <username>", Open: "person ada@example.com",
	Text: "An account that is created when it does not exist. From then on its groups follow the Caddyfile, and everything else stays as it is stored, such as a password that the person has changed. " +
		"A start, a reload and `caddy gatehouse check` report each difference. A username that is an e-mail address is the verified address of the person.",
	Sample: "password {env.ADA_PASSWORD}\nname Ada Lovelace\ngroups staff admins",
	Options: []Option{
		{
			Word: "password", Arguments: "<password>", Default: "none: no sign-in by password", Text: "The password, 8 to 256 characters.",
			Example: "password {env.ADA_PASSWORD}",
		},
		{
			Word: "password_hash", Arguments: "<PHC string>", Text: "The password as an Argon2id or bcrypt hash, in place of `password`.",
			Example: "password_hash $argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$wYxzbMNMhf9rHdLOaa6kjRS2Nw/9EXmeQwhgYoYD2gU",
		},
		{Word: "name", Arguments: "<text>", Text: "The full name.", Example: "name Ada Lovelace"},
		{Word: "given_name", Arguments: "<text>", Text: "The given name.", Example: "given_name Ada"},
		{Word: "family_name", Arguments: "<text>", Text: "The family name.", Example: "family_name Lovelace"},
		{
			Word: "email", Arguments: "<address>", Default: "the username, if it is an address", Text: "The e-mail address.",
			Example: "email ada.lovelace@example.com",
		},
		{
			Word: "email_verified", Default: "only where the username is that address", Text: "The address is known to be the person's.",
			Example: "email ada.lovelace@example.com\nemail_verified",
		},
		{Word: "groups", Arguments: "<group>…", Text: "The groups that the person is in.", Example: "groups staff admins"},
		{
			Word: "locale", Arguments: "<tag>", Default: "what the browser asks for",
			Text: "The language of the person's pages and e-mails.", Example: "locale nl",
		},
		{
			Word: "partition", Arguments: "<name>", Default: "`default`", Text: "The partition of the person. It needs `partitions` in `identity`.",
			Example: "partition north", Around: "partitions north south",
		},
	},
}
