package reference

// Scope describes a scope.
var Scope = Block{
	Head: "scope <name>", Open: "scope orders.read",
	Text: "What a scope demands, and what the consent page says about it.",
	Options: []Option{
		{
			Word: "description", Arguments: "<text>", Default: "the name", Text: "The text on the consent page.",
			Example: `description "Read your orders"`,
		},
		{
			Word: "level", Arguments: "<1 to 4>", Default: "any",
			Text:    "The authentication level that people must have reached before they get it. A sign-in below it leads to a second factor.",
			Example: "level 2",
		},
		{
			Word: "assurance", Arguments: "<1 to 4>", Default: "any",
			Text: "The [identity assurance level](decisions/events.md#identity-assurance-of-scopes) that people must have. Others are told that their identity has to be confirmed, and earlier tokens of a person who has lost it are without the scope.", Example: "assurance 2",
		},
		{
			Word: "usage_limit", Arguments: "<number>", Default: "`0`: unlimited",
			Text: "How often an access token with this scope can be used. Of several scopes, the lowest limit counts.", Example: "usage_limit 5",
		},
	},
}
