package reference

// Session says how long sign-ins last.
var Session = Block{
	Head: "session",
	Text: "How long a sign-in lasts in one browser. Sites and clients can ask for a more recent one.",
	Options: []Option{
		{Word: "idle", Arguments: "<duration>", Default: "`1h`", Text: "Without any use; at least a minute.", Example: "idle 30m"},
		{Word: "absolute", Arguments: "<duration>", Default: "`12h`", Text: "At most; at least a minute.", Example: "absolute 10h"},
		{
			Word: "remember", Arguments: "<duration>", Default: "`30d`", Text: "At most, for people who choose to stay signed in.",
			Example: "remember 14d",
		},
		{
			Word: "per_person", Arguments: "<number>", Default: "`50`", Example: "per_person 10",
			Text: "How many sessions a person has at once, and how many browsers of theirs are recognised: 1 to 1000. The one unused for longest gives way.",
		},
	},
}
