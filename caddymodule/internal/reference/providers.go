package reference

// providerOptions are the options of every identity provider.
var providerOptions = []Option{
	{Word: "name", Arguments: "<text>", Default: "the id", Text: "What people and events call the provider.", Example: "name Partner account"},
	{Word: "disabled", Text: "The provider is switched off and signs no one in.", Example: "disabled"},
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
	{
		Word: "constant", Arguments: "<detail> <value>", Repeats: true,
		Text: "A user detail with the same value for everybody from this provider.", Example: "constant tenant partner",
	},
	{
		Word: "level", Arguments: "<1 to 4>", Default: "`1`",
		Text: "The authentication level of a sign-in there, where `map_level` does not say it.", Example: "level 2",
	},
	{
		Word: "couple", Arguments: "email", Default: "the person is asked to sign in", Example: "couple email",
		Text: "Links by a verified address: someone whose address an account here has signs in to that account. An account that also signs in at a provider without this option is not linked this way, " +
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
	{
		Word: "icon", Arguments: "<file>", Default: "a drawing", Text: "A PNG, JPEG or GIF picture of at most 64 KiB for the sign-in page.",
		Example: "icon /etc/gatehouse/logo.png",
	},
	{
		Word: "timeout", Arguments: "<duration>", Default: "`5s`", Text: "How long a person waits for the provider: 100ms to 5s.",
		Example: "timeout 3s",
	},
}, providerOptions...)

// oidcPreset are the options of OpenID providers whose addresses are known.
func oidcPreset(issuer string) []Option {
	return []Option{
		{Word: "client_id", Arguments: "<text>", Default: "required", Text: "What the provider calls Gatehouse.", Example: "client_id gatehouse"},
		{
			Word: "client_secret", Arguments: "<secret>", Default: "required", Text: "The secret there.",
			Example: "client_secret {env.CORP_SECRET}",
		},
		{
			Word: "select_account", Default: "the provider decides",
			Text: "The provider asks which account is meant, even if only one is signed in there.", Example: "select_account",
		},
		{
			Word: "scopes", Arguments: "<scope>…", Default: "`openid profile email`", Text: "The scopes that are asked for; `openid` always is.",
			Example: "scopes openid email",
		},
		{
			Word: "issuer", Arguments: "<address>", Default: "`" + issuer + "`", Text: issuerTexts[issuer],
			Example: "issuer " + issuerExamples[issuer],
		},
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

// oauth2Addresses are the addresses of a provider of OAuth 2.0.
var oauth2Addresses = []Option{
	{
		Word: "client_id", Arguments: "<text>", Default: "required", Text: "What the provider calls Gatehouse.",
		Example: "client_id Iv1.8a61f9b3a7aba766",
	},
	{Word: "client_secret", Arguments: "<secret>", Default: "required", Text: "The secret there.", Example: "client_secret {env.CODE_SECRET}"},
}
