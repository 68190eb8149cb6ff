package reference

import "slices"

// AzureADB2C is a directory of Azure AD B2C as an OpenID provider.
var AzureADB2C = Block{
	Head: "idp <id> azure_ad_b2c", Open: "idp customers azure_ad_b2c",
	Text: "Sign-in at a directory of Azure AD B2C. The redirect URI to register there is `/oidc/<id>/callback`. All policies of a directory share their issuer and the client id, so the ID token must name the policy in `tfp` or `acr`. " +
		"[openid-providers.md](openid-providers.md#azure-ad-b2c) says more.",
	Needs: "tenant contoso\npolicy B2C_1_sign_in\nclient_id gatehouse",
	Options: slices.Concat([]Option{
		{
			Word: "tenant", Arguments: "<name>", Default: "required", Text: "The name of the directory before `.onmicrosoft.com`.",
			Example: "tenant contoso",
		},
		{
			Word: "policy", Arguments: "<name>", Default: "required", Text: "The user flow or custom policy by which people sign in.",
			Example: "policy B2C_1_sign_in",
		},
		{
			Word: "policy_in", Arguments: "path|query", Default: "`path`",
			Text: "Where addresses have the policy: in the path, or as the parameter `p`.", Example: "policy_in query",
		},
		{Word: "client_id", Arguments: "<text>", Default: "required", Text: "The application id there.", Example: "client_id gatehouse"},
		{
			Word: "client_secret", Arguments: "<secret>", Default: "none: a public client", Text: "The secret there.",
			Example: "client_secret {env.CORP_SECRET}",
		},
		{
			Word: "scopes", Arguments: "<scope>…", Default: "`openid`", Text: "The scopes that are asked for; `openid` always is.",
			Example: "scopes openid offline_access",
		},
		{
			Word: "front_channel_logout", Text: "The provider can sign people out by a frame, at `/oidc/<id>/frontchannel-logout`.",
			Example: "front_channel_logout",
		},
		{
			Word: "issuer", Arguments: "<address>", Default: "`https://<tenant>.b2clogin.com`",
			Text: "The origin of the directory, for a domain of your own.", Example: "issuer https://login.contoso.example",
		},
	}, remoteOptions),
}
