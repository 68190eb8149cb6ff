package reference

// Brand is the look of the pages.
var Brand = Block{
	Head: "brand",
	Text: "Name, logo and colour of the pages and e-mails.",
	Options: []Option{
		{Word: "name", Arguments: "<text>", Default: "Gatehouse", Text: "The name above each page.", Example: "name Albers"},
		{
			Word: "logo", Arguments: "<file>", Default: "the name as text", Text: "A PNG, JPEG or GIF picture of at most 64 KiB.",
			Example: "logo /etc/gatehouse/logo.png",
		},
		{
			Word: "color", Arguments: "<rrggbb>", Default: "`3b5bdb`",
			Text:    "The colour of links and buttons. It is darkened or lightened until it is legible. Without quotes a `#` would begin a comment.",
			Example: "color 2457d6",
		},
		{
			Word: "help", Arguments: "<url>", Default: "no link", Text: "Where the help link at the foot of the pages leads: http, https or mailto.",
			Example: "help https://help.example.com/",
		},
	},
}
