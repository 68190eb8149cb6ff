package reference

import "slices"

// HeaderIDP is a proxy that has established who someone is.
var HeaderIDP = Block{
	Head: "idp <id> header", Open: "idp edge header",
	Text:  "An identity that a proxy in front has established, in headers of the request. Only the address of the direct peer counts. From every other peer these headers are deleted.",
	Needs: "trust 10.0.0.0/8\nuser X-Remote-User",
	Options: slices.Concat([]Option{
		{
			Word: "trust", Arguments: "<network>…", Default: "required", Text: "The addresses or networks of the proxies.",
			Example: "trust 10.0.0.0/8",
		},
		{Word: "user", Arguments: "<header>", Default: "required", Text: "The header with the username.", Example: "user X-Remote-User"},
		{
			Word: "level", Arguments: "<header>|<1 to 4>", Repeats: true, Default: "`1`", Example: "level X-Remote-Level\nlevel 2",
			Text: "The header with the authentication level, or the level itself. Both can be set: the number counts where the header is absent.",
		},
		{
			Word: "attributes", Arguments: "<header> <detail>", Repeats: true, Text: "A header that becomes a user detail.",
			Example: "attributes X-Remote-Email email",
		},
		{
			Word: "parameters", Arguments: "<name>…", Text: "Parameters of the authorization request that become user details.",
			Example: "parameters branch",
		},
	}, providerOptions),
}
