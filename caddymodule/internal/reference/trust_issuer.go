package reference

// TrustedIssuer is an issuer elsewhere whose tokens stand for a client.
var TrustedIssuer = Block{
	Head: "trust_issuer <url>", Open: "trust_issuer https://token.actions.githubusercontent.com",
	Text: "A build server or a cluster that gives its jobs signed tokens: a job shows one in place of a secret and gets a token of a client. The client has `auth_method workload`. " +
		"An issuer can be there several times, once for each client. [workloads.md](workloads.md) has GitHub Actions and Kubernetes step by step.",
	Needs: "match sub repo:example/app:ref:refs/heads/main\nclient deploy",
	Options: []Option{
		{
			Word: "match", Arguments: "<claim> <pattern>…", Default: "required", Repeats: true,
			Example: "match sub repo:example/app:ref:refs/heads/main",
			Text:    "A claim of the tokens and the values of which it has one. A `*` stands for any characters but a colon, at least one. Each `match` must fit.", Instead: "client deploy",
		},
		{
			Word: "client", Arguments: "<id>", Default: "required", Text: "The client that the tokens stand for.", Example: "client deploy",
			Instead: "match sub repo:example/app:ref:refs/heads/main",
		},
		{
			Word: "audience", Arguments: "<text>", Default: "the issuer of Gatehouse",
			Text: "The audience (`aud`) that the tokens must have, alone.", Example: "audience https://auth.example.com",
		},
		{
			Word: "scopes", Arguments: "<scope>…", Default: "those of the client", Text: "The most that the tokens get.",
			Example: "scopes deploy.write",
		},
		{
			Word: "jwks", Arguments: "<file or url>", Default: "what the metadata of the issuer name",
			Example: "jwks https://token.actions.githubusercontent.com/.well-known/jwks",
			Text:    "The public keys of the issuer, a JSON Web Key Set, where its metadata cannot be read. A file is read when the configuration is loaded, a URL when it is needed.",
		},
		{
			Word: "id_jag", Arguments: "<idp>", Default: "its tokens stand for workloads", Instead: "client wiki", Example: "id_jag corp",
			Around: "idp corp oidc {\n\tissuer https://login.corp.example\n\tclient_id gatehouse\n\tclient_secret {env.CORP_SECRET}\n}\n" +
				"client wiki {\n\tsecret {env.SHOP_SECRET}\n\tgrants jwt_bearer\n\tscopes wiki.read\n\tidps corp\n}",
			Text: "The issuer gives identity assertions (ID-JAG): the client, with credentials of its own, gets a token of the person who signs in by this `idp` with the identity that the assertion names. `match` is not needed. See [identity assertions](decisions/token-endpoint.md#identity-assertions).",
		},
		{
			Word: "reuse", Arguments: "on|off", Default: "`off`",
			Text: "`on`: a token can be shown until it is ten minutes old, in place of once. For clusters that give a pod the same token for minutes.", Example: "reuse on",
		},
	},
}
