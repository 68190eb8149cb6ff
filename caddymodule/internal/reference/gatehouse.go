package reference

// Gatehouse is the global option.
var Gatehouse = Block{
	Head:  "gatehouse",
	Text:  "The authorization server and the identity service of this Caddy. The block is one of the global options.",
	Needs: "issuer https://auth.example.com",
	Options: []Option{
		{
			Word: "issuer", Arguments: "<url>", Default: "required",
			Text:    "The address of every endpoint and page: scheme and host, without a path. A site with the directive `gatehouse` must serve it. http is for loopback hosts only.",
			Example: "issuer https://auth.example.com",
		},
		{
			Word: "storage", Arguments: "<module> …", Default: "`badger` in Caddy's data directory",
			Text:   "The storage of everything that changes while the server runs.",
			Blocks: []*Block{&Badger, &Postgres},
		},
		{
			Word: "encryption_key", Arguments: "<key> [<older key>…]",
			Default: "a key that is made once and kept next to the storage directory (`<directory>.key`, mode 0600)",
			Text:    "Keys of 32 bytes in Base64 that seal private keys and other secrets at rest: the first one seals, all of them open. A backup contains none of them. `openssl rand -base64 32` makes one.",
			Example: "encryption_key {env.GATEHOUSE_KEY}",
		},
		{
			Word: "scope", Arguments: "<name>", Repeats: true,
			Text: "The requirements of a scope. A scope without a block only needs to be named by clients.", Blocks: []*Block{&Scope},
		},
		{
			Word: "authorization_details", Arguments: "<type>", Repeats: true, Blocks: []*Block{&DetailType},
			Text: "A type of authorization details (RFC 9396), by which clients ask for more than scopes can express.",
		},
		{
			Word: "client", Arguments: "<id>", Repeats: true,
			Text: "An application that gets tokens. `caddy gatehouse client add` adds more without a reload.", Blocks: []*Block{&Client},
		},
		{Word: "api_client", Arguments: "<id>", Repeats: true, Text: "Credentials for the HTTP APIs.", Blocks: []*Block{&APIClient}},
		{
			Word: "client_metadata_documents", Arguments: "[on|off]", Default: "on if a site has [`mcp`](#protect-mcp)",
			Blocks: []*Block{&Documents},
			Text:   "Clients that no one has registered.",
		},
		{
			Word: "trust_issuer", Arguments: "<url>", Repeats: true, Text: "A build server or a cluster whose jobs get tokens without a secret.",
			Blocks: []*Block{&TrustedIssuer},
		},
		{
			Word: "registration", Arguments: "open|token", Default: "off", Blocks: []*Block{&Registration},
			Text: "Clients that register themselves.",
		},
		{Word: "policy", Arguments: "<name>", Repeats: true, Text: "Rules that sites share.", Blocks: []*Block{&Policy}},
		{
			Word: "plan", Arguments: "<name>", Repeats: true, Text: "Limits and quotas that clients and people have at several sites together.",
			Blocks: []*Block{&Plan},
		},
		{Word: "group", Arguments: "<name>", Repeats: true, Text: "The plan of the people in a group.", Blocks: []*Block{&Group}},
		{Word: "forward_auth", Arguments: "<name>", Repeats: true, Text: "A site that another proxy serves.", Blocks: []*Block{&ForwardAuth}},
		{
			Word: "forward_auth_any", Arguments: "on|off", Default: "off: a question about another origin is refused",
			Example: "forward_auth_any on",
			Text:    "Origins that no `forward_auth` names have a gate too: a bearer token of this issuer passes there if an operator has registered its client and it is meant for no other resource.",
		},
		{
			Word: "forward_auth_from", Arguments: "<network>…", Default: "Caddy's `trusted_proxies`", Example: "forward_auth_from 10.0.0.0/8",
			Text: "The networks of the proxies that may ask about requests. Others are refused. A network that includes strangers, such as `0.0.0.0/0`, is an error.",
		},
		{
			Word: "forward_auth_secret", Arguments: "<secret>", Default: "the address alone decides",
			Example: "forward_auth_secret {env.GATEWAY_SECRET}",
			Text:    "Proxies at any address may ask if they send this secret in the header `Gatehouse-Secret`. This is for networks without fixed addresses.",
		},
		{
			Word: "ext_authz", Arguments: "<address>", Default: "none", Text: "A listener for Envoy's external authorization over gRPC.",
			Blocks: []*Block{&ExtAuthz},
		},
		{
			Word: "idp", Arguments: "<id> <module>", Repeats: true,
			Text:   "An identity provider where people sign in. The id has letters, digits, dots, `-` and `_`, appears in addresses, and is used in `idps` of a client.",
			Blocks: []*Block{&SAML, &OIDC, &Google, &Microsoft, &AzureADB2C, &Apple, &Itsme, &OAuth2Preset, &OAuth2, &LDAP, &Kerberos, &HeaderIDP},
		},
		{
			Word: "service_provider", Arguments: "<id>", Repeats: true, Text: "An application that signs people in by SAML.",
			Blocks: []*Block{&ServiceProvider},
		},
		{
			Word: "saml_sign", Arguments: "<key pair>…", Default: "Gatehouse's own", Example: "saml_sign saml-2027 saml-2026",
			Text: "Key pairs of the [configuration API](configuration.md) that sign for service providers: the first one that can be used signs, and all are in the metadata at `/sso/metadata`. One that is missing is a finding.",
		},
		{Word: "identity", Text: "The people, how they sign in, and how the pages look.", Blocks: []*Block{&Identity}},
		{Word: "events", Text: "How long events are kept, and where they are sent.", Blocks: []*Block{&Events}},
		{
			Word: "par", Arguments: "required", Default: "not required",
			Text:    "Every client must push its authorization requests. See [pushed requests](decisions/authorization.md#pushed-requests).",
			Example: "par required",
		},
		{
			Word: "client_cert_header", Arguments: "<name>", Default: "the TLS connection alone counts", Example: "client_cert_header Client-Cert",
			Text: "The header in which Caddy's `trusted_proxies` name the certificate of the client (RFC 9440). From everybody else it is ignored, and sites with `protect` remove it. See [certificates.md](certificates.md).",
		},
		{
			Word: "client_ca", Arguments: "<file>…", Default: "none", Example: "client_ca /etc/gatehouse/clients.pem",
			Text: "Files with the authorities of clients' certificates (PEM), for certificates that Caddy does not verify itself: those of `client_cert_header`, and of sites with `client_auth { mode request }`.",
		},
		{
			Word: "mtls_endpoint_aliases", Arguments: "<origin>", Default: "the issuer",
			Example: "mtls_endpoint_aliases https://mtls.auth.example.com",
			Text:    "The origin at which clients with a certificate find the endpoints, so browsers at the issuer are not asked for one. A site with `gatehouse` and `client_auth` must serve it.",
		},
		{
			Word: "shared_signals", Arguments: "named|all", Default: "none", Example: "shared_signals named",
			Text: "Receivers (clients with the scope `ssf.manage`) get an event at once when a person is signed out, an account is disabled or a credential changes: for the subjects that they have added, or for all people. See [shared signals](shared-signals.md).",
		},
		{Word: "outbound", Text: "The addresses that the server may connect to.", Blocks: []*Block{&Outbound}},
		{
			Word: "mail", Arguments: "<module> …",
			Text: "The delivery of e-mails. Without it people get none, and nothing that needs e-mail is offered.", Blocks: []*Block{&SMTP},
		},
		{
			Word: "sms", Arguments: "<module> …",
			Text: "The delivery of text messages. They are sent while `identity` has [`sms on`](#identity).", Blocks: []*Block{&SMSWebhook},
		},
		{Word: "push", Arguments: "<module> …", Text: "The delivery of prompts to people's phones.", Blocks: []*Block{&PushWebhook}},
	},
}
