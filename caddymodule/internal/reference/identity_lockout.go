package reference

// Lockout says when failed sign-ins are slowed down.
var Lockout = Block{
	Head: "lockout",
	Text: "After some failed sign-ins of one person from one address, each further attempt has to wait longer.",
	Options: []Option{
		{Word: "failures", Arguments: "<number>", Default: "`5`", Text: "How many failures cause no wait: 1 to 1000.", Example: "failures 3"},
		{Word: "window", Arguments: "<duration>", Default: "`15m`", Text: "The time in which they are counted.", Example: "window 1h"},
	},
}
