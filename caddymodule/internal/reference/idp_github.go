package reference

import "slices"

// OAuth2Preset is a provider of OAuth 2.0 whose addresses are known.
var OAuth2Preset = Block{
	Head: "idp <id> github", Open: "idp code github",
	Text: "Sign-in at GitHub. In place of `github` it can be `discord`, `facebook`, `linkedin` or `twitter`, which is X. The redirect URI to register there is `/oidc/<id>/callback`. The addresses are known; they can be given for GitHub Enterprise Server. " +
		"[openid-providers.md](openid-providers.md#presets) says what each of them tells of people.",
	Needs: "client_id Iv1.8a61f9b3a7aba766\nclient_secret {env.CODE_SECRET}",
	Options: slices.Concat(oauth2Addresses, []Option{
		{
			Word: "scopes", Arguments: "<scope>…", Default: "those for profile and address", Text: "The scopes that are asked for.",
			Example: "scopes read:user user:email read:org",
		},
		{
			Word: "authorization_url", Arguments: "<address>", Default: "the provider's", Text: "Where browsers are sent.",
			Example: "authorization_url https://github.corp.example/login/oauth/authorize",
		},
		{
			Word: "token_url", Arguments: "<address>", Default: "the provider's", Text: "The token endpoint.",
			Example: "token_url https://github.corp.example/login/oauth/access_token",
		},
		{
			Word: "profile_url", Arguments: "<address>", Default: "the provider's", Text: "Where the profile of a person is.",
			Example: "profile_url https://github.corp.example/api/v3/user",
		},
		{
			Word: "emails_url", Arguments: "<address>",
			Default: "`emails` below a `profile_url` of GitHub Enterprise Server, otherwise the provider's",
			Text:    "Where the e-mail addresses of a person at GitHub are.", Example: "emails_url https://github.corp.example/api/v3/user/emails",
		},
	}, remoteOptions),
}
