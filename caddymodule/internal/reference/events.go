package reference

// Events is about what happens to events.
var Events = Block{
	Head: "events",
	Text: "The record of what people, operators and applications did. [events.md](events.md) lists every type.",
	Options: []Option{
		{
			Word: "retention", Arguments: "<duration>", Default: "for ever", Text: "How long events are kept, except those of `token_retention`.",
			Example: "retention 400d",
		},
		{
			Word: "token_retention", Arguments: "<duration>|forever", Default: "`90d`, or `retention` where that is shorter",
			Example: "token_retention 30d",
			Text:    "How long events are kept about tokens that clients get for themselves, and about clients that could not authenticate.",
		},
		{
			Word: "call_retention", Arguments: "<duration>|forever", Default: "`90d`, or `retention` where that is shorter",
			Example: "call_retention 400d",
			Text:    "How long the log of calls of sites with [`audit log`](#protect) is kept.",
		},
		{
			Word: "webhook", Arguments: "<url>", Repeats: true,
			Text:   "A receiver of each event that is about a person or the configuration. Several receivers have a block each.",
			Blocks: []*Block{&EventWebhook},
		},
	},
}
