package reference

import "slices"

// Google is Google as an OpenID provider.
var Google = Block{
	Head: "idp <id> google", Open: "idp google google",
	Text: "Sign-in with an account of Google. The redirect URI to register there is `/oidc/<id>/callback`. An address counts as verified if Google says so and runs the mailbox: " +
		"`gmail.com`, or a domain of Google Workspace. [openid-providers.md](openid-providers.md#google-and-microsoft) says more.",
	Needs: "client_id gatehouse\nclient_secret {env.CORP_SECRET}",
	Options: slices.Concat(oidcPreset(google), []Option{{
		Word: "hosted_domain", Arguments: "<domain>…", Default: "everybody with an account", Example: "hosted_domain example.com",
		Text: "The domains of Google Workspace whose people can sign in. It is demanded of Google, and checked in the ID token.",
	}}, remoteOptions),
}
