package reference

// APIClient are credentials of the APIs.
var APIClient = Block{
	Head: "api_client <id>", Open: "api_client ops",
	Text:  "Basic credentials for the HTTP APIs. It is not an OAuth client.",
	Needs: "secret {env.OPS_SECRET}\napis introspection",
	Options: []Option{
		{
			Word: "secret", Arguments: "<secret>", Repeats: true, Default: "required, unless there is a `secret_hash`",
			Example: "secret {env.OPS_SECRET}",
			Text:    "A secret of at least 32 characters; `caddy gatehouse secret` prints one. Twice while it is rotated: both are valid.",
		},
		{
			Word: "secret_hash", Arguments: "<PHC string>", Repeats: true, Text: "A secret as an Argon2id or bcrypt hash, in place of `secret`.",
			Example: "secret_hash $argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$wYxzbMNMhf9rHdLOaa6kjRS2Nw/9EXmeQwhgYoYD2gU",
		},
		{
			Word: "apis", Arguments: "<api>…", Default: "required",
			Text: "The APIs that it can use: `introspection`, `configuration`, `credentials`, `events`, `persons`, `policies`, `access` (requests for access), `access_decisions` (to decide about them), `statistics`, `storage` (small values for people), `sessions`, `assurance` and `administrators` (within `configuration`: login methods that [sign in administrators](decisions/console.md#settings-of-sign-in)).", Example: "apis introspection events",
		},
		{
			Word: "audiences", Arguments: "<uri>…", Default: "all", Text: "It introspects only tokens for these resources (RFC 8707).",
			Example: "audiences https://api.example.com",
		},
		{
			Word: "introspection_alg", Arguments: signatures, Default: "`RS256`", Example: "introspection_alg ES256",
			Text: "The signature of introspection answers, where it asks for signed ones ([RFC 9701](decisions/introspection.md#introspection)).",
		},
		{
			Word: "partitions", Arguments: "<name>…", Default: "all",
			Text:    "It reaches only people of these partitions. It needs `partitions` in `identity`.",
			Example: "partitions north\napis persons", Around: "identity {\n\tpartitions north south\n}",
		},
		{
			Word: "tls_client_auth", Arguments: "<kind> <name>", Example: "tls_client_auth san_dns gateway.example.com\napis introspection",
			Instead: "-",
			Text:    "At the introspection endpoint it authenticates by a certificate with this name, and sends `client_id` in the form. The kinds are those of `auth_method` of a client.",
		},
		{
			Word: "organisation", Arguments: "<id>|*", Default: "the one whose `username_for_basic_auth` it is, or was",
			Example: "organisation acme\napis configuration",
			Text:    "The organisation that it belongs to: the configuration API shows it that one alone, and if there is no such organisation, it can do nothing. `*`: it belongs to none, whatever it belonged to before.",
		},
		{
			Word: "max_level", Arguments: "<1 to 4>", Default: "`2`",
			Text:    "The highest authentication level of the LOGIN action tokens that it makes. It needs `persons` among `apis`.",
			Example: "max_level 3\napis persons",
		},
		{Word: "disabled", Text: "The credentials are switched off.", Example: "disabled"},
	},
}
