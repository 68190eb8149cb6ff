package reference

// PasswordHash is the cost of a password hash.
var PasswordHash = Block{
	Head: "password_hash",
	Text: "The cost of Argon2id. Hashes of another cost are replaced when their owners sign in.",
	Options: []Option{
		{Word: "memory", Arguments: "<size>", Default: "`19MiB`", Text: "The memory of one hash: 8MiB to 256MiB.", Example: "memory 64MiB"},
		{Word: "iterations", Arguments: "<number>", Default: "`2`", Text: "Passes over the memory: 1 to 20.", Example: "iterations 3"},
		{
			Word: "concurrency", Arguments: "<number>", Default: "one less than the processors, at least 1",
			Text: "How many hashes are computed at once: 1 to 1024.", Example: "concurrency 4",
		},
	},
}
