package reference

// Identity is the identity service.
var Identity = Block{
	Head:    "identity",
	Text:    "The people, how they sign in, and how the pages look. An option with on and off is the default of a switch of the [settings](configuration.md), which change without a reload: a value that is set there wins.",
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
		{
			Word: "person", Arguments: "<username>", Repeats: true, Text: "An account that is created if it does not exist.",
			Blocks: []*Block{&Person},
		},
		{
			Word: "partitions", Arguments: "[<name>…]", Default: "off: everybody is in the partition `default`", Example: "partitions north south",
			Text: "Keeps people apart: a username is unique within its partition only. With names, these are the only partitions besides `default`; without names there can be any.",
		},
		{Word: "admin", Arguments: "[<username>…]", Default: "no one", Blocks: []*Block{&Admin}, Text: "The roles in the admin console."},
		{Word: "session", Text: "How long sign-ins last.", Blocks: []*Block{&Session}},
		{Word: "lockout", Text: "When failed sign-ins are slowed down. No lockout is permanent.", Blocks: []*Block{&Lockout}},
		{Word: "password_hash", Text: "The cost of password hashes.", Blocks: []*Block{&PasswordHash}},
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
			Text: "A JSON file of [settings](configuration.md) that an empty storage starts with. After that it is ignored: the settings are in the storage, and a missing file is only a warning.",
		},
		{
			Word: "credentials_key", Arguments: "<hexadecimal digits>", Default: "none, and the credentials API takes no passwords",
			Example: "credentials_key {env.CREDENTIALS_KEY}",
			Text:    "The AES-GCM key of the [credentials API](credentials.md): 32, 48 or 64 digits.",
		},
		{
			Word: "passkeys", Arguments: "on|off",
			Default: "`on` where browsers allow them: for an https issuer whose host is a name of several parts, and for `localhost`",
			Example: "passkeys off",
			Text:    "Whether people can sign in with passkeys.",
		},
		{
			Word: "passkey_upgrade", Arguments: "on|off", Default: "`on`", Example: "passkey_upgrade off",
			Text: "Whether people who have never had a passkey get one after a sign-in with a password, where their browser makes one without a question. " +
				"On a device without that passkey people sign in with the password as before. See [passkeys](passkeys.md#automatic-passkeys).",
		},
		{
			Word: "passkey_rp_id", Arguments: "<host>", Default: "the host of the issuer", Example: "passkey_rp_id example.com",
			Text: "The host name that passkeys belong to: that of an issuer that has moved, or a domain above it. Change it only with the host of the issuer: passkeys of another host no longer work. See [passkeys](passkeys.md#when-the-issuer-moves).",
		},
		{
			Word: "passkey_origins", Arguments: "<origin>…", Default: "none", Example: "passkey_origins https://login.example.org",
			Text: "The other origins whose pages may ask browsers for the passkeys of this host, of at most five registrable names. Gatehouse lists them at `/.well-known/webauthn`; the answer that such a page gets is for its own server, and signs no one in here.",
		},
		{
			Word: "common_passwords", Arguments: "on|off", Default: "`on`", Example: "common_passwords off",
			Text: "Whether new passwords are refused if they are common ones, by a built-in list, or are nothing but the username, the person's name, an e-mail address or telephone number, the name of the brand or of the issuer's host. It applies wherever a password is set. See [common passwords](decisions/sign-in.md#common-passwords).",
		},
		{
			Word: "second_factor", Arguments: "when_set_up|always|on_demand", Default: "`when_set_up`", Example: "second_factor always",
			Text: "When a sign-in needs a second step. `when_set_up`: where the person has set up a method that gives level 2 or more. `always`: for everyone. " +
				"`on_demand`: where a level is asked for; otherwise a password is enough whatever the person has set up. The setting `step_up.second_factor` and applications can say otherwise. See [second step](decisions/step-up.md#second-step).",
		},
		{
			Word: "device_bound", Arguments: "on|off", Default: "`off`", Example: "device_bound on",
			Text: "Whether new sessions, here and at sites with `login`, are bound to the device of the browser where the browser can do so: a copied cookie opens nothing after ten minutes. " +
				"Other browsers notice nothing. The issuer must be https. See [device-bound sessions](device-bound-sessions.md).",
		},
		{
			Word: "usernames", Arguments: "email", Default: "any names", Example: "usernames email",
			Text: "The form of usernames. With `email` the pages ask for an e-mail address in place of a username, and a new username must be one, also by invitation, command, SCIM or `person`. " +
				"People who have another username keep it and sign in with it. See [usernames that are addresses](decisions/persons.md#usernames-that-are-addresses).",
		},
		{
			Word: "scim_verifies_emails", Arguments: "<client>…", Default: "none", Example: "scim_verifies_emails directory",
			Text: "The clients and API clients that are trusted to verify the primary address of a person: they can write `emailVerified` of SCIM. " +
				"For directories that assign the addresses themselves: anyone who writes it can sign in as the owner of an address wherever accounts are coupled by verified addresses.",
		},
		{
			Word: "access_mail", Arguments: "<address>…", Default: "no one", Example: "access_mail ops@example.com",
			Around: "mail smtp smtp.example.com:587 {\n\tfrom no-reply@example.com\n}",
			Text:   "The addresses that get an e-mail when someone asks for access to a site with `request_access on`: once a day for each person and site, and for at most 20 requests an hour. It needs `mail`.",
		},
		{
			Word: "access_mail_groups", Arguments: "<group>…", Default: "none", Example: "access_mail_groups admins",
			Around: "mail smtp smtp.example.com:587 {\n\tfrom no-reply@example.com\n}",
			Text:   "The groups whose members get that e-mail too, at verified addresses, 20 recipients in all. With `partitions`, groups of the default one. It needs `mail`.",
		},
		{
			Word: "breach", Text: "The source of passwords that are known from breaches, while `breach_check` is on.",
			Blocks: []*Block{&Breach},
		},
	},
}
