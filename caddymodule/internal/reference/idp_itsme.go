package reference

import "slices"

// Itsme is itsme as an OpenID provider.
var Itsme = Block{
	Head: "idp <id> itsme", Open: "idp itsme itsme",
	Text: "Sign-in with itsme, the Belgian mobile identity. The redirect URI to register there is `/oidc/<id>/callback`, and the address of the keys `/oidc/<id>/jwks`. " +
		"All that itsme tells is encrypted for Gatehouse, and refused otherwise. [openid-providers.md](openid-providers.md#itsme) says more.",
	Needs: "client_id gatehouse\nservice_code MY_LOGIN",
	Options: slices.Concat([]Option{
		{
			Word: "client_id", Arguments: "<text>", Default: "required", Text: "What itsme calls Gatehouse: the partner code.",
			Example: "client_id gatehouse",
		},
		{
			Word: "service_code", Arguments: "<text>", Default: "required",
			Text: "The code of the login service. It is asked for as the scope `service:<code>`.", Example: "service_code MY_LOGIN",
		},
		{
			Word: "security_level", Arguments: "basic|advanced", Default: "`basic`", Example: "security_level advanced",
			Text: "What people sign in with at least: `basic` is a fingerprint, a face or the itsme code, `advanced` the itsme code. A sign-in below it is refused by its `acr`. Where an application demands a level that only `advanced` reaches, that is asked for.",
		},
		{
			Word: "key", Arguments: "<key pair>", Default: "Gatehouse's own",
			Text: "The RSA key pair that signs for Gatehouse and decrypts what itsme tells.", Example: "key itsme",
		},
		{
			Word: "scopes", Arguments: "<scope>…", Default: "`profile email`",
			Text:    "The scopes that are asked for, such as `address`, `phone` and `eid`; `openid` and the service always are.",
			Example: "scopes profile eid",
		},
		{
			Word: "claims", Arguments: "<claim>…", Default: "none", Text: "Claims that are asked for by name, besides those of the scopes.",
			Example: "claims http://itsme.services/v2/claim/BENationalNumber",
		},
		{
			Word: "map_level", Arguments: "<acr> <1 to 4>", Repeats: true, Default: "2 for basic, 3 for advanced; with `level`, that for both",
			Example: "map_level http://itsme.services/v2/claim/acr_basic 2\nmap_level http://itsme.services/v2/claim/acr_advanced 4",
			Text:    "The authentication level that a sign-in has by its `acr`.",
		},
		{
			Word: "discovery_url", Arguments: "<address>", Default: "below the issuer",
			Text:    "Where the metadata are: itsme has an environment for tests.",
			Example: "discovery_url https://idp.e2e.itsme.services/v2/.well-known/openid-configuration",
		},
		{
			Word: "metadata_expiration", Arguments: "<duration>", Default: "as itsme says, or `1h`",
			Text: "How long metadata are used before they are fetched again.", Example: "metadata_expiration 6h",
		},
		{
			Word: "front_channel_logout", Text: "itsme can sign people out by a frame, at `/oidc/<id>/frontchannel-logout`.",
			Example: "front_channel_logout",
		},
		{
			Word: "issuer", Arguments: "<address>",
			Default: "`https://idp.prd.itsme.services/v2`, or what stands before the well-known path in `discovery_url`", Text: "The issuer.",
			Example: "issuer https://idp.e2e.itsme.services/v2",
		},
	}, remoteOptions),
}
