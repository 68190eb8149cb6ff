package reference

// Gatehouse is the global option.
var Gatehouse = Block{
	Head:  "gatehouse",
	Text:  "The authorization server and the identity service of this Caddy. The block stands among the global options, once.",
	Needs: "issuer https://auth.example.com",
	Options: []Option{
		{
			Word: "issuer", Arguments: "<url>", Default: "required",
			Text:    "The address of every endpoint and page: scheme and host, without a path. A site with the directive `gatehouse` must serve it. http is for loopback hosts only.",
			Example: "issuer https://auth.example.com",
		},
		{
			Word: "storage", Arguments: "<module> …", Default: "`badger` in Caddy's data directory",
			Text:   "Where everything is kept that changes while the server runs.",
			Blocks: []*Block{&Badger, &Postgres},
		},
		{
			Word: "encryption_key", Arguments: "<key> [<older key>…]", Default: "a key that is made once and kept beside the storage directory (`<directory>.key`, mode 0600)",
			Text:    "Keys of 32 bytes in Base64 that seal private keys and other secrets at rest: the first one seals, all of them open. A backup contains none of them. `openssl rand -base64 32` makes one.",
			Example: "encryption_key {env.GATEHOUSE_KEY}",
		},
		{Word: "scope", Arguments: "<name>", Repeats: true, Text: "What a scope demands. A scope without a block only needs to be named by clients.", Blocks: []*Block{&Scope}},
		{
			Word: "authorization_details", Arguments: "<type>", Repeats: true, Blocks: []*Block{&DetailType},
			Text: "A type of authorization details (RFC 9396), by which clients ask for more than scopes can say.",
		},
		{Word: "client", Arguments: "<id>", Repeats: true, Text: "An application that gets tokens. `caddy gatehouse client add` adds more without a reload.", Blocks: []*Block{&Client}},
		{Word: "api_client", Arguments: "<id>", Repeats: true, Text: "Credentials for the HTTP APIs.", Blocks: []*Block{&APIClient}},
		{
			Word: "client_metadata_documents", Arguments: "[on|off]", Default: "on if a site has [`mcp`](#protect-mcp)", Blocks: []*Block{&Documents},
			Text: "Clients that nobody has registered.",
		},
		{
			Word: "trust_issuer", Arguments: "<url>", Repeats: true, Text: "A build server or a cluster whose jobs get tokens without a secret.", Blocks: []*Block{&TrustedIssuer},
		},
		{
			Word: "registration", Arguments: "open|token", Default: "off", Blocks: []*Block{&Registration},
			Text: "Clients that register themselves.",
		},
		{Word: "policy", Arguments: "<name>", Repeats: true, Text: "Rules that sites share.", Blocks: []*Block{&Policy}},
		{Word: "forward_auth", Arguments: "<name>", Repeats: true, Text: "A site that another proxy serves.", Blocks: []*Block{&ForwardAuth}},
		{
			Word: "forward_auth_any", Arguments: "on|off", Default: "off: a question about another origin is refused", Example: "forward_auth_any on",
			Text: "Origins that no `forward_auth` names have a gate too: a bearer token of this issuer passes there if an operator has registered its client and it is meant for no other resource.",
		},
		{
			Word: "forward_auth_from", Arguments: "<network>…", Default: "Caddy's `trusted_proxies`", Example: "forward_auth_from 10.0.0.0/8",
			Text: "The networks of the proxies that may ask about requests. Others are refused. A network that would hold strangers, such as `0.0.0.0/0`, is an error.",
		},
		{
			Word: "forward_auth_secret", Arguments: "<secret>", Default: "the address alone decides", Example: "forward_auth_secret {env.GATEWAY_SECRET}",
			Text: "Proxies with any address may ask that send this secret in the header `Gatehouse-Secret`, for networks without fixed addresses.",
		},
		{Word: "ext_authz", Arguments: "<address>", Default: "none", Text: "A listener for Envoy's external authorization over gRPC.", Blocks: []*Block{&ExtAuthz}},
		{
			Word: "idp", Arguments: "<id> <module>", Repeats: true,
			Text:   "An identity provider where people sign in. The id has letters, digits, dots, `-` and `_`, appears in addresses, and is what `idps` of a client names.",
			Blocks: []*Block{&SAML, &OIDC, &Google, &Microsoft, &AzureADB2C, &Apple, &Itsme, &OAuth2Preset, &OAuth2, &LDAP, &Kerberos, &HeaderIDP},
		},
		{Word: "service_provider", Arguments: "<id>", Repeats: true, Text: "An application that signs people in by SAML.", Blocks: []*Block{&ServiceProvider}},
		{
			Word: "saml_sign", Arguments: "<key pair>…", Default: "Gatehouse's own", Example: "saml_sign saml-2027 saml-2026",
			Text: "Key pairs of the [configuration API](configuration.md) that sign for service providers: the first one signs, all are in the metadata at `/sso/metadata`.",
		},
		{Word: "identity", Text: "The people, how they sign in, and how the pages look.", Blocks: []*Block{&Identity}},
		{Word: "events", Text: "How long events are kept, and where they are sent.", Blocks: []*Block{&Events}},
		{Word: "par", Arguments: "required", Default: "not required", Text: "Every client must push its authorization requests. See [pushed requests](decisions/authorization.md#pushed-requests).", Example: "par required"},
		{
			Word: "client_cert_header", Arguments: "<name>", Default: "the TLS connection alone counts", Example: "client_cert_header Client-Cert",
			Text: "The header in which Caddy's `trusted_proxies` name the certificate of the client (RFC 9440). From everybody else it is ignored, and sites with `protect` remove it. See [certificates.md](certificates.md).",
		},
		{
			Word: "client_ca", Arguments: "<file>…", Default: "none", Example: "client_ca /etc/gatehouse/clients.pem",
			Text: "Files with the authorities of clients' certificates (PEM), for certificates that Caddy does not verify itself: those of `client_cert_header`, and of sites with `client_auth { mode request }`.",
		},
		{
			Word: "mtls_endpoint_aliases", Arguments: "<origin>", Default: "the issuer", Example: "mtls_endpoint_aliases https://mtls.auth.example.com",
			Text: "The origin at which clients with a certificate find the endpoints, so that browsers at the issuer are not asked for one. A site with `gatehouse` and `client_auth` must serve it.",
		},
		{
			Word: "shared_signals", Arguments: "named|all", Default: "none", Example: "shared_signals named",
			Text: "Clients with the scope `ssf.manage` are told at once when a session ends, an account is disabled or a credential changes: of the people whom they have named, or of all. See [shared signals](shared-signals.md).",
		},
		{Word: "outbound", Text: "Where the server may connect to.", Blocks: []*Block{&Outbound}},
		{Word: "mail", Arguments: "<module> …", Text: "What delivers e-mails. Without it people get none, and nothing that needs e-mail is offered.", Blocks: []*Block{&SMTP}},
		{Word: "sms", Arguments: "<module> …", Text: "What delivers text messages. They are sent while [`sms on`](#identity) stands in `identity`.", Blocks: []*Block{&SMSWebhook}},
		{Word: "push", Arguments: "<module> …", Text: "What delivers prompts to people's phones.", Blocks: []*Block{&PushWebhook}},
	},
}

