package reference

import "slices"

// OIDC is a provider of OpenID Connect.
var OIDC = Block{
	Head: "idp <id> oidc", Open: "idp corp oidc",
	Text:  "Sign-in at an OpenID provider. The redirect URI to register there is `/oidc/<id>/callback`. [openid-providers.md](openid-providers.md) is a guide.",
	Needs: "issuer https://login.corp.example\nclient_id gatehouse\nclient_secret {env.CORP_SECRET}",
	Options: slices.Concat([]Option{
		{
			Word: "issuer", Arguments: "<url>", Default: "required", Example: "issuer https://login.corp.example",
			Text: "The provider's issuer identifier, exactly as it writes it. Its metadata is below it, at `/.well-known/openid-configuration`.",
		},
		{Word: "client_id", Arguments: "<text>", Default: "required", Text: "What the provider calls Gatehouse.", Example: "client_id gatehouse"},
		{Word: "client_secret", Arguments: "<secret>", Text: "The secret there.", Example: "client_secret {env.CORP_SECRET}"},
		{
			Word: "auth_method", Arguments: "basic|post|private_key_jwt|none", Default: "`basic` with a secret, otherwise `none`",
			Example: "auth_method post",
			Text:    "How Gatehouse authenticates there. `client_secret_basic` and `client_secret_post` are other words for the first two.",
		},
		{
			Word: "key", Arguments: "<key pair>", Default: "Gatehouse's own",
			Text:    "The key pair of the [settings](configuration.md) that signs for `private_key_jwt`.",
			Example: "issuer https://login.corp.example\nclient_id gatehouse\nauth_method private_key_jwt\nkey corp-2026", Instead: "-",
		},
		{
			Word: "key_id", Arguments: "<text>", Default: "its thumbprint, as in Gatehouse's `jwks`",
			Text:    "The `kid` under which the provider knows that key.",
			Example: "issuer https://login.corp.example\nclient_id gatehouse\nauth_method private_key_jwt\nkey_id 7f3a", Instead: "-",
		},
		{
			Word: "decrypt", Arguments: "<key pair>…", Default: "`key`, if encryption is required; otherwise encrypted answers are refused",
			Example: "decrypt corp-2026",
			Text:    "Key pairs that decrypt ID tokens and user info.",
		},
		{
			Word: "scopes", Arguments: "<scope>…", Default: "`openid`", Text: "The scopes that are asked for; `openid` always is.",
			Example: "scopes openid email profile",
		},
		{
			Word: "claims", Arguments: "<JSON>", Text: "The `claims` parameter (OpenID Connect Core 5.5), a JSON object.",
			Example: "claims `{\"userinfo\":{\"email\":null}}`",
		},
		{
			Word: "response_mode", Arguments: "query|form_post", Default: "`query`", Text: "How the answer comes back.",
			Example: "response_mode form_post",
		},
		{
			Word: "audiences", Arguments: "<client id>…", Text: "Other audiences that an ID token can name besides Gatehouse.",
			Example: "audiences corp-mobile",
		},
		{
			Word: "map_level", Arguments: "<acr> <1 to 4>", Repeats: true, Default: "`level` for all", Example: "map_level urn:example:mfa 3",
			Text: "The authentication level of a sign-in, by the `acr` that the provider reports. Those that reach the level which is needed are asked for.",
		},
		{
			Word: "metadata", Default: "they are discovered", Text: "The addresses of a provider that publishes no metadata.",
			Blocks: []*Block{&OIDCMetadata},
		},
		{
			Word: "metadata_expiration", Arguments: "<duration>", Default: "as the provider's answer says, or `1h`",
			Text: "How long discovered metadata is used before it is fetched again.", Example: "metadata_expiration 6h",
		},
		{Word: "id_token_encryption_required", Text: "Refuses ID tokens that are not encrypted.", Example: "id_token_encryption_required"},
		{Word: "user_info_encryption_required", Text: "Refuses user info that is not encrypted.", Example: "user_info_encryption_required"},
		{
			Word: "front_channel_logout", Text: "The provider can sign people out by a frame, at `/oidc/<id>/frontchannel-logout`.",
			Example: "front_channel_logout",
		},
		{
			Word: "email_verified_strings", Arguments: "[on|off]", Default: "`off`: only the boolean counts", Example: "email_verified_strings",
			Text: "`email_verified` counts as the string `\"true\"`, too. At some providers people choose the text of claims, so this is for those that write no boolean.",
		},
		{
			Word: "migrate", Arguments: "password", Default: "passwords are never sent there", Example: "migrate password",
			Text: "People move here: who is unknown here and types a password that the provider's token endpoint accepts (password grant, RFC 6749 4.3) gets an account here with that password, and the provider is not asked about their password again. [moving-in.md](moving-in.md#first-sign-in) explains it.",
		},
	}, remoteOptions),
}
