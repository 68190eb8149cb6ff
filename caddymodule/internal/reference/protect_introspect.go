package reference

// Introspect is an authorization server elsewhere.
var Introspect = Block{
	Head: "introspect <url>", Open: "introspect https://login.corp.example/oauth/introspect",
	Text: "An authorization server elsewhere that says by token introspection (RFC 7662) who a bearer token belongs to. The address is that of its introspection endpoint: `https`, and `http` on this machine alone. " +
		"Redirects are not followed. A request whose token cannot be looked up gets 503 and `Retry-After`. After five failures in a row the server is left alone for 5 seconds.",
	Needs: "client ops {env.OPS_SECRET}",
	Options: []Option{
		{
			Word: "client", Arguments: "<id> [<secret>]", Default: "required",
			Text:    "The client by which the server knows this gateway, and its secret, unless there is a `key`.",
			Example: "client ops {env.OPS_SECRET}", Instead: "-",
		},
		{
			Word: "auth", Arguments: "basic|post|private_key_jwt", Default: "`basic` with a secret, `private_key_jwt` with a key",
			Example: "auth post",
			Text:    "How the client authenticates: by its secret in the header or in the form, or by a JWT that its key signs (RFC 7523).",
		},
		{
			Word: "key", Arguments: "<file>", Text: "The file of the private key (PEM) that signs for `private_key_jwt`: RSA, EC, Ed25519 or ML-DSA.",
			Example: "client ops\nkey /etc/gatehouse/ops.pem", Instead: "-",
		},
		{
			Word: "key_id", Arguments: "<text>", Default: "its thumbprint (RFC 7638)", Text: "The `kid` under which the server knows the key.",
			Example: "client ops\nkey /etc/gatehouse/ops.pem\nkey_id ops-2026", Instead: "-",
		},
		{
			Word: "issuer", Arguments: "<url>", Default: "any issuer that the server vouches for", Example: "issuer https://login.corp.example",
			Text: "The issuer of the tokens, exactly as the server's metadata write it. A token that names another one is refused.",
		},
		{
			Word: "jwks", Arguments: "<url>", Default: "answers are JSON",
			Example: "issuer https://login.corp.example\njwks https://login.corp.example/oauth/jwks",
			Text:    "The keys by which the server signs its answers (RFC 9701). Answers without a valid signature are refused then. It needs `issuer`.",
		},
		{
			Word: "cache", Arguments: "<duration>", Default: "every request asks", Example: "cache 5s",
			Text: "How long an answer about an active token is used again, and so the longest time that a revoked token can still pass. Nothing is kept beyond the end of the token, and no answer that a token is not active.",
		},
		{
			Word: "timeout", Arguments: "<duration>", Default: "`3s`", Text: "How long a request waits for the server, at most 5 seconds.",
			Example: "timeout 1s",
		},
		{
			Word: "groups", Arguments: "<claim>…", Default: "`groups`", Example: "groups groups realm_access.roles",
			Text: "The claims of the answer that name the groups of a person: an array, a text, or an object whose members are the names. Members of objects have dotted names.",
		},
		{
			Word: "map_level", Arguments: "<acr> <1 to 4>", Repeats: true, Default: "the levels of Gatehouse",
			Text: "The authentication level of a sign-in, by the `acr` that the server reports.", Example: "map_level gold 3",
		},
	},
}
