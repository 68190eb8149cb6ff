package reference

// DetailMember is a member of a type of authorization details.
var DetailMember = Block{
	Head: "member <name>", Open: "member amount.currency", Bare: true,
	Text: "A member of the requests of a type; a point stands in front of a member of a member.",
	Options: []Option{
		{
			Word: "label", Arguments: "[<language>] <text>", Repeats: true, Default: "the name",
			Text: "What the consent page calls it. The text stands in quotes.", Example: `label "Currency"`,
		},
		{
			Word: "kind", Arguments: "text|number|boolean", Default: "`text`", Text: "What it is. It can also be a list of these.",
			Example: "kind text",
		},
		{Word: "values", Arguments: "<value>…", Default: "any", Text: "The values that it can have.", Example: "values EUR USD"},
	},
}
