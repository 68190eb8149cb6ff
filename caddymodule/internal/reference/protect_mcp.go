package reference

// MCP makes a site a resource server of the Model Context Protocol.
var MCP = Block{
	Head: "mcp [<resource>]", Open: "mcp https://mcp.example.com/mcp", Bare: true,
	Text: "Clients of the Model Context Protocol find their way by themselves: the site serves its metadata (RFC 9728) to everybody, and refusals name them. " +
		"A token must be meant for the resource (RFC 8707), in addition to those of `audience`, and does not reach the upstream. `preflight` is implied. " +
		"The resource is the address that people give to their client, or the start of it; by default the address of the site, with the path of the matcher. [mcp.md](mcp.md) is a guide.",
	Sample: "name Calendar",
	Options: []Option{
		{
			Word: "name", Arguments: "<text>", Default: "none", Text: "The name of the resource, for people.",
			Example: "name Calendar of the office",
		},
		{
			Word: "documentation", Arguments: "<url>", Default: "none", Text: "A page for developers about the resource.",
			Example: "documentation https://docs.example.com/calendar",
		},
		{
			Word: "tool", Arguments: "<name> <scope>…", Repeats: true, Default: "none", Example: "tool delete_* tools.write",
			Text: "The scopes that calls of a tool need, in addition to those of the site; `*` in the name stands for any characters. Bodies are read for it, at most 1 MiB, and the headers `Mcp-Method` and `Mcp-Name` must say the same.",
		},
		{
			Word: "challenge_tools", Arguments: "on|off", Default: "`on`", Example: "challenge_tools off",
			Text: "Whether a client without a valid token is told the scopes of all tools at once, and gets them if it names none. Many clients ask a person once and never for more. `off` names those of the site alone, such as where a scope of a tool has a `level`.",
		},
	},
}
