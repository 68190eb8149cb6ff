package reference

// OIDCMetadata are the addresses of a provider.
var OIDCMetadata = Block{
	Head: "metadata",
	Text: "The addresses of a provider that publishes no metadata. They replace discovery.",
	Needs: `authorization_url https://login.corp.example/authorize
token_url https://login.corp.example/token
jwks_url https://login.corp.example/keys`,
	Options: []Option{
		{
			Word: "authorization_url", Arguments: "<url>", Default: "required", Text: "Where browsers are sent to sign in.",
			Example: "authorization_url https://login.corp.example/authorize",
		},
		{
			Word: "token_url", Arguments: "<url>", Default: "required", Text: "The token endpoint.",
			Example: "token_url https://login.corp.example/token",
		},
		{Word: "jwks_url", Arguments: "<url>", Default: "required", Text: "The keys.", Example: "jwks_url https://login.corp.example/keys"},
		{
			Word: "user_info_url", Arguments: "<url>", Text: "The user info endpoint.",
			Example: "user_info_url https://login.corp.example/userinfo",
		},
		{
			Word: "end_session_url", Arguments: "<url>", Text: "Where browsers are sent to sign out.",
			Example: "end_session_url https://login.corp.example/logout",
		},
	},
}
