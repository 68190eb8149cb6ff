package reference

import "slices"

// providerOptions are the options of every identity provider.
var providerOptions = []Option{
	{Word: "name", Arguments: "<text>", Default: "the id", Text: "What people and events call the provider.", Example: "name Partner account"},
	{Word: "disabled", Text: "The provider is switched off and signs in nobody.", Example: "disabled"},
	{
		Word: "assurance", Arguments: "<1 to 4>", Default: "the provider assures nothing", Example: "assurance 2",
		Text: "The [identity assurance level](decisions/events.md#identity-assurance) of everybody who signs in there: how well the provider knows who its people are. It stays with the person until they sign in there at another level, or unlink the provider.",
	},
}

// remoteOptions are the options of the identity providers that the browser is sent to.
var remoteOptions = append([]Option{
	{
		Word: "map", Arguments: "<attribute> <detail>", Repeats: true, Example: "map mail email",
		Text: "An attribute or claim of the provider that becomes a user detail. The details `email`, `name`, `given_name`, `family_name` and `username` also fill in a new account. " +
			"Without `username` the account gets a made-up one, unless its address is of one of the `domains`. An attribute of SAML goes by its name, its friendly name or the usual short name " +
			"of its object identifier, a member of an object in a claim by a name with dots: `address.locality`.",
	},
	{Word: "constant", Arguments: "<detail> <value>", Repeats: true, Text: "A user detail with the same value for everybody from this provider.", Example: "constant tenant partner"},
	{Word: "level", Arguments: "<1 to 4>", Default: "`1`", Text: "The authentication level of a sign-in there, where `map_level` does not say it.", Example: "level 2"},
	{
		Word: "couple", Arguments: "email", Default: "the person is asked to sign in", Example: "couple email",
		Text: "Links by a verified address: somebody whose address an account here has signs in to that account. An account that also signs in at a provider without this option is not linked this way, " +
			"because that provider could have entered the address. For SAML the provider's `email` counts as verified, unless `email_verified` is mapped and says otherwise; " +
			"if the provider changes the NameID format, the address also moves a link to the new NameID.",
	},
	{
		Word: "identify_by", Arguments: "<attribute>", Example: "identify_by employee_number",
		Text: "An attribute or claim that identifies a person in addition to the name that the provider gives them (NameID, `sub`). It is remembered at each sign-in, and finds the account when that name changes. " +
			"The provider must set it itself and never give its value to anybody else.",
	},
	{
		Word: "domains", Arguments: "<domain>…", Example: "domains partner.example",
		Text: "E-mail domains whose people are sent to this provider. It vouches for addresses of these domains only, and such an address is the username of a new account.",
	},
	{Word: "icon", Arguments: "<file>", Default: "a drawing", Text: "A PNG, JPEG or GIF picture of at most 64 KiB for the sign-in page.", Example: "icon /etc/gatehouse/logo.png"},
	{Word: "timeout", Arguments: "<duration>", Default: "`5s`", Text: "How long a person waits for the provider: 100ms to 5s.", Example: "timeout 3s"},
}, providerOptions...)

