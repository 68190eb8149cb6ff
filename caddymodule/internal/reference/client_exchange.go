package reference

// Exchange says which tokens a client can exchange.
var Exchange = Block{
	Head: "exchange", Text: "An API that calls another one exchanges the token that it was sent for one that is meant for the other, in the name of the same person and with the same scopes at most. " +
		"See [token exchange](decisions/token-endpoint.md#token-exchange).",
	Needs: "to https://stock.example.com",
	Options: []Option{
		{
			Word: "from", Arguments: "<client>…", Default: "the client alone", Text: "The clients whose tokens it can exchange, besides its own.",
			Example: "from web mobile",
		},
		{
			Word: "to", Arguments: "<audience>…", Default: "required, unless there is `id_jag` or `txn_token`",
			Text:    "The audiences of the tokens that it gets: resources, or names that the other API knows itself by.",
			Example: "to https://stock.example.com", Instead: "-",
		},
		{
			Word: "id_jag", Arguments: "<issuer> <client> [<scope>…]", Repeats: true, Default: "none",
			Example: "id_jag https://auth.chat.example wiki-at-chat chat.read", Instead: "-",
			Text: "An authorization server elsewhere for which the client gets identity assertions (ID-JAG): its issuer, the id of the client there, and the scopes that it can ask for there. See [identity assertions](decisions/token-endpoint.md#identity-assertions).",
		},
		{
			Word: "txn_token", Arguments: "<domain>…", Default: "none", Example: "from web\ntxn_token shop.example.com", Instead: "-",
			Text: "The trust domains for which the client gets [transaction tokens](experimental/transaction-tokens.md) (experimental), in place of access tokens of itself and of the clients of `from`, and of other transaction tokens.",
		},
	},
}
