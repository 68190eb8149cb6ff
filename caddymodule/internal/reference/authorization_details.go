package reference

// DetailType is a type of authorization details.
var DetailType = Block{
	Head: "authorization_details <type>", Open: "authorization_details payment_initiation",
	Text: "What clients can ask for in detail, such as one payment: its members, and the words of the consent page. A request has the members that stand here and no others. " +
		"The client names the type in `authorization_details_types`. See [authorization details](decisions/authorization.md#authorization-details).",
	Needs:  "actions initiate",
	Sample: "description \"Start a payment\"\ndescription nl \"Een betaling starten\"\nactions initiate status\nmember amount.value {\n\tlabel \"Amount\"\n\tlabel nl \"Bedrag\"\n}\nmember amount.currency {\n\tlabel \"Currency\"\n\tvalues EUR USD\n}\nrequired actions amount.value amount.currency\nlevel 2\nconsent always",
	Options: []Option{
		{
			Word: "description", Arguments: "[<language>] <text>", Repeats: true, Default: "the type",
			Text:    "What the consent page calls it, in a language such as `nl`, or in all that have no text of their own. The text stands in quotes.",
			Example: `description "Start a payment"`,
		},
		{
			Word: "locations", Arguments: "<uri>…", Default: "not allowed", Text: "Requests can have `locations`, a list of some of these.",
			Example: "locations https://bank.example.com/payments",
		},
		{
			Word: "actions", Arguments: "<action>…", Default: "not allowed", Text: "Requests can have `actions`, a list of some of these.",
			Example: "actions initiate status cancel", Instead: "-",
		},
		{
			Word: "datatypes", Arguments: "<name>…", Default: "not allowed", Text: "Requests can have `datatypes`, a list of some of these.",
			Example: "datatypes contacts photos",
		},
		{
			Word: "privileges", Arguments: "<name>…", Default: "not allowed", Text: "Requests can have `privileges`, a list of some of these.",
			Example: "privileges admin",
		},
		{Word: "identifier", Default: "not allowed", Text: "Requests can have `identifier`, a text that names one thing.", Example: "identifier"},
		{Word: "member", Arguments: "<name>", Repeats: true, Text: "A further member.", Blocks: []*Block{&DetailMember}},
		{Word: "required", Arguments: "<member>…", Default: "none", Text: "The members that every request has.", Example: "required actions"},
		{
			Word: "level", Arguments: "<1 to 4>", Default: "any",
			Text: "The authentication level that people must have reached. A sign-in below it leads to a second factor.", Example: "level 2",
		},
		{
			Word: "consent", Arguments: "on|always", Default: "`on`",
			Text: "Whether people are asked again for the same that they have allowed before: `always` suits payments. It holds for clients with `consent off`, too.", Example: "consent always",
		},
		{
			Word: "unregistered", Default: "not allowed", Text: "Clients that register themselves, or have a metadata document, can ask for it.",
			Example: "unregistered",
		},
	},
}