// Badger is the storage engine in a directory.
var Badger = Block{
	Head: "storage badger [<directory>]", Open: "storage badger /var/lib/gatehouse", Bare: true,
	Text: "Records in a directory of this machine, which is created with mode 0700. A write is durable once it is answered. One process at a time can use it. " +
		"Default of the directory: `gatehouse` in Caddy's data directory.",
	Options: []Option{{
		Word: "min_free", Arguments: "<size>", Default: "`128MiB`", Example: "min_free 512MiB",
		Text: "The free space below which nothing is written and requests that write are answered 503, because a full disk would end the process. Half as much again is set aside in a file of the directory.",
	}},
}

// Postgres is the storage engine on a database.
var Postgres = Block{
	Head: "storage postgres <url>", Open: "storage postgres {env.DATABASE_URL}", Bare: true,
	Text: "Records in a PostgreSQL database, version 13 or later. Its tables are made at the first start. A write is durable once it is answered. " +
		"The URL is of the form `postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full&sslrootcert=FILE`; several hosts are separated by commas, and the one that takes writes is used. " +
		"`encryption_key` is required with this storage. [postgres.md](postgres.md) says what the database must be like.",
	Options: []Option{
		{
			Word: "direct_url", Arguments: "<url>", Default: "the URL", Example: "direct_url {env.DATABASE_DIRECT_URL}",
			Text: "The URL of the same database without the pooler, such as PgBouncer, that the URL leads to. On it the server hears what the other nodes write, which a pooler does not pass on.",
		},
		{Word: "schema", Arguments: "<name>", Default: "the first of the user's search path", Example: "schema gatehouse", Text: "The schema of the tables. It is made if it is missing."},
		{Word: "cluster", Arguments: "<name>", Default: "`gatehouse`", Example: "cluster production", Text: "The name that is written into the database at its first start. A database of another name is refused, so that a wrong URL does no harm."},
		{Word: "pool", Arguments: "<number>", Default: "`16`", Example: "pool 32", Text: "How many connections read at the same time. One more writes."},
		{
			Word: "durability", Arguments: "on|local", Default: "`on`", Example: "durability local",
			Text: "What a write waits for. `on`: the disk of the server and each standby that it names as synchronous. `local`: the disk of the server alone; a standby that is promoted can then lack what was answered.",
		},
	},
}

