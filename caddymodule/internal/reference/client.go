package reference

// Documents are clients with a metadata document.
var Documents = Block{
	Head: "client_metadata_documents", Bare: true,
	Text: "Clients whose id is the https address of a document that describes them (draft-ietf-oauth-client-id-metadata-document), as those of MCP have. " +
		"They are public or have keys, can ask for `openid`, `profile`, `email` and the scopes of sites with `mcp`, and people are always asked. " +
		"The document must be at a public address, or in a network of `outbound`.",
	Sample: "trust claude.ai",
	Options: []Option{
		{Word: "trust", Arguments: "<host>…", Default: "none", Text: "Hosts of documents, and `*.example.com` for those below, whose clients people see without the note that nobody has verified them.", Example: "trust claude.ai vscode.dev"},
		{Word: "max_size", Arguments: "<size>", Default: "`64KiB`", Text: "The largest document that is read, from 5KiB to 1MiB.", Example: "max_size 32KiB"},
		{Word: "timeout", Arguments: "<duration>", Default: "`5s`", Text: "How long its host has to answer, at most 5 seconds.", Example: "timeout 2s"},
		{Word: "cache", Arguments: "<shortest> <longest>", Default: "`1h 24h`", Text: "The times between which a document is fetched again. In between, its own `Cache-Control` or `Expires` counts.", Example: "cache 1h 12h"},
		{Word: "clients", Arguments: "<number>", Default: "`1000`", Text: "How many documents are remembered.", Example: "clients 200"},
		{
			Word: "schemes", Arguments: "<scheme>…", Default: "`cursor`", Text: "Private schemes of their redirect URIs, besides those that are a domain name turned round, such as `com.example.app`.", Example: "schemes cursor windsurf",
		},
	},
}

// Registration is how clients register themselves.
var Registration = Block{
	Head: "registration", Open: "registration open", Bare: true,
	Text: "Clients that register themselves at `/oauth/register` (RFC 7591). They can do what clients with a metadata document can do: " +
		"sign people in, with the scopes `openid`, `profile`, `email` and those of sites with `mcp`, and people are always asked. " +
		"`token` lets those register who have an access token with the scope `client.register`, such as one of `caddy gatehouse token issue`.",
	Sample: "redirect_hosts claude.ai",
	Options: []Option{
		{
			Word: "redirect_hosts", Arguments: "<host>…", Default: "all", Example: "redirect_hosts claude.ai *.cursor.com",
			Text: "The hosts of their https redirect URIs, and `*.example.com` for those below. Redirect URIs of this machine and of applications are always allowed.",
		},
		{
			Word: "schemes", Arguments: "<scheme>…", Default: "`cursor`", Text: "Private schemes of their redirect URIs, besides those that are a domain name turned round, such as `com.example.app`.", Example: "schemes cursor windsurf",
		},
		{
			Word: "expires", Arguments: "<duration>", Default: "`30d`", Example: "expires 7d",
			Text: "A client is removed when nobody has used it for this long: counted from its registration, or from when the tokens of the last sign-in have ended.",
		},
		{Word: "limit", Arguments: "<number>/m|h|d", Default: "`10/h`", Text: "How many clients one IPv4 address or IPv6 /64 network can register in a minute, an hour or a day.", Example: "limit 20/h"},
		{Word: "clients", Arguments: "<number>", Default: "`1000`", Text: "How many such clients there can be.", Example: "clients 200"},
		{Word: "management", Text: "A client can read, change and remove its registration with a token that it gets (RFC 7592), until an operator changes it.", Example: "management"},
	},
}