// SAML is a provider of SAML 2.0.
var SAML = Block{
	Head: "idp <id> saml", Open: "idp partner saml",
	Text:  "Sign-in at a SAML 2.0 identity provider. Gatehouse's metadata for it is at `/saml/<id>/metadata`. [saml.md](saml.md) is a guide.",
	Needs: "metadata https://idp.partner.example/metadata",
	Options: slices.Concat([]Option{
		{
			Word: "metadata", Arguments: "<file or address>", Default: "required", Example: "metadata https://idp.partner.example/metadata",
			Text: "The metadata of one provider, 1 MiB at most: an https address (http at this machine only), which is read again, or a file, which is looked at every minute. " +
				"What cannot be read changes nothing: the last good metadata is used until its `validUntil`.",
		},
		{
			Word: "metadata_certificate", Arguments: "<file>", Default: "unsigned metadata is accepted", Example: "metadata_certificate /etc/gatehouse/federation.pem",
			Text: "A PEM file: the metadata must be signed by its key. Federations publish one.",
		},
		{Word: "refresh", Arguments: "<duration>", Default: "`cacheDuration` of the metadata, or `1h`", Text: "How old metadata behind an address becomes before it is read again; at least 5m.", Example: "refresh 6h"},
		{Word: "allow_unsolicited", Default: "refused", Text: "Accepts sign-ins that begin at the provider. They can be forced upon a browser, so leave it off unless you need it.", Example: "allow_unsolicited"},
		{
			Word: "sign", Arguments: "<key pair>…", Default: "Gatehouse's own", Example: "sign saml-2026 saml-2027",
			Text: "Key pairs of the [settings](configuration.md) by name, 4 at most. The first one signs, all of them are in Gatehouse's metadata.",
		},
		{Word: "decrypt", Arguments: "<key pair>…", Default: "Gatehouse's own", Text: "Key pairs of the settings by name, 4 at most. All of them decrypt and are in Gatehouse's metadata.", Example: "decrypt saml-2027 saml-2026"},
		{
			Word: "name_id", Arguments: "persistent|transient|email|unspecified|<urn>", Default: "the provider chooses", Example: "name_id persistent",
			Text: "The format of the name that is asked for.",
		},
		{
			Word: "subject", Arguments: "<attribute>", Default: "the NameID; if it is transient, the mapped `email`", Example: "subject eduPersonPrincipalName",
			Text: "The attribute that identifies a person for good.",
		},
		{
			Word: "authn_context", Arguments: "exact|minimum|maximum|better <class>…", Default: "the classes of `map_level` that reach the level which is needed, if it is above 1",
			Example: "authn_context minimum urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport",
			Text:    "The class of sign-in that is asked for. With `exact`, any other class is refused.",
		},
		{
			Word: "map_level", Arguments: "<class> <1 to 4>", Repeats: true, Default: "`level` for all", Example: "map_level urn:oasis:names:tc:SAML:2.0:ac:classes:Smartcard 3",
			Text: "The authentication level of a sign-in, by the class that the provider names.",
		},
		{Word: "provider_name", Arguments: "<text>", Default: "the name of the application", Text: "What the provider shows as the one who asks.", Example: "provider_name The shop"},
		{Word: "artifact", Default: "answers by POST", Text: "Asks for the answer by artifact. The provider's metadata must name an artifact resolution service.", Example: "artifact"},
		{
			Word: "entity_id", Arguments: "<uri>", Default: "the address of Gatehouse's metadata", Example: "entity_id urn:etoegang:DV:00000001123456789000:entities:0001",
			Text: "Gatehouse's own entity ID at the provider, where the provider assigns one.",
		},
		{
			Word: "client_key", Arguments: "<key pair>", Default: "no certificate", Example: "client_key back-channel",
			Text: "The key pair of the settings whose certificate Gatehouse shows when it fetches an answer by artifact.",
		},
		{
			Word: "server_certificate", Arguments: "<key pair>", Default: "any certificate that the system trusts", Example: "server_certificate provider-tls",
			Text: "A key pair of the settings with the certificate that the provider's server must show there, or that of the authority which has issued it. Another one is refused.",
		},
		{
			Word: "scheme", Arguments: "digid|etoegang <lowest level> [<entity ID>]", Example: "scheme etoegang substantial",
			Text: "The provider is DigiD, or a broker of eToegang (eHerkenning, eIDAS), and keeps to the rules of that scheme. The level is `basic`, `middle`, `substantial` or `high`, " +
				"at eToegang `non_existent`, `low`, `low_plus`, `substantial` or `high`; an answer with a lower one is refused. The entity ID is that of the authentication service that a broker sends people to. " +
				"`digid` needs `client_key`. See [saml.md](saml.md#digid-and-etoegang).",
		},
	}, remoteOptions),
}

