package reference

// TransactionToken makes the assertion of a site a transaction token.
var TransactionToken = Block{
	Head: "assertion txn_token [<header>] [<algorithm>]", Open: "assertion txn_token",
	Text: "The signed token of `assertion` is a transaction token (draft-ietf-oauth-transaction-tokens-09, experimental), in the header `Txn-Token`: " +
		"every service of a trust domain that takes part in the request verifies it. See [transaction tokens](experimental/transaction-tokens.md).",
	Needs: "domain shop.example.com",
	Options: []Option{
		{
			Word: "domain", Arguments: "<name>", Default: "required", Text: "The trust domain in which the tokens are valid: their `aud`.",
			Example: "domain shop.example.com", Instead: "-",
		},
		{
			Word: "scopes", Arguments: "<scope>…", Default: "the scopes of the site, otherwise those of the access token",
			Text:    "The scopes of the transaction, as far as the sender has them.",
			Example: "scopes orders.read",
		},
	},
}