// Client is an OAuth client.
var Client = Block{
	Head: "client <id>", Open: "client shop",
	Text: "An application that signs people in, or a program that gets tokens for itself, by OAuth 2.0 and OpenID Connect. The id is its `client_id`.",
	Needs: `secret {env.SHOP_SECRET}
redirect_uris https://shop.example.com/callback
grants authorization_code refresh_token
scopes openid profile email`,
	Options: []Option{
		{Word: "name", Arguments: "<text>", Default: "the id", Text: "The name that people see.", Example: "name The shop"},
		{
			Word: "public", Text: "The client cannot keep a secret: a single-page or mobile application. It has no secret and must use PKCE.",
			Example: "public\nredirect_uris https://spa.example.com/\ngrants authorization_code\nscopes openid", Instead: "-",
		},
		{
			Word: "native", Text: "An application on people's devices, with a secret or without. Its redirect URIs at `localhost`, `127.0.0.1` and `[::1]` hold for every port, as those of public clients do, and can have a private scheme of any form, such as `cursor`.",
			Example: "native",
		},
		{
			Word: "secret", Arguments: "<secret>", Repeats: true, Default: "required, unless there is a `secret_hash`, `public`, or an `auth_method` without a secret", Example: "secret {env.SHOP_SECRET}",
			Text: "A secret of at least 32 characters; `caddy gatehouse secret` prints one. Twice while it is rotated: both are valid.",
		},
		{
			Word: "secret_hash", Arguments: "<PHC string>", Repeats: true, Text: "A secret as an Argon2id or bcrypt hash, in place of `secret`.",
			Example: "secret_hash $argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$wYxzbMNMhf9rHdLOaa6kjRS2Nw/9EXmeQwhgYoYD2gU",
		},
		{
			Word: "auth_method", Arguments: "basic|post|private_key_jwt|self_signed_tls_client_auth|workload|tls_client_auth [<kind> <name>]", Default: "`post`", Example: "auth_method basic",
			Text: "How the client authenticates. `post`: with its secret in the form, or as Basic credentials. `basic`: not in the form. The others go without a secret. `private_key_jwt`: with a key of `jwks`. " +
				"`self_signed_tls_client_auth`: with a certificate of `jwks`. `tls_client_auth`: with a certificate of an authority that has this name; the kind is `subject_dn`, `san_dns`, `san_uri`, `san_ip` or `san_email`, " +
				"such as `tls_client_auth san_dns robot.example.com`. `workload`: by the tokens of a [`trust_issuer`](#trust_issuer). [certificates.md](certificates.md) says more.",
		},
		{
			Word: "jwks", Arguments: "<file or url>", Text: "The public keys of the client, a JSON Web Key Set, for `private_key_jwt`, `self_signed_tls_client_auth` (certificates: `x5c`), signed requests and encryption. A file is read when the configuration is loaded, a URL when it is needed.",
			Example: "auth_method private_key_jwt\njwks https://shop.example.com/jwks.json\nredirect_uris https://shop.example.com/callback\ngrants authorization_code\nscopes openid", Instead: "-",
		},
		{
			Word: "redirect_uris", Arguments: "<uri>…", Default: "required for `authorization_code`, `implicit` and `id_token`", Example: "redirect_uris https://shop.example.com/callback",
			Text: "Where the browser can be sent after a sign-in. They are compared exactly; only a public client can add a port at a loopback host.",
		},
		{
			Word: "post_logout_redirect_uris", Arguments: "<uri>…", Example: "post_logout_redirect_uris https://shop.example.com/",
			Text: "Where the browser can be sent after a sign-out. They are compared exactly, except that `https://shop.example.com` and `https://shop.example.com/` are the same.",
		},
		{Word: "backchannel_logout_uri", Arguments: "<uri>", Text: "Where a logout token is posted to when a session that the client knows has ended.", Example: "backchannel_logout_uri https://shop.example.com/backchannel-logout"},
		{
			Word: "frontchannel_logout_uri", Arguments: "<uri>", Example: "frontchannel_logout_uri https://shop.example.com/frontchannel-logout",
			Text: "What the page after a sign-out loads in a frame. Scheme, host and port are those of a redirect URI.",
		},
		{
			Word: "initiate_login_uri", Arguments: "<uri>", Example: "initiate_login_uri https://shop.example.com/login",
			Text: "Where a sign-in at the application begins (OpenID Connect Core 4). People open the application from the applications on their account page by it. Scheme, host and port are those of a redirect URI.",
		},
		{
			Word: "grants", Arguments: "<grant>…", Default: "required", Example: "grants authorization_code refresh_token",
			Text: "What the client may do: `authorization_code`, `refresh_token`, `client_credentials`, `device_code` (televisions and programs without a browser, [device grant](decisions/token-endpoint.md#device-grant)), `jwt_bearer` ([workloads](decisions/client-authentication.md#workloads)), `token_exchange` ([tokens for tokens](decisions/token-endpoint.md#token-exchange)), `id_token` (sign-in by an ID token alone), and the deprecated `implicit`, `password` and `validate_bearer`.",
		},
		{Word: "scopes", Arguments: "<scope>…", Text: "The scopes that it can ask for.", Example: "scopes openid profile orders.read"},
		{Word: "default_scopes", Arguments: "<scope>…", Default: "the only one of a client with one scope", Text: "The scopes that it gets when it asks for none. Each is among `scopes`.", Example: "default_scopes openid"},
		{
			Word: "authorization_details_types", Arguments: "<type>…", Default: "none", Example: "authorization_details_types account_information",
			Beside: "authorization_details account_information {\n\tactions list_accounts read_balances\n}",
			Text:   "The types of [`authorization_details`](#authorization_details) that it can ask for.",
		},
		{
			Word: "idps", Arguments: "<id>…", Default: "`identity`", Example: "idps corp identity",
			Beside: "idp corp oidc {\n\tissuer https://login.corp.example\n\tclient_id gatehouse\n\tclient_secret {env.CORP_SECRET}\n}",
			Text:   "The identity providers that it can use, the default first: the ids of `idp` blocks, and `identity` for the accounts of Gatehouse itself.",
		},
		{Word: "consent", Arguments: "on|off|always", Default: "`on`", Text: "Whether people are asked before the client gets anything: `on` once for each scope, `always` at every sign-in.", Example: "consent off"},
		{Word: "pkce", Arguments: "required", Default: "required of public clients only", Text: "A client with a secret must use PKCE, too.", Example: "pkce required"},
		{Word: "par", Arguments: "required", Default: "not required", Text: "The client must push its authorization requests. See [pushed requests](decisions/authorization.md#pushed-requests).", Example: "par required"},
		{
			Word: "fapi2", Text: "The FAPI 2.0 Security Profile holds for the client. It pushes its authorization requests with PKCE; its access tokens are bound to its certificate (`mtls`) or to a key (`dpop`), " +
				"by default to what it authenticates with; its refresh tokens are not replaced; RS256 is refused. See [FAPI 2.0](decisions/client-authentication.md#fapi-20).",
			Example: "fapi2\nauth_method private_key_jwt\njwks https://shop.example.com/jwks.json\nredirect_uris https://shop.example.com/callback\ngrants authorization_code\nscopes openid", Instead: "-",
		},
		{Word: "mtls", Arguments: "required", Default: "not required", Text: "The access tokens of the client are bound to the certificate of its connection: token requests without one are refused, and a token opens nothing to anybody else. See [certificates.md](certificates.md#tokens-that-are-bound-to-the-certificate).", Example: "mtls required"},
		{Word: "dpop", Arguments: "required", Default: "not required", Text: "The access tokens of the client are bound to a key of its own: it must send a DPoP proof with each token request. See [DPoP](decisions/token-endpoint.md#dpop).", Example: "dpop required"},
		{
			Word: "request_object", Arguments: "required", Default: "not required", Text: "The client must sign its authorization requests by a key of `jwks`. See [signed requests](decisions/authorization.md#signed-requests).",
			Example: "request_object required\njwks https://shop.example.com/jwks.json",
		},
		{
			Word: "request_object_alg", Arguments: "RS256|PS256|ES256|EdDSA", Default: "any of them", Text: "The only signature of its authorization requests. It allows signed requests to a client with a secret.",
			Example: "request_object_alg ES256\njwks https://shop.example.com/jwks.json",
		},
		{
			Word: "password_only", Default: "refused", Text: "The grant `password` signs in people who have a second factor without asking for it.",
			Example: "password_only\nsecret {env.SHOP_SECRET}\ngrants password\nscopes profile", Instead: "-",
		},
		{
			Word: "second_factor", Arguments: "when_set_up|always|on_demand", Default: "as the settings say", Example: "second_factor always",
			Text: "When its sign-ins need a second step. See [second step](decisions/step-up.md#second-step).",
		},
		{Word: "id_token_alg", Arguments: "RS256|ES256|EdDSA", Default: "`RS256`", Text: "The signature of its ID tokens.", Example: "id_token_alg ES256"},
		{
			Word: "id_token_encryption", Arguments: "<algorithm> [<content>]", Default: "not encrypted", Example: "id_token_encryption ECDH-ES\njwks https://shop.example.com/jwks.json",
			Text: "Its ID tokens are encrypted for a key of `jwks`: by `RSA-OAEP-256`, `ECDH-ES` or `ECDH-ES+A256KW`, the content by `A256GCM` (default) or `A128CBC-HS256`. See [encryption](decisions/keys.md#encrypted-id-tokens).",
		},
		{Word: "userinfo_alg", Arguments: "RS256|ES256|EdDSA", Default: "not signed", Text: "The signature of what the userinfo endpoint answers it, as a JWT.", Example: "userinfo_alg ES256"},
		{
			Word: "userinfo_encryption", Arguments: "<algorithm> [<content>]", Default: "not encrypted", Text: "That JWT is encrypted, like `id_token_encryption`.",
			Example: "userinfo_encryption RSA-OAEP-256 A128CBC-HS256\nuserinfo_alg RS256\njwks https://shop.example.com/jwks.json",
		},
		{
			Word: "authorization_response_alg", Arguments: "RS256|ES256|EdDSA", Default: "`RS256`", Example: "authorization_response_alg ES256",
			Text: "The signature of its authorization responses, where it asks for signed ones (`response_mode=jwt`).",
		},
		{
			Word: "id_token_claims", Arguments: "on|off", Default: "`off`", Example: "id_token_claims on",
			Text: "The claims of the scopes, such as name and groups, are in the ID token, too, for libraries that do not ask the userinfo endpoint.",
		},
		{Word: "token_format", Arguments: "opaque|jwt", Default: "`opaque`", Text: "The form of its access tokens. `jwt` is that of RFC 9068. It is signed with `id_token_alg` if that is given, otherwise with ES256, and lives for a day at most.", Example: "token_format jwt"},
		{
			Word: "subject_type", Arguments: "public|pairwise", Default: "`public`", Example: "subject_type pairwise",
			Text: "The identifier by which the client knows a person (`sub`): the same for all clients, or another one for each host of redirect URIs.",
		},
		{
			Word: "app", Arguments: "<identifier> <platform> <version>", Example: "app com.example.shop android 4.2.0",
			Text: "The mobile app that the client is an instance of. Introspection returns it.",
		},
		{Word: "audiences", Arguments: "<uri>…", Default: "the sites with [`mcp`](#protect-mcp)", Text: "The resources (RFC 8707) that it can ask tokens for.", Example: "audiences https://api.example.com"},
		{Word: "exchange", Text: "Which tokens the client can exchange for others (RFC 8693), with the grant `token_exchange`.", Blocks: []*Block{&Exchange}},
		{Word: "origins", Arguments: "<origin>…", Default: "those of its redirect URIs", Text: "Further origins of web pages whose scripts can call the token endpoint.", Example: "origins https://www.example.com"},
		{Word: "max_sessions", Arguments: "<number>", Default: "`25`", Text: "How many sign-ins of one person the client can hold at once: 1 to 1000. The oldest gives way.", Example: "max_sessions 5"},
		{Word: "disabled", Text: "The client is switched off: nothing of it is valid.", Example: "disabled"},
		{Word: "logo", Arguments: "<file>", Text: "A PNG, JPEG or GIF picture of at most 64 KiB, shown where people sign in and consent.", Example: "logo /etc/gatehouse/logo.png"},
		{Word: "lifetimes", Text: "How long what it gets is valid.", Blocks: []*Block{&Lifetimes}},
	},
}

