package reference

// hookOptions are the options of every webhook that delivers messages.
func hookOptions(example string) []Option {
	return []Option{
		{
			Word: "header", Arguments: "<name> <value>…", Repeats: true, Text: "A header of each request. Values are secrets and never logged.",
			Example: example,
		},
		{Word: "timeout", Arguments: "<duration>", Default: "`5s`", Text: "For one message; 8s at most.", Example: "timeout 3s"},
	}
}
