package reference

import "slices"

// Apple is Apple as an OpenID provider.
var Apple = Block{
	Head: "idp <id> apple", Open: "idp apple apple",
	Text: "Sign-in with an Apple Account. The return URL to register there is `/oidc/<id>/callback`. Apple knows Gatehouse by a key: add its .p8 file as a key pair of the configuration. " +
		"Addresses that Apple has made to hide another one link no account without asking. [openid-providers.md](openid-providers.md#apple) says more.",
	Needs: "client_id com.example.auth\nteam_id ABCDE12345\nkey_id FGHIJ67890\nkey apple",
	Options: slices.Concat([]Option{
		{
			Word: "client_id", Arguments: "<text>", Default: "required", Text: "The identifier of the Services ID.",
			Example: "client_id com.example.auth",
		},
		{Word: "team_id", Arguments: "<text>", Default: "required", Text: "The team: ten capitals and digits.", Example: "team_id ABCDE12345"},
		{Word: "key_id", Arguments: "<text>", Default: "required", Text: "What Apple calls the key.", Example: "key_id FGHIJ67890"},
		{
			Word: "key", Arguments: "<key pair>", Default: "required",
			Text: "The key pair with that key. It signs the client secret, which is renewed every few minutes.", Example: "key apple",
		},
		{
			Word: "scopes", Arguments: "<scope>…", Default: "`name email`",
			Text:    "The scopes that are asked for; `openid` always is. With `name` or `email` Apple answers by a form (`form_post`).",
			Example: "scopes email",
		},
		{
			Word: "jwks_uri", Arguments: "<address>", Default: "as Apple's metadata say", Text: "Where Apple's keys are.",
			Example: "jwks_uri https://appleid.apple.com/auth/keys",
		},
		{
			Word: "domain_verification_file", Arguments: "<file>", Default: "none",
			Example: "domain_verification_file /etc/gatehouse/apple-developer-domain-association.txt",
			Text:    "The file by which Apple checks that the domain is yours. It is served at `/.well-known/apple-developer-domain-association.txt`, also while the provider is `disabled`.",
		},
		{
			Word: "issuer", Arguments: "<address>", Default: "`https://appleid.apple.com`",
			Text: "Another server that behaves like Apple, such as a stand-in for tests.", Example: "issuer https://apple.test.example",
		},
	}, remoteOptions),
}
