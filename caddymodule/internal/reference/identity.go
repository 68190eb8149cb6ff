package reference

// Identity is the identity service.
var Identity = Block{
	Head:    "identity",
	Text:    "The people, how they sign in, and how the pages look. An option with on and off is the default of a switch of the [settings](configuration.md), which change without a reload: what has been set there wins.",
	Instead: noSwitch,
	Sample: `locales en nl de fr
bootstrap /etc/gatehouse/settings.json
person ada@example.com {
	password {env.ADA_PASSWORD}
	groups staff admins
}
session {
	idle 30m
}`,
	Options: []Option{
		{Word: "person", Arguments: "<username>", Repeats: true, Text: "An account that is created when it does not exist.", Blocks: []*Block{&Person}},
		{
			Word: "partitions", Arguments: "[<name>…]", Default: "off: everybody is in the partition `default`", Example: "partitions north south",
			Text: "Keeps people apart: a username is unique within its partition only. Names limit which partitions there are, in addition to `default`; without names there can be any.",
		},
		{Word: "admin", Arguments: "[<username>…]", Default: "nobody", Blocks: []*Block{&Admin}, Text: "Who has a role in the admin console."},
		{Word: "session", Text: "How long sign-ins last.", Blocks: []*Block{&Session}},
		{Word: "lockout", Text: "When failed sign-ins are slowed down. No lockout is permanent.", Blocks: []*Block{&Lockout}},
		{Word: "password_hash", Text: "What a password hash costs.", Blocks: []*Block{&PasswordHash}},
		{
			Word: "locales", Arguments: "<locale>…", Default: "`en`", Example: "locales en nl de fr",
			Text: "The languages of the pages, the default first: `en`, `nl`, `de`, `fr`, also with a country such as `de-AT`. Languages of custom texts need not be listed.",
		},
		{
			Word: "extension", Arguments: "<directory>", Example: "extension /etc/gatehouse/extension",
			Text: "A directory with texts (`<locale>.json` and `default.json`) and with other files, which are served under `/assets/ext/`. `POST /api/config/extension/reload` reads it again.",
		},
		{Word: "brand", Text: "How the pages look.", Blocks: []*Block{&Brand}},
		{
			Word: "bootstrap", Arguments: "<file>", Example: "bootstrap /etc/gatehouse/settings.json",
			Text: "A JSON file of [settings](configuration.md) that an empty storage starts with. Later it counts no more: the settings are in the storage.",
		},
		{
			Word: "credentials_key", Arguments: "<hexadecimal digits>", Default: "none, and the credentials API takes no passwords", Example: "credentials_key {env.CREDENTIALS_KEY}",
			Text: "The AES-GCM key of the [credentials API](credentials.md): 32, 48 or 64 digits.",
		},
		{
			Word: "passkeys", Arguments: "on|off", Default: "`on` where browsers allow them: for an https issuer whose host is a name of several parts, and for `localhost`", Example: "passkeys off",
			Text: "Whether people can sign in with passkeys.",
		},
		{
			Word: "common_passwords", Arguments: "on|off", Default: "`on`", Example: "common_passwords off",
			Text: "Whether new passwords are refused that are on a list of common ones inside the program, or are nothing but the username, the e-mail address, the name of the brand or of the issuer's host. It holds wherever a password is set. See [common passwords](decisions/sign-in.md#common-passwords).",
		},
		{
			Word: "second_factor", Arguments: "when_set_up|always|on_demand", Default: "`when_set_up`", Example: "second_factor always",
			Text: "When a sign-in needs a second step. `when_set_up`: where the person has set up a method that gives level 2 or more. `always`: for everyone. " +
				"`on_demand`: where a level is asked for; otherwise a password is enough whatever the person has set up. The setting `step_up.second_factor` and applications can say otherwise. See [second step](decisions/step-up.md#second-step).",
		},
		{
			Word: "usernames", Arguments: "email", Default: "any names", Example: "usernames email",
			Text: "What usernames are. With `email` the pages ask for an e-mail address in place of a username, and a new username must be one, also by invitation, command, SCIM or `person`. " +
				"People who have another username keep it and sign in with it. See [usernames that are addresses](decisions/persons.md#usernames-that-are-addresses).",
		},
		{
			Word: "scim_verifies_emails", Arguments: "<client>…", Default: "none", Example: "scim_verifies_emails directory",
			Text: "The clients and API clients whose word counts that the primary address is the person's: they can write `emailVerified` of SCIM. " +
				"For directories that give out the addresses themselves: anyone who writes it can sign in as the owner of an address wherever accounts are coupled by verified addresses.",
		},
		{
			Word: "access_mail", Arguments: "<address>…", Default: "nobody", Example: "access_mail ops@example.com", Beside: "mail smtp smtp.example.com:587 {\n\tfrom no-reply@example.com\n}",
			Text: "Who is told by e-mail that somebody asks for access to a site with `request_access on`: once a day for each person and site, and of 20 requests an hour. It needs `mail`.",
		},
		{
			Word: "access_mail_groups", Arguments: "<group>…", Default: "none", Example: "access_mail_groups admins", Beside: "mail smtp smtp.example.com:587 {\n\tfrom no-reply@example.com\n}",
			Text: "The groups whose members are told so too, 20 readers in all, at verified addresses. With `partitions`, groups of the default one. It needs `mail`.",
		},
		{
			Word: "breach", Text: "Where passwords are looked up that are known from breaches, while `breach_check` is on.",
			Blocks: []*Block{&Breach},
		},
	},
}