// Exchange says which tokens a client can exchange.
var Exchange = Block{
	Head: "exchange", Text: "An API that calls another one exchanges the token that it was sent for one that is meant for the other, in the name of the same person and with the same scopes at most. " +
		"See [token exchange](decisions/token-endpoint.md#token-exchange).",
	Needs: "to https://stock.example.com",
	Options: []Option{
		{Word: "from", Arguments: "<client>…", Default: "the client alone", Text: "The clients whose tokens it can exchange, besides its own.", Example: "from web mobile"},
		{Word: "to", Arguments: "<audience>…", Default: "required, unless there is `id_jag`", Text: "The audiences of the tokens that it gets: resources, or names that the other API knows itself by.", Example: "to https://stock.example.com", Instead: "-"},
		{
			Word: "id_jag", Arguments: "<issuer> <client> [<scope>…]", Repeats: true, Default: "none", Example: "id_jag https://auth.chat.example wiki-at-chat chat.read", Instead: "-",
			Text: "An authorization server elsewhere for which the client gets identity assertions (ID-JAG): its issuer, the id of the client there, and the scopes that it can ask for there. See [identity assertions](decisions/token-endpoint.md#identity-assertions).",
		},
	},
}

// TrustedIssuer is an issuer elsewhere whose tokens stand for a client.
var TrustedIssuer = Block{
	Head: "trust_issuer <url>", Open: "trust_issuer https://token.actions.githubusercontent.com",
	Text: "A build server or a cluster that gives its jobs signed tokens: a job shows one in place of a secret and gets a token of a client. The client has `auth_method workload`. " +
		"An issuer can be there several times, once for each client. [workloads.md](workloads.md) has GitHub Actions and Kubernetes step by step.",
	Needs: "match sub repo:example/app:ref:refs/heads/main\nclient deploy",
	Options: []Option{
		{
			Word: "match", Arguments: "<claim> <pattern>…", Default: "required", Repeats: true, Example: "match sub repo:example/app:ref:refs/heads/main",
			Text: "A claim of the tokens and the values of which it has one. A `*` stands for any characters but a colon, at least one. Each `match` must fit.", Instead: "client deploy",
		},
		{Word: "client", Arguments: "<id>", Default: "required", Text: "The client that the tokens stand for.", Example: "client deploy", Instead: "match sub repo:example/app:ref:refs/heads/main"},
		{Word: "audience", Arguments: "<text>", Default: "the issuer of Gatehouse", Text: "The audience (`aud`) that the tokens must have, alone.", Example: "audience https://auth.example.com"},
		{Word: "scopes", Arguments: "<scope>…", Default: "those of the client", Text: "The most that the tokens get.", Example: "scopes deploy.write"},
		{
			Word: "jwks", Arguments: "<file or url>", Default: "what the metadata of the issuer name", Example: "jwks https://token.actions.githubusercontent.com/.well-known/jwks",
			Text: "The public keys of the issuer, a JSON Web Key Set, where its metadata cannot be read. A file is read when the configuration is loaded, a URL when it is needed.",
		},
		{
			Word: "id_jag", Arguments: "<idp>", Default: "its tokens stand for workloads", Instead: "client wiki", Example: "id_jag corp",
			Beside: "idp corp oidc {\n\tissuer https://login.corp.example\n\tclient_id gatehouse\n\tclient_secret {env.CORP_SECRET}\n}\n" +
				"client wiki {\n\tsecret {env.SHOP_SECRET}\n\tgrants jwt_bearer\n\tscopes wiki.read\n\tidps corp\n}",
			Text: "The issuer gives identity assertions (ID-JAG): the client, with credentials of its own, gets a token of the person who signs in by this `idp` with the identity that the assertion names. `match` is not needed. See [identity assertions](decisions/token-endpoint.md#identity-assertions).",
		},
		{Word: "reuse", Arguments: "on|off", Default: "`off`", Text: "`on`: a token can be shown until it is ten minutes old, in place of once. For clusters that give a pod the same token for minutes.", Example: "reuse on"},
	},
}

