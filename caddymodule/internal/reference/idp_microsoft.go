package reference

import "slices"

// Microsoft is Microsoft Entra as an OpenID provider.
var Microsoft = Block{
	Head: "idp <id> microsoft", Open: "idp entra microsoft",
	Text: "Sign-in with an account of Microsoft Entra, or a personal account of Microsoft. The redirect URI to register there is `/oidc/<id>/callback`. A person is known by tenant and `sub`, and by `oid` when the application changes. " +
		"The administrators of a tenant write into addresses what they like: one counts as verified only with the claim `xms_edov`. [openid-providers.md](openid-providers.md#google-and-microsoft) says more.",
	Needs: "client_id gatehouse\nclient_secret {env.CORP_SECRET}",
	Options: slices.Concat(oidcPreset(microsoft), []Option{
		{
			Word: "tenant", Arguments: "common|organizations|consumers|<tenant id>", Default: "`common`",
			Example: "tenant 72f988bf-86f1-41af-91ab-2d7cd011db47",
			Text:    "Whose people can sign in: all accounts, those of organisations, personal ones, or those of one tenant.",
		},
		{
			Word: "tenants", Arguments: "<tenant id>…", Default: "all",
			Example: "tenant organizations\ntenants 72f988bf-86f1-41af-91ab-2d7cd011db47 b9419818-09af-49c2-b0c3-653adc1f376e",
			Text:    "The tenants whose people can sign in, where `tenant` is of several.",
		},
		{
			Word: "front_channel_logout", Text: "Microsoft can sign people out by a frame, at `/oidc/<id>/frontchannel-logout`.",
			Example: "front_channel_logout",
		},
	}, remoteOptions),
}
