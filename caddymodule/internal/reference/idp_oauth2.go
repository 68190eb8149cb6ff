package reference

import "slices"

// OAuth2 is a provider of OAuth 2.0 without OpenID Connect.
var OAuth2 = Block{
	Head: "idp <id> oauth2", Open: "idp forge oauth2",
	Text: "Sign-in at a provider that speaks OAuth 2.0 without OpenID Connect: who a person is stands in a profile. The redirect URI to register there is `/oidc/<id>/callback`. " +
		"Such providers do not say when a person signed in, so applications that ask for a fresh sign-in are refused.",
	Needs: "client_id gatehouse\nclient_secret {env.FORGE_SECRET}\nauthorization_url https://forge.example/login/oauth/authorize\n" +
		"token_url https://forge.example/login/oauth/access_token\nprofile_url https://forge.example/api/v1/user\nsubject id",
	Options: slices.Concat(oauth2Addresses, []Option{
		{
			Word: "auth_method", Arguments: "basic|post", Default: "`post`", Text: "How Gatehouse authenticates at the token endpoint.",
			Example: "auth_method basic",
		},
		{Word: "scopes", Arguments: "<scope>…", Default: "none", Text: "The scopes that are asked for.", Example: "scopes read:user"},
		{
			Word: "authorization_url", Arguments: "<address>", Default: "required", Text: "Where browsers are sent.",
			Example: "authorization_url https://forge.example/login/oauth/authorize",
		},
		{
			Word: "token_url", Arguments: "<address>", Default: "required", Text: "The token endpoint.",
			Example: "token_url https://forge.example/login/oauth/access_token",
		},
		{
			Word: "profile_url", Arguments: "<address>", Default: "required", Text: "Where the profile of a person is: a JSON object.",
			Example: "profile_url https://forge.example/api/v1/user",
		},
		{
			Word: "subject", Arguments: "<member>", Default: "required", Example: "subject id",
			Text: "The member of the profile that identifies a person permanently, with dots for members of objects: `data.id`. The provider must never give its value to anybody else, as some do with usernames.",
		},
		{Word: "email", Arguments: "<member>", Default: "none", Text: "The member with the e-mail address.", Example: "email email"},
		{
			Word: "email_verified", Arguments: "<member>", Default: "no address counts as verified",
			Text: "The member that is `true` if the provider has checked the address.", Example: "email email\nemail_verified verified",
		},
	}, remoteOptions),
}