// OIDC is a provider of OpenID Connect.
var OIDC = Block{
	Head: "idp <id> oidc", Open: "idp corp oidc",
	Text:  "Sign-in at an OpenID provider. The redirect URI to register there is `/oidc/<id>/callback`. [openid-providers.md](openid-providers.md) is a guide.",
	Needs: "issuer https://login.corp.example\nclient_id gatehouse\nclient_secret {env.CORP_SECRET}",
	Options: slices.Concat([]Option{
		{
			Word: "issuer", Arguments: "<url>", Default: "required", Example: "issuer https://login.corp.example",
			Text: "The provider's issuer identifier, exactly as it writes it. Its metadata is below it, at `/.well-known/openid-configuration`.",
		},
		{Word: "client_id", Arguments: "<text>", Default: "required", Text: "What the provider calls Gatehouse.", Example: "client_id gatehouse"},
		{Word: "client_secret", Arguments: "<secret>", Text: "The secret there.", Example: "client_secret {env.CORP_SECRET}"},
		{
			Word: "auth_method", Arguments: "basic|post|private_key_jwt|none", Default: "`basic` with a secret, otherwise `none`", Example: "auth_method post",
			Text: "How Gatehouse authenticates there. `client_secret_basic` and `client_secret_post` are other words for the first two.",
		},
		{
			Word: "key", Arguments: "<key pair>", Default: "Gatehouse's own", Text: "The key pair of the [settings](configuration.md) that signs for `private_key_jwt`.",
			Example: "issuer https://login.corp.example\nclient_id gatehouse\nauth_method private_key_jwt\nkey corp-2026", Instead: "-",
		},
		{
			Word: "key_id", Arguments: "<text>", Default: "its thumbprint, as in Gatehouse's `jwks`", Text: "The `kid` under which the provider knows that key.",
			Example: "issuer https://login.corp.example\nclient_id gatehouse\nauth_method private_key_jwt\nkey_id 7f3a", Instead: "-",
		},
		{
			Word: "decrypt", Arguments: "<key pair>…", Default: "`key`, if encryption is required; otherwise encrypted answers are refused", Example: "decrypt corp-2026",
			Text: "Key pairs that decrypt ID tokens and user info.",
		},
		{Word: "scopes", Arguments: "<scope>…", Default: "`openid`", Text: "The scopes that are asked for; `openid` always is.", Example: "scopes openid email profile"},
		{Word: "claims", Arguments: "<JSON>", Text: "The `claims` parameter (OpenID Connect Core 5.5), a JSON object.", Example: "claims `{\"userinfo\":{\"email\":null}}`"},
		{Word: "response_mode", Arguments: "query|form_post", Default: "`query`", Text: "How the answer comes back.", Example: "response_mode form_post"},
		{Word: "audiences", Arguments: "<client id>…", Text: "Other audiences that an ID token can name besides Gatehouse.", Example: "audiences corp-mobile"},
		{
			Word: "map_level", Arguments: "<acr> <1 to 4>", Repeats: true, Default: "`level` for all", Example: "map_level urn:example:mfa 3",
			Text: "The authentication level of a sign-in, by the `acr` that the provider reports. Those that reach the level which is needed are asked for.",
		},
		{Word: "metadata", Default: "they are discovered", Text: "The addresses of a provider that publishes no metadata.", Blocks: []*Block{&OIDCMetadata}},
		{Word: "metadata_expiration", Arguments: "<duration>", Default: "as the provider's answer says, or `1h`", Text: "How long discovered metadata is used before it is fetched again.", Example: "metadata_expiration 6h"},
		{Word: "id_token_encryption_required", Text: "Refuses ID tokens that are not encrypted.", Example: "id_token_encryption_required"},
		{Word: "user_info_encryption_required", Text: "Refuses user info that is not encrypted.", Example: "user_info_encryption_required"},
		{Word: "front_channel_logout", Text: "The provider can sign people out by a frame, at `/oidc/<id>/frontchannel-logout`.", Example: "front_channel_logout"},
		{
			Word: "email_verified_strings", Arguments: "[on|off]", Default: "`off`: only the boolean counts", Example: "email_verified_strings",
			Text: "`email_verified` counts as the string `\"true\"`, too. At some providers people choose the text of claims, so this is for those that write no boolean.",
		},
		{
			Word: "migrate", Arguments: "password", Default: "passwords are never sent there", Example: "migrate password",
			Text: "People move here: who is unknown here and types a password that the provider's token endpoint accepts (password grant, RFC 6749 4.3) gets an account here with that password, and the provider is not asked about their password again. [moving-in.md](moving-in.md#first-sign-in) explains it.",
		},
	}, remoteOptions),
}

