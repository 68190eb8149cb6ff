package reference

// Policy is a named list of rules.
var Policy = Block{
	Head: "policy <name>", Open: "policy office",
	Text: "Rules that several sites share: who may do what, where and when. A site names the policy in `protect { policy … }`, or has rules of its own there. " +
		"A `deny` rule that fits always wins. Otherwise the first `allow` rule decides whose requests and hours fit and whose needs the person meets, or would meet after a sign-in: then the browser is sent to sign in, or to a second factor. " +
		"If there are `allow` rules and none fits, the request is refused; without any, the other options of the site decide. Where a rule asks for the path, a request whose path is not canonical is refused. A policy can also be stored by the [configuration API](api.md#policies).",
	Sample: "deny {\n\tmatch path /hr/*\n\tmatch not client_ip 10.0.0.0/8\n\tmessage \"Only from the office network.\"\n}\nallow {\n\tmatch path /admin/*\n\tneed groups admins\n\tneed level 3\n}\nallow {\n\tneed groups staff\n\twhen mon-fri 07:00-19:00 Europe/Amsterdam\n}",
	Options: []Option{
		{Word: "allow", Repeats: true, Text: "A rule that lets in. Their order counts.", Blocks: []*Block{&Allow}},
		{Word: "deny", Repeats: true, Text: "A rule that refuses, before every `allow` rule.", Blocks: []*Block{&Deny}},
		{
			Word: "public", Arguments: "<path>…",
			Text: "Paths that need no credential, as in `protect`. A `deny` rule without `need` holds for them, too.", Example: "public /healthz",
		},
	},
}

var (
	ruleName = Option{
		Word: "name", Arguments: "<name>", Default: "its file and line",
		Text: "What logs and explanations call the rule.", Example: "name admins",
	}
	ruleMatch = Option{
		Word: "match", Arguments: "<matcher> …", Repeats: true, Default: "every request",
		Example: "match path /admin/*\nmatch method POST DELETE",
		Text:    "The requests that the rule is about, by any [matcher of Caddy](https://caddyserver.com/docs/caddyfile/matchers#standard-matchers). Several lines must all match; of one matcher on several lines, they add up as in a named matcher. Two more matchers are Gatehouse's own: `agent <domain>…` for requests that a [robot](robots.md) of the domain has signed, and `robot` for those of any robot.",
	}
	ruleNeed = Option{
		Word: "need", Arguments: "groups|scopes|person|client|provider|level|assurance|max_age|device_bound|agent|claim [<value>…]", Repeats: true,
		Default: "a signed-in person, or a token",
		Example: "need groups admins auditors\nneed level 3\nneed assurance 2\nneed claim department finance",
		Text: "What is asked of the caller, all of it: one of `groups`, all `scopes` (a browser session has them once it has the levels that they need), one of the `person`s by username or id, one of the `client`s, one of the `provider`s of the sign-in, " +
			"a least `level`, a least [identity `assurance` level](decisions/events.md#identity-assurance), a `max_age` of the sign-in, a session that is [bound to the device](device-bound-sessions.md) of the browser (`device_bound`, without a value), a `claim` with one of the values. A client with a token of its own has no groups, no levels and no sign-in. In a rule, `agent <domain>…` lets a [robot](robots.md) pass that has signed the request, without a sign-in; it stands alone.",
	}
	ruleWhen = Option{
		Word: "when", Arguments: "[<days>] <from>-<to> <zone>", Repeats: true, Default: "always",
		Example: "when mon-fri 07:00-19:00 Europe/Amsterdam",
		Text:    "When the rule holds, by the clocks of a time zone of the IANA database. Several lines add up. A time that ends before it begins passes midnight and belongs to the day on which it begins.",
	}
	siteNeed = Option{
		Word: "need", Arguments: ruleNeed.Arguments, Repeats: true, Example: "login\nneed claim department finance",
		Text: "What is asked of every request, in addition to the options above, as in a [rule](#policy-allow).",
	}
	sitePolicy = Option{
		Word: "policy", Arguments: "<name>…",
		Text: "The [policies](#policy) whose rules hold here, in this order, before those of the site itself. One that is not in the Caddyfile is looked for in the [configuration API](api.md#policies); while it is nowhere, no one passes.", Example: "login\npolicy office",
	}
	siteAllow = Option{
		Word: "allow", Arguments: "{ … }", Repeats: true, Text: "A rule of this site that lets in, as in a [policy](#policy-allow).",
		Example: "login\nallow {\n\tmatch path /admin/*\n\tneed groups admins\n}\nallow {\n\tmatch not path /admin/*\n}",
	}
	siteDeny = Option{
		Word: "deny", Arguments: "{ … }", Repeats: true, Text: "A rule of this site that refuses, as in a [policy](#policy-deny).",
		Example: "login\ndeny {\n\tmatch method DELETE\n\tneed groups guests\n}",
	}
)
