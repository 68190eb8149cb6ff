package reference

import "slices"

// SAML is a provider of SAML 2.0.
var SAML = Block{
	Head: "idp <id> saml", Open: "idp partner saml",
	Text:  "Sign-in at a SAML 2.0 identity provider. Gatehouse's metadata for it is at `/saml/<id>/metadata`. [saml.md](saml.md) is a guide.",
	Needs: "metadata https://idp.partner.example/metadata",
	Options: slices.Concat([]Option{
		{
			Word: "metadata", Arguments: "<file or address>", Default: "required", Example: "metadata https://idp.partner.example/metadata",
			Text: "The metadata of one provider, 1 MiB at most, or with `entity` that of a federation: an https address (http at this machine only), which is read again, or a file, which is looked at every minute. " +
				"What cannot be read changes nothing: the last good metadata is used until its `validUntil`.",
		},
		{
			Word: "metadata_certificate", Arguments: "<file>", Default: "unsigned metadata is accepted",
			Example: "metadata_certificate /etc/gatehouse/federation.pem",
			Text:    "A PEM file: the metadata must be signed by its key. Federations publish one.",
		},
		{
			Word: "entity", Arguments: "<entity ID>", Default: "the only identity provider in the metadata",
			Example: "entity https://idp.partner.example/idp",
			Text:    "The provider that is meant, where the metadata is that of a federation with many. Such a file can have 256 MiB: it is read as a stream, and only this provider is kept.",
		},
		{
			Word: "expired_certificates", Arguments: "accept", Default: "refused", Example: "expired_certificates accept",
			Text: "Trusts the keys in the metadata although their certificates have expired, as SAML's metadata profile says: the key is trusted, not the certificate. " +
				"By default `check` and the log warn 30 days before the last certificate ends.",
		},
		{
			Word: "refresh", Arguments: "<duration>", Default: "`cacheDuration` of the metadata, or `1h`",
			Text: "How old metadata behind an address becomes before it is read again; at least 5m.", Example: "refresh 6h",
		},
		{
			Word: "allow_unsolicited", Default: "refused",
			Text:    "Accepts sign-ins that begin at the provider. They can be forced upon a browser, so leave it off unless you need it.",
			Example: "allow_unsolicited",
		},
		{
			Word: "sign", Arguments: "<key pair>…", Default: "Gatehouse's own", Example: "sign saml-2026 saml-2027",
			Text: "Key pairs of the [settings](configuration.md) by name, 4 at most. The first one signs, all of them are in Gatehouse's metadata.",
		},
		{
			Word: "decrypt", Arguments: "<key pair>…", Default: "Gatehouse's own",
			Text:    "Key pairs of the settings by name, 4 at most. All of them decrypt and are in Gatehouse's metadata.",
			Example: "decrypt saml-2027 saml-2026",
		},
		{
			Word: "name_id", Arguments: "persistent|transient|email|unspecified|<urn>", Default: "the provider chooses",
			Example: "name_id persistent",
			Text:    "The format of the name that is asked for.",
		},
		{
			Word: "subject", Arguments: "<attribute>", Default: "the NameID; if it is transient, the mapped `email`",
			Example: "subject eduPersonPrincipalName",
			Text:    "The attribute that identifies a person permanently.",
		},
		{
			Word: "authn_context", Arguments: "exact|minimum|maximum|better <class>…",
			Default: "the classes of `map_level` that reach the level which is needed, if it is above 1",
			Example: "authn_context minimum urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport",
			Text:    "The class of sign-in that is asked for. With `exact`, any other class is refused.",
		},
		{
			Word: "map_level", Arguments: "<class> <1 to 4>", Repeats: true, Default: "`level` for all",
			Example: "map_level urn:oasis:names:tc:SAML:2.0:ac:classes:Smartcard 3",
			Text:    "The authentication level of a sign-in, by the class that the provider names.",
		},
		{
			Word: "provider_name", Arguments: "<text>", Default: "the name of the application", Text: "What the provider shows as the one who asks.",
			Example: "provider_name The shop",
		},
		{
			Word: "artifact", Default: "answers by POST",
			Text: "Asks for the answer by artifact. The provider's metadata must name an artifact resolution service.", Example: "artifact",
		},
		{
			Word: "entity_id", Arguments: "<uri>", Default: "the address of Gatehouse's metadata",
			Example: "entity_id urn:etoegang:DV:00000001123456789000:entities:0001",
			Text:    "Gatehouse's own entity ID at the provider, where the provider assigns one.",
		},
		{
			Word: "client_key", Arguments: "<key pair>", Default: "no certificate", Example: "client_key back-channel",
			Text: "The key pair of the settings whose certificate Gatehouse shows when it fetches an answer by artifact.",
		},
		{
			Word: "server_certificate", Arguments: "<key pair>", Default: "any certificate that the system trusts",
			Example: "server_certificate provider-tls",
			Text:    "A key pair of the settings with the certificate that the provider's server must show there, or that of the authority which has issued it. Another one is refused.",
		},
		{
			Word: "scheme", Arguments: "digid|etoegang <lowest level> [<entity ID>]", Example: "scheme etoegang substantial",
			Text: "The provider is DigiD, or a broker of eToegang (eHerkenning, eIDAS), and keeps to the rules of that scheme. The level is `basic`, `middle`, `substantial` or `high`, " +
				"at eToegang `non_existent`, `low`, `low_plus`, `substantial` or `high`; an answer with a lower one is refused. The entity ID is that of the authentication service that a broker sends people to. " +
				"`digid` needs `client_key`. See [saml.md](saml.md#digid-and-etoegang).",
		},
	}, remoteOptions),
}
