package reference

// signatures are the algorithms that the issuer signs with.
const signatures = "RS256|ES256|EdDSA|ML-DSA-44|ML-DSA-65|ML-DSA-87"

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
			Word: "secret", Arguments: "<secret>", Repeats: true,
			Default: "required, unless there is a `secret_hash`, `public`, or an `auth_method` without a secret",
			Example: "secret {env.SHOP_SECRET}",
			Text:    "A secret of at least 32 characters; `caddy gatehouse secret` prints one. Twice while it is rotated: both are valid.",
		},
		{
			Word: "secret_hash", Arguments: "<PHC string>", Repeats: true, Text: "A secret as an Argon2id or bcrypt hash, in place of `secret`.",
			Example: "secret_hash $argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$wYxzbMNMhf9rHdLOaa6kjRS2Nw/9EXmeQwhgYoYD2gU",
		},
		{
			Word: "auth_method", Arguments: "basic|post|private_key_jwt|self_signed_tls_client_auth|workload|tls_client_auth [<kind> <name>]",
			Default: "`post`", Example: "auth_method basic",
			Text: "How the client authenticates. `post`: with its secret in the form, or as Basic credentials. `basic`: not in the form. The others go without a secret. `private_key_jwt`: with a key of `jwks`. " +
				"`self_signed_tls_client_auth`: with a certificate of `jwks`. `tls_client_auth`: with a certificate of an authority that has this name; the kind is `subject_dn`, `san_dns`, `san_uri`, `san_ip` or `san_email`, " +
				"such as `tls_client_auth san_dns robot.example.com`. `workload`: by the tokens of a [`trust_issuer`](#trust_issuer). [certificates.md](certificates.md) says more.",
		},
		{
			Word: "jwks", Arguments: "<file or url>",
			Text:    "The public keys of the client, a JSON Web Key Set, for `private_key_jwt`, `self_signed_tls_client_auth` (certificates: `x5c`), signed requests and encryption. A file is read when the configuration is loaded, a URL when it is needed.",
			Example: "auth_method private_key_jwt\njwks https://shop.example.com/jwks.json\nredirect_uris https://shop.example.com/callback\ngrants authorization_code\nscopes openid", Instead: "-",
		},
		{
			Word: "redirect_uris", Arguments: "<uri>…", Default: "required for `authorization_code`, `implicit` and `id_token`",
			Example: "redirect_uris https://shop.example.com/callback",
			Text:    "Where the browser can be sent after a sign-in. They are compared exactly, except for the port of a loopback host if the client is public or `native`.",
		},
		{
			Word: "post_logout_redirect_uris", Arguments: "<uri>…", Example: "post_logout_redirect_uris https://shop.example.com/",
			Text: "Where the browser can be sent after a sign-out. They are compared exactly, except that `https://shop.example.com` and `https://shop.example.com/` are the same.",
		},
		{
			Word: "backchannel_logout_uri", Arguments: "<uri>",
			Text:    "Where a logout token is posted to when a session that the client knows has ended.",
			Example: "backchannel_logout_uri https://shop.example.com/backchannel-logout",
		},
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
		{
			Word: "default_scopes", Arguments: "<scope>…", Default: "the only one of a client with one scope",
			Text: "The scopes that it gets when it asks for none. Each is among `scopes`.", Example: "default_scopes openid",
		},
		{
			Word: "authorization_details_types", Arguments: "<type>…", Default: "none", Example: "authorization_details_types account_information",
			Around: "authorization_details account_information {\n\tactions list_accounts read_balances\n}",
			Text:   "The types of [`authorization_details`](#authorization_details) that it can ask for.",
		},
		{
			Word: "idps", Arguments: "<id>…", Default: "`identity`", Example: "idps corp identity",
			Around: "idp corp oidc {\n\tissuer https://login.corp.example\n\tclient_id gatehouse\n\tclient_secret {env.CORP_SECRET}\n}",
			Text:   "The identity providers that it can use, the default first: the ids of `idp` blocks, and `identity` for the accounts of Gatehouse itself.",
		},
		{
			Word: "groups", Arguments: "<group>…", Default: "everybody can use it", Example: "groups staff",
			Text: "The groups of which a person must be in one to use the client. Anyone else gets a page instead of a code, and tokens of someone who leaves the groups are no longer valid. The client’s own tokens are of no person and need no group.",
		},
		{
			Word: "consent", Arguments: "on|off|always", Default: "`on`",
			Text:    "Whether people are asked before the client gets anything: `on` once for each scope, `always` at every sign-in.",
			Example: "consent off",
		},
		{
			Word: "pkce", Arguments: "required", Default: "required of public clients only", Text: "A client with a secret must use PKCE, too.",
			Example: "pkce required",
		},
		{
			Word: "par", Arguments: "required", Default: "not required",
			Text:    "The client must push its authorization requests. See [pushed requests](decisions/authorization.md#pushed-requests).",
			Example: "par required",
		},
		{
			Word: "fapi2", Text: "The FAPI 2.0 Security Profile holds for the client. It pushes its authorization requests with PKCE; its access tokens are bound to its certificate (`mtls`) or to a key (`dpop`), " +
				"by default to what it authenticates with; its refresh tokens are not replaced; RS256 is refused. See [FAPI 2.0](decisions/client-authentication.md#fapi-20).",
			Example: "fapi2\nauth_method private_key_jwt\njwks https://shop.example.com/jwks.json\nredirect_uris https://shop.example.com/callback\ngrants authorization_code\nscopes openid", Instead: "-",
		},
		{
			Word: "mtls", Arguments: "required", Default: "not required",
			Text: "The access tokens of the client are bound to the certificate of its connection: token requests without one are refused, and a token opens nothing to anybody else. See [certificates.md](certificates.md#tokens-that-are-bound-to-the-certificate).", Example: "mtls required",
		},
		{
			Word: "dpop", Arguments: "required", Default: "not required",
			Text: "The access tokens of the client are bound to a key of its own: it must send a DPoP proof with each token request. See [DPoP](decisions/token-endpoint.md#dpop).", Example: "dpop required",
		},
		{
			Word: "request_object", Arguments: "required", Default: "not required",
			Text:    "The client must sign its authorization requests by a key of `jwks`. See [signed requests](decisions/authorization.md#signed-requests).",
			Example: "request_object required\njwks https://shop.example.com/jwks.json",
		},
		{
			Word: "request_object_alg", Arguments: "RS256|PS256|ES256|EdDSA", Default: "any of them",
			Text:    "The only signature of its authorization requests. It allows signed requests to a client with a secret.",
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
		{
			Word: "id_token_alg", Arguments: signatures, Default: "`RS256`", Example: "id_token_alg ES256",
			Text: "The signature of its ID tokens. For `ML-DSA-…` see [post-quantum signatures](post-quantum.md).",
		},
		{
			Word: "token_alg", Arguments: signatures, Default: "that of its ID tokens if it is given and not `ML-DSA-…`, otherwise `ES256`",
			Text:    "The signature of its access tokens with `token_format jwt`. One by `ML-DSA-…` makes a token of 4 to 8 KiB: see [size](post-quantum.md#size).",
			Example: "token_format jwt\ntoken_alg ML-DSA-44",
		},
		{
			Word: "id_token_encryption", Arguments: "<algorithm> [<content>]", Default: "not encrypted",
			Example: "id_token_encryption ECDH-ES\njwks https://shop.example.com/jwks.json",
			Text:    "Its ID tokens are encrypted for a key of `jwks`: by `RSA-OAEP-256`, `ECDH-ES` or `ECDH-ES+A256KW`, the content by `A256GCM` (default) or `A128CBC-HS256`. See [encryption](decisions/keys.md#encrypted-id-tokens).",
		},
		{
			Word: "userinfo_alg", Arguments: signatures, Default: "not signed",
			Text: "The signature of what the userinfo endpoint answers it, as a JWT.", Example: "userinfo_alg ES256",
		},
		{
			Word: "userinfo_encryption", Arguments: "<algorithm> [<content>]", Default: "not encrypted",
			Text:    "That JWT is encrypted, like `id_token_encryption`.",
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
		{
			Word: "token_format", Arguments: "opaque|jwt", Default: "`opaque`",
			Text: "The form of its access tokens. `jwt` is that of RFC 9068. It is signed with `token_alg`, and lives for a day at most.", Example: "token_format jwt",
		},
		{
			Word: "subject_type", Arguments: "public|pairwise", Default: "`public`", Example: "subject_type pairwise",
			Text: "The identifier by which the client knows a person (`sub`): the same for all clients, or another one for each host of redirect URIs.",
		},
		{
			Word: "app", Arguments: "<identifier> <platform> <version>", Example: "app com.example.shop android 4.2.0",
			Text: "The mobile app that the client is an instance of. Introspection returns it.",
		},
		{
			Word: "audiences", Arguments: "<uri>…", Default: "the sites with [`mcp`](#protect-mcp)",
			Text: "The resources (RFC 8707) that it can ask tokens for.", Example: "audiences https://api.example.com",
		},
		{
			Word: "exchange", Text: "Which tokens the client can exchange for others (RFC 8693), with the grant `token_exchange`.",
			Blocks: []*Block{&Exchange},
		},
		{
			Word: "origins", Arguments: "<origin>…", Default: "those of its redirect URIs",
			Text: "Further origins of web pages whose scripts can call the token endpoint.", Example: "origins https://www.example.com",
		},
		{
			Word: "plan", Arguments: "<name>", Default: "that of the person's groups, or the default plan", Example: "plan gold",
			Text:   "The [plan](#plan) of the client, which counts all of its requests, for whichever person.",
			Around: "plan gold {\n\tlimit 1000/min\n}",
		},
		{
			Word: "contact", Arguments: "<address>", Default: "no one is told", Example: "contact ann@example.com",
			Text: "The e-mail address of the owner of the client, who is told when 80 and 100 percent of a [quota](limits.md#events) are used. It needs `mail`.",
		},
		{
			Word: "max_sessions", Arguments: "<number>", Default: "`25`",
			Text: "How many sign-ins of one person the client can hold at once: 1 to 1000. The oldest gives way.", Example: "max_sessions 5",
		},
		{Word: "disabled", Text: "The client is switched off: nothing of it is valid.", Example: "disabled"},
		{
			Word: "logo", Arguments: "<file>", Text: "A PNG, JPEG or GIF picture of at most 64 KiB, shown where people sign in and consent.",
			Example: "logo /etc/gatehouse/logo.png",
		},
		{Word: "lifetimes", Text: "How long what it gets is valid.", Blocks: []*Block{&Lifetimes}},
	},
}