// oidcPreset are the options of OpenID providers whose addresses are known.
func oidcPreset(issuer string) []Option {
	return []Option{
		{Word: "client_id", Arguments: "<text>", Default: "required", Text: "What the provider calls Gatehouse.", Example: "client_id gatehouse"},
		{Word: "client_secret", Arguments: "<secret>", Default: "required", Text: "The secret there.", Example: "client_secret {env.CORP_SECRET}"},
		{Word: "select_account", Default: "the provider decides", Text: "The provider asks which account is meant, even if only one is signed in there.", Example: "select_account"},
		{Word: "scopes", Arguments: "<scope>…", Default: "`openid profile email`", Text: "The scopes that are asked for; `openid` always is.", Example: "scopes openid email"},
		{Word: "issuer", Arguments: "<address>", Default: "`" + issuer + "`", Text: issuerTexts[issuer], Example: "issuer " + issuerExamples[issuer]},
	}
}

const (
	google    = "https://accounts.google.com"
	microsoft = "https://login.microsoftonline.com"
)

var (
	issuerTexts = map[string]string{
		google:    "Another server that behaves like Google, such as a stand-in for tests.",
		microsoft: "The part of the issuer before the tenant, for national clouds.",
	}
	issuerExamples = map[string]string{google: "https://google.test.example", microsoft: "https://login.microsoftonline.us"}
)

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

// Microsoft is Microsoft Entra as an OpenID provider.
var Microsoft = Block{
	Head: "idp <id> microsoft", Open: "idp entra microsoft",
	Text: "Sign-in with an account of Microsoft Entra, or a personal account of Microsoft. The redirect URI to register there is `/oidc/<id>/callback`. A person is known by tenant and `sub`, and by `oid` when the application changes. " +
		"The administrators of a tenant write into addresses what they like: one counts as verified only with the claim `xms_edov`. [openid-providers.md](openid-providers.md#google-and-microsoft) says more.",
	Needs: "client_id gatehouse\nclient_secret {env.CORP_SECRET}",
	Options: slices.Concat(oidcPreset(microsoft), []Option{
		{
			Word: "tenant", Arguments: "common|organizations|consumers|<tenant id>", Default: "`common`", Example: "tenant 72f988bf-86f1-41af-91ab-2d7cd011db47",
			Text: "Whose people can sign in: all accounts, those of organisations, personal ones, or those of one tenant.",
		},
		{
			Word: "tenants", Arguments: "<tenant id>…", Default: "all", Example: "tenant organizations\ntenants 72f988bf-86f1-41af-91ab-2d7cd011db47 b9419818-09af-49c2-b0c3-653adc1f376e",
			Text: "The tenants whose people can sign in, where `tenant` is of several.",
		},
		{Word: "front_channel_logout", Text: "Microsoft can sign people out by a frame, at `/oidc/<id>/frontchannel-logout`.", Example: "front_channel_logout"},
	}, remoteOptions),
}

// AzureADB2C is a directory of Azure AD B2C as an OpenID provider.
var AzureADB2C = Block{
	Head: "idp <id> azure_ad_b2c", Open: "idp customers azure_ad_b2c",
	Text: "Sign-in at a directory of Azure AD B2C. The redirect URI to register there is `/oidc/<id>/callback`. All policies of a directory share their issuer and the client id, so the ID token must name the policy in `tfp` or `acr`. " +
		"[openid-providers.md](openid-providers.md#azure-ad-b2c) says more.",
	Needs: "tenant contoso\npolicy B2C_1_sign_in\nclient_id gatehouse",
	Options: slices.Concat([]Option{
		{Word: "tenant", Arguments: "<name>", Default: "required", Text: "The name of the directory before `.onmicrosoft.com`.", Example: "tenant contoso"},
		{Word: "policy", Arguments: "<name>", Default: "required", Text: "The user flow or custom policy by which people sign in.", Example: "policy B2C_1_sign_in"},
		{Word: "policy_in", Arguments: "path|query", Default: "`path`", Text: "Where addresses have the policy: in the path, or as the parameter `p`.", Example: "policy_in query"},
		{Word: "client_id", Arguments: "<text>", Default: "required", Text: "The application id there.", Example: "client_id gatehouse"},
		{Word: "client_secret", Arguments: "<secret>", Default: "none: a public client", Text: "The secret there.", Example: "client_secret {env.CORP_SECRET}"},
		{Word: "scopes", Arguments: "<scope>…", Default: "`openid`", Text: "The scopes that are asked for; `openid` always is.", Example: "scopes openid offline_access"},
		{Word: "front_channel_logout", Text: "The provider can sign people out by a frame, at `/oidc/<id>/frontchannel-logout`.", Example: "front_channel_logout"},
		{Word: "issuer", Arguments: "<address>", Default: "`https://<tenant>.b2clogin.com`", Text: "The origin of the directory, for a domain of your own.", Example: "issuer https://login.contoso.example"},
	}, remoteOptions),
}

