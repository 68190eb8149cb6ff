package reference

// Lifetimes are those of a client.
var Lifetimes = Block{
	Head: "lifetimes",
	Text: "How long codes and tokens of the client are valid.",
	Options: []Option{
		{Word: "code", Arguments: "<duration>", Default: "`30s`", Text: "An authorization code: 1s to 10m.", Example: "code 1m"},
		{
			Word: "access_token", Arguments: "<duration>", Default: "`15m`",
			Text: "An access token: 1s to 366d; with `token_format jwt` 24h at most.", Example: "access_token 5m",
		},
		{
			Word: "refresh_token", Arguments: "<duration>", Default: "`30d`", Text: "One refresh token. Each use replaces it.",
			Example: "refresh_token 7d",
		},
		{
			Word: "refresh_chain", Arguments: "<duration>", Default: "`90d`", Text: "All refresh tokens that follow from one sign-in.",
			Example: "refresh_chain 30d",
		},
		{
			Word: "refresh_grace", Arguments: "<duration>", Default: "`10s`",
			Text:    "How long a used refresh token is answered with the same successor, for a client whose connection broke: 5m at most.",
			Example: "refresh_grace 30s",
		},
		{
			Word: "session", Arguments: "<duration>", Default: "any",
			Text: "The oldest sign-in that the client accepts; for an older one people sign in again.", Example: "session 12h",
		},
	},
}
