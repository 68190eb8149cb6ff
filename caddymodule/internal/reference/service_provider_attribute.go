package reference

// ServiceProviderAttribute is an attribute for a service provider.
var ServiceProviderAttribute = Block{
	Head: "attribute <attribute>", Open: "attribute email",
	Text:   "An attribute that a service provider is told.",
	Sample: "as mail\nrequired\nunverified",
	Options: []Option{
		{
			Word: "as", Arguments: "<name> [basic|uri|unspecified]", Repeats: true, Default: "the attribute, `basic`",
			Text: "A name and its format, under which it is told.", Example: "as urn:oid:0.9.2342.19200300.100.1.3 uri",
		},
		{
			Word: "label", Arguments: "<text>", Default: "a word for the claim", Text: "What people read of it when they are asked.",
			Example: `label "Work address"`,
		},
		{Word: "required", Text: "People who do not have it are refused, with a page that leads to their profile.", Example: "required"},
		{Word: "optional", Text: "People can leave it out when they are asked (`consent`).", Example: "optional"},
		{
			Word: "unverified", Default: "only what is verified is told",
			Text:    "An address or a telephone number is told also if no one has verified that it is the person's. For `email` and `phone_number`.",
			Example: "unverified",
		},
	},
}
