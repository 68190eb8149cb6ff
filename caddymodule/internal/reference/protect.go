package reference

// Protect is the directive in front of upstreams.
var Protect = Block{
	Head: "protect [<matcher>] [<scope>…]", Open: "protect",
	Text: "Lets a request pass only with a bearer token of this issuer or, with `login`, the session of a browser. A site with `login` takes only bearer tokens that `audience`, `scopes` or `clients` name. Arguments are scopes that a bearer token must have. " +
		"A matcher selects the requests that need a credential; all others go on without one, and without the identity headers and cookies that only Gatehouse may set. " +
		"Upstreams read the headers of `headers`, other directives the placeholders `{http.auth.user.id}` and `{http.auth.user.<claim>}`. " +
		"Caddy runs it before `request_header`, `handle`, `route` and everything that answers.",
	Bare: true, Sample: "login\ngroups staff",
	Options: []Option{
		{
			Word: "login", Arguments: "[<origin>…]", Default: "bearer tokens only", Example: "login",
			Text: "Browsers without a session are sent to sign in and come back. The origins are those under which browsers see the site; by default those of its addresses.",
		},
		{
			Word: "scopes", Arguments: "<scope>…",
			Text:    "Scopes that a bearer token must have, all of them. A browser session has them once it has the level that they need.",
			Example: "scopes openid orders.read",
		},
		{
			Word: "groups", Arguments: "<group>…", Default: "everybody, and clients with a token of their own",
			Text: "The person must be in at least one of these groups.", Example: "login\ngroups staff admins",
		},
		{
			Word: "partition", Arguments: "<name>…|*", Default: "`default`, which is everybody where there are no partitions",
			Text: "The partitions whose people can pass; `*` stands for all.", Example: "partition north",
		},
		{
			Word: "level", Arguments: "<1 to 4>", Default: "any",
			Text:    "The minimum authentication level. Clients get the challenge of RFC 9470, browsers are sent to a second factor.",
			Example: "level 2",
		},
		{
			Word: "audience", Arguments: "<uri>…", Default: "a token without an audience, or one for the origin of the site",
			Example: "audience https://api.example.com",
			Text:    "A bearer token must name at least one of these resources (RFC 8707).",
		},
		{
			Word: "clients", Arguments: "<client id>…", Default: "any; with `login` those that `audience` or `scopes` name",
			Example: "login\nclients backup",
			Text:    "The clients whose bearer tokens are accepted. Those that have registered themselves also need a scope or an audience.",
		},
		{
			Word: "tokens", Arguments: "any",
			Default: "with `login` only tokens that `audience`, `scopes` or `clients` name, or that are for the origin of the site",
			Example: "login\ntokens any",
			Text:    "A site with `login` accepts every access token of this issuer that is meant for no other resource, including those of clients that have registered themselves. See [bearer tokens](decisions/gateway.md#bearer-tokens).",
		},
		{
			Word: "headers", Arguments: "<header> <claim>", Repeats: true,
			Default: "`Remote-User` username, `Remote-Name` name, `Remote-Email` email, `Remote-Groups` groups",
			Example: "headers Remote-User sub\nheaders Remote-Email email",
			Text: "A header that carries a claim to the upstream, instead of the four of the default, which are deleted from requests in any case. " +
				"Claims are `sub`, `username`, `name`, `email`, `groups`, `client_id`, `scope`, `acr`, `identity_assurance_level`, `authorization_details` and those of the profile.",
		},
		{
			Word: "assertion", Arguments: "[<header>] [ES256|ML-DSA-44|ML-DSA-65|ML-DSA-87]",
			Default: "none; with the option alone `Remote-Assertion`, which is deleted from requests in any case", Example: "login\nassertion",
			Blocks: []*Block{&TransactionToken},
			Text: "A header with a signed token by which the upstream can verify that this very request passed, who made it, and for which site: see [assertion.md](assertion.md). It is signed with ES256 unless another algorithm is named. " +
				"The site needs an address with a host. Requests that need no credential have no assertion.",
		},
		{
			Word: "public", Arguments: "<path>…", Example: "public /healthz /assets/*",
			Text: "Paths that need no credential: exact ones, and with `/*` at the end all below. With this option a request whose path is not canonical is refused.",
		},
		siteNeed, sitePolicy, siteAllow, siteDeny,
		{Word: "shadow", Default: "none", Text: "Rules that are tried and not enforced.", Blocks: []*Block{&Shadow}},
		{
			Word: "limit", Arguments: "<number>/<period> per client|person|app_password|session|token|ip|site|claim <name> [burst <number>]", Repeats: true,
			Default: "no limit", Blocks: []*Block{&Limit}, Example: "limit 100/min per client burst 20\nlimit 20/s per ip",
			Text: "A rate limit. Requests above it are answered with 429.",
		},
		{
			Word: "quota", Arguments: "<number>/<period> per client|person|app_password|session|token|site|claim <name>", Repeats: true,
			Default: "any number", Blocks: []*Block{&Quota}, Example: "quota 10000/30d per client",
			Text: "A number of requests in a period, kept over restarts.",
		},
		{
			Word: "plan", Default: "plans do not apply here", Example: "plan",
			Text: "The [plans](#plan) of clients and groups apply here.",
		},
		{
			Word: "audit", Arguments: "[log]", Default: "calls are not recorded, except by rules with `audit`", Example: "audit log",
			Text: "Each call that passes with a credential is recorded: who, what, when, how it ended. `audit` makes an event of each, `audit log` writes to a log of calls that events confirm. See [audit.md](audit.md).",
		},
		{
			Word: "preflight", Default: "they need a credential too",
			Text: "CORS preflights go on without a credential, for APIs that scripts of other origins call.", Example: "preflight",
		},
		{
			Word: "session", Arguments: "<duration>", Default: "any, while the session of the issuer lasts",
			Text: "The oldest sign-in that the site accepts from a browser.", Example: "login\nsession 12h",
		},
		{
			Word: "replay", Arguments: "on|off", Default: "off: the form is lost, and a page says so", Example: "login\nreplay on",
			Text: "A form that is sent after the session has ended is kept for ten minutes, encrypted, and the person can send it after signing in again. " +
				"It is kept only if a page of the site sent it, from a browser that was signed in there before, and up to 256 KiB, small files included.",
		},
		{
			Word: "request_access", Arguments: "on|off", Default: "off: the page says whom to ask",
			Example: "login\ngroups staff\nrequest_access on",
			Text: "People who are refused by the groups, needs or rules of the site can ask for access on the error page. " +
				"`caddy gatehouse access` grants it for a time or a number of uses; `deny` rules, levels and the age of a sign-in apply to them too.",
		},
		{
			Word: "device_bound", Arguments: "off", Default: "as `identity` says", Example: "login\ndevice_bound off",
			Text: "New sessions at the site are not bound to the device of the browser although `identity` has `device_bound on`. Those that are bound stay bound.",
		},
		{Word: "strip_token", Default: "it is passed on", Text: "The bearer token is not passed on to the upstream.", Example: "strip_token"},
		{
			Word: "upstream_token", Arguments: "<audience>", Default: "the client's own token", Example: "upstream_token https://stock.example.com",
			Text: "The upstream gets, in place of the client's token, one that is meant for this audience: a JWT of the same client and person with the same scopes, which ends with the client's. It excludes `login`, `accept` and `introspect`. See [upstream tokens](decisions/gateway.md#upstream-tokens).",
		},
		{
			Word: "accept", Arguments: "app_passwords", Default: "bearer tokens, and with `login` sessions", Example: "login\naccept app_passwords",
			Text: "App passwords are accepted too: secrets that people make on their account pages for one program, for this site, with scopes, an expiry and a number of uses. " +
				"Programs send them as a bearer token or as the password of Basic, with any username. The password of an account is never accepted. " +
				"Neither an app password nor a Basic header reaches the upstream. Browsers with `login` are sent to sign in and see no prompt. It excludes `introspect`.",
		},
		{
			Word: "introspect", Arguments: "<url>", Default: "tokens of this issuer", Blocks: []*Block{&Introspect},
			Text: "Bearer tokens are those of another authorization server, which is asked about each. It excludes `login`.",
		},
		{
			Word: "mcp", Arguments: "[<resource>]", Default: "clients are told nothing", Blocks: []*Block{&MCP},
			Text: "The site is a resource server of the Model Context Protocol.",
		},
	},
}
