package reference

// ServiceProvider is an application that signs people in by SAML.
var ServiceProvider = Block{
	Head: "service_provider <id>", Open: "service_provider wiki",
	Text: "An application that signs people in by SAML 2.0, with Gatehouse as its identity provider. Gatehouse's metadata for it are at `/sso/metadata`. " +
		"[saml-service-providers.md](saml-service-providers.md) says more.",
	Needs: "metadata https://wiki.example.com/saml/metadata",
	Options: []Option{
		{Word: "name", Arguments: "<text>", Default: "the id", Text: "The name that people see.", Example: "name The wiki"},
		{
			Word: "metadata", Arguments: "<file or url>", Default: "required", Example: "metadata https://wiki.example.com/saml/metadata",
			Text: "Its metadata: a file, which is read again when it is a minute old, or an https address, which is fetched again each hour. Responses are sent only to addresses that stand there.",
		},
		{
			Word: "metadata_certificate", Arguments: "<file>", Default: "unsigned metadata is accepted",
			Example: "metadata_certificate /etc/gatehouse/federation.pem",
			Text:    "A PEM file: the metadata must be signed by its key. Federations publish one.",
		},
		{
			Word: "entity", Arguments: "<entity ID>", Default: "the only service provider in the metadata",
			Example: "entity https://wiki.example.com/saml",
			Text:    "The service provider that is meant, where the metadata is that of a federation with many. Such a file can have 256 MiB: it is read as a stream, and only this one is kept.",
		},
		{
			Word: "expired_certificates", Arguments: "accept", Default: "refused", Example: "expired_certificates accept",
			Text: "Trusts signatures by the keys in its metadata although their certificates have expired, as SAML's metadata profile says: the key is trusted, not the certificate. " +
				"By default `check` and the log warn 30 days before the last certificate ends.",
		},
		{
			Word: "name_id", Arguments: "persistent|transient|email|unspecified [<attribute>]",
			Default: "what its metadata name first, otherwise `persistent`", Example: "name_id unspecified username",
			Text: "How people are named where the request does not say. `persistent`: by a random name that this application alone gets. `transient`: by another one each time. `email`: by their verified address. " +
				"`unspecified`: by the username. With an attribute, by that.",
		},
		{
			Word: "attributes", Arguments: "<attribute>…", Repeats: true, Default: "none", Example: "attributes email name groups",
			Text: "What it is told of people, under these names: `id`, `username`, `name`, `given_name`, `family_name`, `email`, `phone_number`, `groups`, `locale` and other claims, or custom attributes.",
		},
		{
			Word: "attribute", Arguments: "<attribute>", Repeats: true, Text: "An attribute under other names, or with conditions.",
			Blocks: []*Block{&ServiceProviderAttribute},
		},
		{
			Word: "groups", Arguments: "<group>…", Default: "everybody can sign in", Text: "The groups of which a person must be in one to sign in.",
			Example: "groups staff",
		},
		{
			Word: "level", Arguments: "<1 to 4>", Default: "any",
			Text: "The authentication level that every sign-in needs. One below it leads to a second factor.", Example: "level 2",
		},
		{
			Word: "second_factor", Arguments: "when_set_up|always|on_demand", Default: "as the settings say", Example: "second_factor always",
			Text: "When sign-ins need a second step. See [second step](decisions/step-up.md#second-step).",
		},
		{Word: "consent", Text: "People are asked before attributes are told, once for each.", Example: "consent"},
		{
			Word: "idp_initiated", Arguments: "[<RelayState>…]", Default: "off", Example: "idp_initiated https://wiki.example.com/start",
			Text: "Sign-ins can begin at Gatehouse, by a link to `/sso/start/<id>`. Its parameter `RelayState` can be one of those that stand here.",
		},
		{
			Word: "signed_requests", Arguments: "required", Default: "as its metadata say",
			Text: "Requests without a signature are refused, whatever its metadata say.", Example: "signed_requests required",
		},
		{
			Word: "encryption", Arguments: "on|off", Default: "`on`", Example: "encryption off",
			Text: "`off` leaves assertions unencrypted, for applications whose metadata have a key for encryption and that cannot read AES-GCM.",
		},
	},
}
