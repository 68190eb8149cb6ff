package reference

// Documents are clients with a metadata document.
var Documents = Block{
	Head: "client_metadata_documents", Bare: true,
	Text: "Clients whose id is the https address of a document that describes them (draft-ietf-oauth-client-id-metadata-document), as those of MCP have. " +
		"They are public or have keys, can ask for `openid`, `profile`, `email` and the scopes of sites with `mcp`, and people are always asked. " +
		"The document must be at a public address, or in a network of `outbound`.",
	Sample: "trust claude.ai",
	Options: []Option{
		{
			Word: "trust", Arguments: "<host>…", Default: "none",
			Text: "Hosts of documents, and `*.example.com` for those below, whose clients people see without the note that no one has verified them.", Example: "trust claude.ai vscode.dev",
		},
		{
			Word: "max_size", Arguments: "<size>", Default: "`64KiB`", Text: "The largest document that is read, from 5KiB to 1MiB.",
			Example: "max_size 32KiB",
		},
		{
			Word: "timeout", Arguments: "<duration>", Default: "`5s`", Text: "How long its host has to answer, at most 5 seconds.",
			Example: "timeout 2s",
		},
		{
			Word: "cache", Arguments: "<shortest> <longest>", Default: "`1h 24h`",
			Text:    "The times between which a document is fetched again. In between, its own `Cache-Control` or `Expires` counts.",
			Example: "cache 1h 12h",
		},
		{Word: "clients", Arguments: "<number>", Default: "`1000`", Text: "How many documents are remembered.", Example: "clients 200"},
		{
			Word: "schemes", Arguments: "<scheme>…", Default: "`cursor`",
			Text:    "Private schemes of their redirect URIs, besides those that are a domain name turned round, such as `com.example.app`.",
			Example: "schemes cursor windsurf",
		},
	},
}