// Scope describes a scope.
var Scope = Block{
	Head: "scope <name>", Open: "scope orders.read",
	Text: "What a scope demands, and what the consent page says about it.",
	Options: []Option{
		{Word: "description", Arguments: "<text>", Default: "the name", Text: "The text on the consent page.", Example: `description "Read your orders"`},
		{Word: "level", Arguments: "<1 to 4>", Default: "any", Text: "The authentication level that people must have reached before they get it. A sign-in below it leads to a second factor.", Example: "level 2"},
		{Word: "assurance", Arguments: "<1 to 4>", Default: "any", Text: "The [identity assurance level](decisions/events.md#identity-assurance-of-scopes) that people must have. Others are told that their identity has to be confirmed, and earlier tokens of a person who has lost it are without the scope.", Example: "assurance 2"},
		{Word: "usage_limit", Arguments: "<number>", Default: "`0`: unlimited", Text: "How often an access token with this scope can be used. Of several scopes, the lowest limit counts.", Example: "usage_limit 5"},
	},
}

// DetailType is a type of authorization details.
var DetailType = Block{
	Head: "authorization_details <type>", Open: "authorization_details payment_initiation",
	Text: "What clients can ask for in detail, such as one payment: its members, and the words of the consent page. A request has the members that stand here and no others. " +
		"The client names the type in `authorization_details_types`. See [authorization details](decisions/authorization.md#authorization-details).",
	Needs:  "actions initiate",
	Sample: "description \"Start a payment\"\ndescription nl \"Een betaling starten\"\nactions initiate status\nmember amount.value {\n\tlabel \"Amount\"\n\tlabel nl \"Bedrag\"\n}\nmember amount.currency {\n\tlabel \"Currency\"\n\tvalues EUR USD\n}\nrequired actions amount.value amount.currency\nlevel 2\nconsent always",
	Options: []Option{
		{Word: "description", Arguments: "[<language>] <text>", Repeats: true, Default: "the type", Text: "What the consent page calls it, in a language such as `nl`, or in all that have no text of their own. The text stands in quotes.", Example: `description "Start a payment"`},
		{Word: "locations", Arguments: "<uri>…", Default: "not allowed", Text: "Requests can have `locations`, a list of some of these.", Example: "locations https://bank.example.com/payments"},
		{Word: "actions", Arguments: "<action>…", Default: "not allowed", Text: "Requests can have `actions`, a list of some of these.", Example: "actions initiate status cancel", Instead: "-"},
		{Word: "datatypes", Arguments: "<name>…", Default: "not allowed", Text: "Requests can have `datatypes`, a list of some of these.", Example: "datatypes contacts photos"},
		{Word: "privileges", Arguments: "<name>…", Default: "not allowed", Text: "Requests can have `privileges`, a list of some of these.", Example: "privileges admin"},
		{Word: "identifier", Default: "not allowed", Text: "Requests can have `identifier`, a text that names one thing.", Example: "identifier"},
		{Word: "member", Arguments: "<name>", Repeats: true, Text: "A further member.", Blocks: []*Block{&DetailMember}},
		{Word: "required", Arguments: "<member>…", Default: "none", Text: "The members that every request has.", Example: "required actions"},
		{Word: "level", Arguments: "<1 to 4>", Default: "any", Text: "The authentication level that people must have reached. A sign-in below it leads to a second factor.", Example: "level 2"},
		{Word: "consent", Arguments: "on|always", Default: "`on`", Text: "Whether people are asked again for the same that they have allowed before: `always` suits payments. It holds for clients with `consent off`, too.", Example: "consent always"},
		{Word: "unregistered", Default: "not allowed", Text: "Clients that register themselves, or have a metadata document, can ask for it.", Example: "unregistered"},
	},
}