// Person is an account.
var Person = Block{
	Head: "person <username>", Open: "person ada@example.com",
	Text: "An account that is created when it does not exist. From then on its groups follow the Caddyfile, and everything else stays as it is stored, such as a password that the person has changed. " +
		"A start, a reload and `caddy gatehouse check` report each difference. A username that is an e-mail address is the verified address of the person.",
	Sample: "password {env.ADA_PASSWORD}\nname Ada Lovelace\ngroups staff admins",
	Options: []Option{
		{Word: "password", Arguments: "<password>", Default: "none: no sign-in by password", Text: "The password, 8 to 256 characters.", Example: "password {env.ADA_PASSWORD}"},
		{
			Word: "password_hash", Arguments: "<PHC string>", Text: "The password as an Argon2id or bcrypt hash, in place of `password`.",
			Example: "password_hash $argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$wYxzbMNMhf9rHdLOaa6kjRS2Nw/9EXmeQwhgYoYD2gU",
		},
		{Word: "name", Arguments: "<text>", Text: "The full name.", Example: "name Ada Lovelace"},
		{Word: "given_name", Arguments: "<text>", Text: "The given name.", Example: "given_name Ada"},
		{Word: "family_name", Arguments: "<text>", Text: "The family name.", Example: "family_name Lovelace"},
		{Word: "email", Arguments: "<address>", Default: "the username, if it is an address", Text: "The e-mail address.", Example: "email ada.lovelace@example.com"},
		{Word: "email_verified", Default: "only where the username is that address", Text: "The address is known to be the person's.", Example: "email ada.lovelace@example.com\nemail_verified"},
		{Word: "groups", Arguments: "<group>…", Text: "The groups that the person is in.", Example: "groups staff admins"},
		{Word: "locale", Arguments: "<tag>", Default: "what the browser asks for", Text: "The language of the person's pages and e-mails.", Example: "locale nl"},
		{Word: "partition", Arguments: "<name>", Default: "`default`", Text: "The partition of the person. It needs `partitions` in `identity`.", Example: "partition north", Beside: "partitions north south"},
	},
}