// Lifetimes are those of a client.
var Lifetimes = Block{
	Head: "lifetimes",
	Text: "How long codes and tokens of the client are valid.",
	Options: []Option{
		{Word: "code", Arguments: "<duration>", Default: "`30s`", Text: "An authorization code: 1s to 10m.", Example: "code 1m"},
		{Word: "access_token", Arguments: "<duration>", Default: "`15m`", Text: "An access token: 1s to 366d; with `token_format jwt` 24h at most.", Example: "access_token 5m"},
		{Word: "refresh_token", Arguments: "<duration>", Default: "`30d`", Text: "One refresh token. Each use replaces it.", Example: "refresh_token 7d"},
		{Word: "refresh_chain", Arguments: "<duration>", Default: "`90d`", Text: "All refresh tokens that follow from one sign-in.", Example: "refresh_chain 30d"},
		{Word: "refresh_grace", Arguments: "<duration>", Default: "`10s`", Text: "How long a used refresh token is answered with the same successor, for a client whose connection broke: 5m at most.", Example: "refresh_grace 30s"},
		{Word: "session", Arguments: "<duration>", Default: "any", Text: "The oldest sign-in that the client accepts; for an older one people sign in again.", Example: "session 12h"},
	},
}

// APIClient are credentials of the APIs.
var APIClient = Block{
	Head: "api_client <id>", Open: "api_client ops",
	Text:  "Basic credentials for the HTTP APIs. It is not an OAuth client.",
	Needs: "secret {env.OPS_SECRET}\napis introspection",
	Options: []Option{
		{
			Word: "secret", Arguments: "<secret>", Repeats: true, Default: "required, unless there is a `secret_hash`", Example: "secret {env.OPS_SECRET}",
			Text: "A secret of at least 32 characters; `caddy gatehouse secret` prints one. Twice while it is rotated: both are valid.",
		},
		{
			Word: "secret_hash", Arguments: "<PHC string>", Repeats: true, Text: "A secret as an Argon2id or bcrypt hash, in place of `secret`.",
			Example: "secret_hash $argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$wYxzbMNMhf9rHdLOaa6kjRS2Nw/9EXmeQwhgYoYD2gU",
		},
		{Word: "apis", Arguments: "<api>…", Default: "required", Text: "The APIs that it can use: `introspection`, `configuration`, `credentials`, `events`, `persons`, `policies`, `access` (requests for access), `access_decisions` (to decide about them), `statistics`, `storage` (small values for people), `sessions`, `assurance` and `administrators` (within `configuration`: login methods that [sign in administrators](decisions/console.md#settings-of-sign-in)).", Example: "apis introspection events"},
		{Word: "audiences", Arguments: "<uri>…", Default: "all", Text: "It introspects only tokens for these resources (RFC 8707).", Example: "audiences https://api.example.com"},
		{
			Word: "introspection_alg", Arguments: "RS256|ES256|EdDSA", Default: "`RS256`", Example: "introspection_alg ES256",
			Text: "The signature of introspection answers, where it asks for signed ones ([RFC 9701](decisions/introspection.md#introspection)).",
		},
		{
			Word: "partitions", Arguments: "<name>…", Default: "all", Text: "It reaches only people of these partitions. It needs `partitions` in `identity`.",
			Example: "partitions north\napis persons", Beside: "identity {\n\tpartitions north south\n}",
		},
		{
			Word: "tls_client_auth", Arguments: "<kind> <name>", Example: "tls_client_auth san_dns gateway.example.com\napis introspection", Instead: "-",
			Text: "At the introspection endpoint it authenticates by a certificate with this name, and sends `client_id` in the form. The kinds are those of `auth_method` of a client.",
		},
		{
			Word: "organisation", Arguments: "<id>|*", Default: "the one whose `username_for_basic_auth` it is, or was", Example: "organisation acme\napis configuration",
			Text: "The organisation that it belongs to: the configuration API shows it that one alone, and if there is no such organisation, it can do nothing. `*`: it belongs to none, whatever it belonged to before.",
		},
		{
			Word: "max_level", Arguments: "<1 to 4>", Default: "`2`", Text: "The highest authentication level of the LOGIN action tokens that it makes. It needs `persons` among `apis`.",
			Example: "max_level 3\napis persons",
		},
		{Word: "disabled", Text: "The credentials are switched off.", Example: "disabled"},
	},
}
