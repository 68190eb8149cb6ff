package reference

// Registration is the registration of clients by themselves.
var Registration = Block{
	Head: "registration", Open: "registration open", Bare: true,
	Text: "Clients that register themselves at `/oauth/register` (RFC 7591). They can do what clients with a metadata document can do: " +
		"sign people in, with the scopes `openid`, `profile`, `email` and those of sites with `mcp`, and people are always asked. " +
		"`token` lets those register who have an access token with the scope `client.register`, such as one of `caddy gatehouse token issue`.",
	Sample: "redirect_hosts claude.ai",
	Options: []Option{
		{
			Word: "redirect_hosts", Arguments: "<host>…", Default: "all", Example: "redirect_hosts claude.ai *.cursor.com",
			Text: "The hosts of their https redirect URIs, and `*.example.com` for those below. Redirect URIs of this machine and of applications are always allowed.",
		},
		{
			Word: "schemes", Arguments: "<scheme>…", Default: "`cursor`",
			Text:    "Private schemes of their redirect URIs, besides those that are a domain name turned round, such as `com.example.app`.",
			Example: "schemes cursor windsurf",
		},
		{
			Word: "expires", Arguments: "<duration>", Default: "`30d`", Example: "expires 7d",
			Text: "A client is removed when no one has used it for this long: counted from its registration, or from when the tokens of the last sign-in have ended.",
		},
		{
			Word: "limit", Arguments: "<number>/m|h|d", Default: "`10/h`",
			Text: "How many clients one IPv4 address or IPv6 /48 network can register in a minute, an hour or a day.", Example: "limit 20/h",
		},
		{
			Word: "clients", Arguments: "<number>", Default: "`1000`", Example: "clients 200",
			Text: "How many such clients there can be. When there are as many, the oldest one that no person has ever signed in to makes room, after its first hour.",
		},
		{Word: "management", Text: "A client can read, change and remove its registration with a token that it gets (RFC 7592), until an operator changes it.", Example: "management"},
	},
}