// Session says how long sign-ins last.
var Session = Block{
	Head: "session",
	Text: "How long a sign-in lasts in one browser. Sites and clients can ask for a more recent one.",
	Options: []Option{
		{Word: "idle", Arguments: "<duration>", Default: "`1h`", Text: "Without any use; at least a minute.", Example: "idle 30m"},
		{Word: "absolute", Arguments: "<duration>", Default: "`12h`", Text: "At most; at least a minute.", Example: "absolute 10h"},
		{Word: "remember", Arguments: "<duration>", Default: "`30d`", Text: "At most, for people who choose to stay signed in.", Example: "remember 14d"},
		{
			Word: "per_person", Arguments: "<number>", Default: "`50`", Example: "per_person 10",
			Text: "How many sessions a person has at once, and how many browsers of theirs are recognised: 1 to 1000. The one unused for longest gives way.",
		},
	},
}

// Lockout says when failed sign-ins are slowed down.
var Lockout = Block{
	Head: "lockout",
	Text: "After some failed sign-ins of one person from one address, each further attempt has to wait longer.",
	Options: []Option{
		{Word: "failures", Arguments: "<number>", Default: "`5`", Text: "How many failures cause no wait: 1 to 1000.", Example: "failures 3"},
		{Word: "window", Arguments: "<duration>", Default: "`15m`", Text: "The time in which they are counted.", Example: "window 1h"},
	},
}

// PasswordHash is the cost of a password hash.
var PasswordHash = Block{
	Head: "password_hash",
	Text: "The cost of Argon2id. Hashes of another cost are replaced when their owners sign in.",
	Options: []Option{
		{Word: "memory", Arguments: "<size>", Default: "`19MiB`", Text: "The memory of one hash: 8MiB to 256MiB.", Example: "memory 64MiB"},
		{Word: "iterations", Arguments: "<number>", Default: "`2`", Text: "Passes over the memory: 1 to 20.", Example: "iterations 3"},
		{Word: "concurrency", Arguments: "<number>", Default: "one less than the processors, at least 1", Text: "How many hashes are computed at once: 1 to 1024.", Example: "concurrency 4"},
	},
}

// Brand is how the pages look.
var Brand = Block{
	Head: "brand",
	Text: "Name, logo and colour of the pages and e-mails.",
	Options: []Option{
		{Word: "name", Arguments: "<text>", Default: "Gatehouse", Text: "The name above each page.", Example: "name Albers"},
		{Word: "logo", Arguments: "<file>", Default: "the name as text", Text: "A PNG, JPEG or GIF picture of at most 64 KiB.", Example: "logo /etc/gatehouse/logo.png"},
		{Word: "color", Arguments: "<rrggbb>", Default: "`3b5bdb`", Text: "The colour of links and buttons. It is darkened or lightened until it is legible. Without quotes a `#` would begin a comment.", Example: "color 2457d6"},
		{Word: "help", Arguments: "<url>", Default: "no link", Text: "Where the help link at the foot of the pages leads: http, https or mailto.", Example: "help https://help.example.com/"},
	},
}

// Breach says where known passwords are looked up.
var Breach = Block{
	Head: "breach",
	Text: "A new password that is known from a breach is refused.",
	Options: []Option{
		{
			Word: "url", Arguments: "<url>", Default: "`https://api.pwnedpasswords.com/range/`, unless there is a `file`", Example: "url https://pwned.example.com/range/",
			Text: "The service that is asked. The first five digits of the SHA-1 hash are added to the URL, which ends with a slash.",
		},
		{
			Word: "file", Arguments: "<file>", Example: "file /etc/gatehouse/pwned.txt",
			Text: "A file that is asked first and needs no network: SHA-1 hashes in order, each with or without a colon and a count, or passwords, one a line.",
		},
		{Word: "timeout", Arguments: "<duration>", Default: "`1s`", Text: "How long the service may take.", Example: "timeout 2s"},
		{Word: "on_failure", Arguments: "open|closed", Default: "`open`", Text: "When the service does not answer, `open` accepts the password and `closed` refuses it.", Example: "on_failure closed"},
	},
}