// Apple is Apple as an OpenID provider.
var Apple = Block{
	Head: "idp <id> apple", Open: "idp apple apple",
	Text: "Sign-in with an Apple Account. The return URL to register there is `/oidc/<id>/callback`. Apple knows Gatehouse by a key: add its .p8 file as a key pair of the configuration. " +
		"Addresses that Apple has made to hide another one link no account without asking. [openid-providers.md](openid-providers.md#apple) says more.",
	Needs: "client_id com.example.auth\nteam_id ABCDE12345\nkey_id FGHIJ67890\nkey apple",
	Options: slices.Concat([]Option{
		{Word: "client_id", Arguments: "<text>", Default: "required", Text: "The identifier of the Services ID.", Example: "client_id com.example.auth"},
		{Word: "team_id", Arguments: "<text>", Default: "required", Text: "The team: ten capitals and digits.", Example: "team_id ABCDE12345"},
		{Word: "key_id", Arguments: "<text>", Default: "required", Text: "What Apple calls the key.", Example: "key_id FGHIJ67890"},
		{Word: "key", Arguments: "<key pair>", Default: "required", Text: "The key pair with that key. It signs the client secret, which is made anew every few minutes.", Example: "key apple"},
		{Word: "scopes", Arguments: "<scope>…", Default: "`name email`", Text: "The scopes that are asked for; `openid` always is. With `name` or `email` Apple answers by a form (`form_post`).", Example: "scopes email"},
		{Word: "jwks_uri", Arguments: "<address>", Default: "as Apple's metadata say", Text: "Where Apple's keys are.", Example: "jwks_uri https://appleid.apple.com/auth/keys"},
		{
			Word: "domain_verification_file", Arguments: "<file>", Default: "none", Example: "domain_verification_file /etc/gatehouse/apple-developer-domain-association.txt",
			Text: "The file by which Apple checks that the domain is yours. It is served at `/.well-known/apple-developer-domain-association.txt`, also while the provider is `disabled`.",
		},
		{Word: "issuer", Arguments: "<address>", Default: "`https://appleid.apple.com`", Text: "Another server that behaves like Apple, such as a stand-in for tests.", Example: "issuer https://apple.test.example"},
	}, remoteOptions),
}