// DetailMember is a member of a type of authorization details.
var DetailMember = Block{
	Head: "member <name>", Open: "member amount.currency", Bare: true,
	Text: "A member of the requests of a type; a point stands in front of a member of a member.",
	Options: []Option{
		{Word: "label", Arguments: "[<language>] <text>", Repeats: true, Default: "the name", Text: "What the consent page calls it. The text stands in quotes.", Example: `label "Currency"`},
		{Word: "kind", Arguments: "text|number|boolean", Default: "`text`", Text: "What it is. It can also be a list of these.", Example: "kind text"},
		{Word: "values", Arguments: "<value>…", Default: "any", Text: "The values that it can have.", Example: "values EUR USD"},
	},
}

// Outbound is about requests of the server.
var Outbound = Block{
	Head: "outbound",
	Text: "Addresses that stand in the Caddyfile are connected to as written. All others, such as those of the configuration API, of metadata and of clients, must be public ones.",
	Options: []Option{{
		Word: "allow", Arguments: "<network>…", Text: "Networks that such addresses can be in, in addition to public ones. A network is written with its first address.", Example: "allow 10.0.0.0/8 fd00::/8",
	}},
}

// Events is about what happens to events.
var Events = Block{
	Head: "events",
	Text: "The record of what people, operators and applications did. [events.md](events.md) lists every type.",
	Options: []Option{
		{Word: "retention", Arguments: "<duration>", Default: "for ever", Text: "How long events are kept, except those of `token_retention`.", Example: "retention 400d"},
		{
			Word: "token_retention", Arguments: "<duration>|forever", Default: "`90d`, or `retention` where that is shorter", Example: "token_retention 30d",
			Text: "How long events are kept about tokens that clients get for themselves, and about clients that could not authenticate.",
		},
		{Word: "webhook", Arguments: "<url>", Repeats: true, Text: "A receiver of each event that is about a person or the configuration. Several receivers have a block each.", Blocks: []*Block{&EventWebhook}},
	},
}

// EventWebhook is a receiver of events.
var EventWebhook = Block{
	Head: "webhook <url>", Open: "webhook https://siem.example.com/gatehouse",
	Text:  "A POST of JSON for each event, signed as [Standard Webhooks](https://www.standardwebhooks.com) says, and repeated until the receiver answers with 2xx.",
	Needs: "secret {env.EVENTS_SECRET}",
	Options: []Option{{
		Word: "secret", Arguments: "<secret>", Default: "required", Text: "The key of the signature: at least 32 characters, taken as they are, or `whsec_` and the key in Base64.", Example: "secret {env.EVENTS_SECRET}",
	}},
}
