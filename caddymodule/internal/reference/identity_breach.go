package reference

// Breach says where known passwords are looked up.
var Breach = Block{
	Head: "breach",
	Text: "A new password that is known from a breach is refused.",
	Options: []Option{
		{
			Word: "url", Arguments: "<url>", Default: "`https://api.pwnedpasswords.com/range/`, unless there is a `file`",
			Example: "url https://pwned.example.com/range/",
			Text:    "The service that is asked. The first five digits of the SHA-1 hash are added to the URL, which ends with a slash.",
		},
		{
			Word: "file", Arguments: "<file>", Example: "file /etc/gatehouse/pwned.txt",
			Text: "A file that is asked first and needs no network: SHA-1 hashes in order, each with or without a colon and a count, or passwords, one a line.",
		},
		{Word: "timeout", Arguments: "<duration>", Default: "`1s`", Text: "How long the service may take.", Example: "timeout 2s"},
		{
			Word: "on_failure", Arguments: "open|closed", Default: "`open`",
			Text:    "When the service does not answer or the file cannot be used, `open` accepts the password and `closed` refuses it.",
			Example: "on_failure closed",
		},
	},
}