// Itsme is itsme as an OpenID provider.
var Itsme = Block{
	Head: "idp <id> itsme", Open: "idp itsme itsme",
	Text: "Sign-in with itsme, the Belgian mobile identity. The redirect URI to register there is `/oidc/<id>/callback`, and the address of the keys `/oidc/<id>/jwks`. " +
		"All that itsme tells is encrypted for Gatehouse, and refused otherwise. [openid-providers.md](openid-providers.md#itsme) says more.",
	Needs: "client_id gatehouse\nservice_code MY_LOGIN",
	Options: slices.Concat([]Option{
		{Word: "client_id", Arguments: "<text>", Default: "required", Text: "What itsme calls Gatehouse: the partner code.", Example: "client_id gatehouse"},
		{Word: "service_code", Arguments: "<text>", Default: "required", Text: "The code of the login service. It is asked for as the scope `service:<code>`.", Example: "service_code MY_LOGIN"},
		{
			Word: "security_level", Arguments: "basic|advanced", Default: "`basic`", Example: "security_level advanced",
			Text: "What people sign in with at least: `basic` is a fingerprint, a face or the itsme code, `advanced` the itsme code. A sign-in below it is refused by its `acr`. Where an application demands a level that only `advanced` reaches, that is asked for.",
		},
		{Word: "key", Arguments: "<key pair>", Default: "Gatehouse's own", Text: "The RSA key pair that signs for Gatehouse and decrypts what itsme tells.", Example: "key itsme"},
		{Word: "scopes", Arguments: "<scope>…", Default: "`profile email`", Text: "The scopes that are asked for, such as `address`, `phone` and `eid`; `openid` and the service always are.", Example: "scopes profile eid"},
		{Word: "claims", Arguments: "<claim>…", Default: "none", Text: "Claims that are asked for by name, besides those of the scopes.", Example: "claims http://itsme.services/v2/claim/BENationalNumber"},
		{
			Word: "map_level", Arguments: "<acr> <1 to 4>", Repeats: true, Default: "2 for basic, 3 for advanced; with `level`, that for both", Example: "map_level http://itsme.services/v2/claim/acr_basic 2\nmap_level http://itsme.services/v2/claim/acr_advanced 4",
			Text: "The authentication level that a sign-in has by its `acr`.",
		},
		{Word: "discovery_url", Arguments: "<address>", Default: "below the issuer", Text: "Where the metadata are: itsme has an environment for tests.", Example: "discovery_url https://idp.e2e.itsme.services/v2/.well-known/openid-configuration"},
		{Word: "metadata_expiration", Arguments: "<duration>", Default: "as itsme says, or `1h`", Text: "How long metadata are used before they are fetched again.", Example: "metadata_expiration 6h"},
		{Word: "front_channel_logout", Text: "itsme can sign people out by a frame, at `/oidc/<id>/frontchannel-logout`.", Example: "front_channel_logout"},
		{Word: "issuer", Arguments: "<address>", Default: "`https://idp.prd.itsme.services/v2`, or what stands before the well-known path in `discovery_url`", Text: "The issuer.", Example: "issuer https://idp.e2e.itsme.services/v2"},
	}, remoteOptions),
}

// oauth2Addresses are the addresses of a provider of OAuth 2.0.
var oauth2Addresses = []Option{
	{Word: "client_id", Arguments: "<text>", Default: "required", Text: "What the provider calls Gatehouse.", Example: "client_id Iv1.8a61f9b3a7aba766"},
	{Word: "client_secret", Arguments: "<secret>", Default: "required", Text: "The secret there.", Example: "client_secret {env.CODE_SECRET}"},
}

// OAuth2 is a provider of OAuth 2.0 without OpenID Connect.
var OAuth2 = Block{
	Head: "idp <id> oauth2", Open: "idp forge oauth2",
	Text: "Sign-in at a provider that speaks OAuth 2.0 without OpenID Connect: who a person is stands in a profile. The redirect URI to register there is `/oidc/<id>/callback`. " +
		"Such providers do not say when a person signed in, so applications that ask for a fresh sign-in are refused.",
	Needs: "client_id gatehouse\nclient_secret {env.FORGE_SECRET}\nauthorization_url https://forge.example/login/oauth/authorize\n" +
		"token_url https://forge.example/login/oauth/access_token\nprofile_url https://forge.example/api/v1/user\nsubject id",
	Options: slices.Concat(oauth2Addresses, []Option{
		{Word: "auth_method", Arguments: "basic|post", Default: "`post`", Text: "How Gatehouse authenticates at the token endpoint.", Example: "auth_method basic"},
		{Word: "scopes", Arguments: "<scope>…", Default: "none", Text: "The scopes that are asked for.", Example: "scopes read:user"},
		{Word: "authorization_url", Arguments: "<address>", Default: "required", Text: "Where browsers are sent.", Example: "authorization_url https://forge.example/login/oauth/authorize"},
		{Word: "token_url", Arguments: "<address>", Default: "required", Text: "The token endpoint.", Example: "token_url https://forge.example/login/oauth/access_token"},
		{Word: "profile_url", Arguments: "<address>", Default: "required", Text: "Where the profile of a person is: a JSON object.", Example: "profile_url https://forge.example/api/v1/user"},
		{
			Word: "subject", Arguments: "<member>", Default: "required", Example: "subject id",
			Text: "The member of the profile that identifies a person for good, with dots for members of objects: `data.id`. The provider must never give its value to anybody else, as some do with usernames.",
		},
		{Word: "email", Arguments: "<member>", Default: "none", Text: "The member with the e-mail address.", Example: "email email"},
		{Word: "email_verified", Arguments: "<member>", Default: "no address counts as verified", Text: "The member that is `true` if the provider has checked the address.", Example: "email email\nemail_verified verified"},
	}, remoteOptions),
}

// OAuth2Preset is a provider of OAuth 2.0 whose addresses are known.
var OAuth2Preset = Block{
	Head: "idp <id> github", Open: "idp code github",
	Text: "Sign-in at GitHub. In place of `github` it can be `discord`, `facebook`, `linkedin` or `twitter`, which is X. The redirect URI to register there is `/oidc/<id>/callback`. The addresses are known; they can be given for GitHub Enterprise Server. " +
		"[openid-providers.md](openid-providers.md#presets) says what each of them tells of people.",
	Needs: "client_id Iv1.8a61f9b3a7aba766\nclient_secret {env.CODE_SECRET}",
	Options: slices.Concat(oauth2Addresses, []Option{
		{Word: "scopes", Arguments: "<scope>…", Default: "those for profile and address", Text: "The scopes that are asked for.", Example: "scopes read:user user:email read:org"},
		{Word: "authorization_url", Arguments: "<address>", Default: "the provider's", Text: "Where browsers are sent.", Example: "authorization_url https://github.corp.example/login/oauth/authorize"},
		{Word: "token_url", Arguments: "<address>", Default: "the provider's", Text: "The token endpoint.", Example: "token_url https://github.corp.example/login/oauth/access_token"},
		{Word: "profile_url", Arguments: "<address>", Default: "the provider's", Text: "Where the profile of a person is.", Example: "profile_url https://github.corp.example/api/v3/user"},
		{Word: "emails_url", Arguments: "<address>", Default: "`emails` below a `profile_url` of GitHub Enterprise Server, otherwise the provider's", Text: "Where the e-mail addresses of a person at GitHub are.", Example: "emails_url https://github.corp.example/api/v3/user/emails"},
	}, remoteOptions),
}

// OIDCMetadata are the addresses of a provider.
var OIDCMetadata = Block{
	Head: "metadata",
	Text: "The addresses of a provider that publishes no metadata. They replace discovery.",
	Needs: `authorization_url https://login.corp.example/authorize
token_url https://login.corp.example/token
jwks_url https://login.corp.example/keys`,
	Options: []Option{
		{Word: "authorization_url", Arguments: "<url>", Default: "required", Text: "Where browsers are sent to sign in.", Example: "authorization_url https://login.corp.example/authorize"},
		{Word: "token_url", Arguments: "<url>", Default: "required", Text: "The token endpoint.", Example: "token_url https://login.corp.example/token"},
		{Word: "jwks_url", Arguments: "<url>", Default: "required", Text: "The keys.", Example: "jwks_url https://login.corp.example/keys"},
		{Word: "user_info_url", Arguments: "<url>", Text: "The user info endpoint.", Example: "user_info_url https://login.corp.example/userinfo"},
		{Word: "end_session_url", Arguments: "<url>", Text: "Where browsers are sent to sign out.", Example: "end_session_url https://login.corp.example/logout"},
	},
}

// HeaderIDP is a proxy that has established who somebody is.
var HeaderIDP = Block{
	Head: "idp <id> header", Open: "idp edge header",
	Text:  "An identity that a proxy in front has established, in headers of the request. Only the address of the direct peer counts. From every other peer these headers are deleted.",
	Needs: "trust 10.0.0.0/8\nuser X-Remote-User",
	Options: slices.Concat([]Option{
		{Word: "trust", Arguments: "<network>…", Default: "required", Text: "The addresses or networks of the proxies.", Example: "trust 10.0.0.0/8"},
		{Word: "user", Arguments: "<header>", Default: "required", Text: "The header with the username.", Example: "user X-Remote-User"},
		{
			Word: "level", Arguments: "<header>|<1 to 4>", Repeats: true, Default: "`1`", Example: "level X-Remote-Level\nlevel 2",
			Text: "The header with the authentication level, or the level itself. Both can be set: the number counts where the header is absent.",
		},
		{Word: "attributes", Arguments: "<header> <detail>", Repeats: true, Text: "A header that becomes a user detail.", Example: "attributes X-Remote-Email email"},
		{Word: "parameters", Arguments: "<name>…", Text: "Parameters of the authorization request that become user details.", Example: "parameters branch"},
	}, providerOptions),
}
