package reference

// Shadow is rules that are tried.
var Shadow = Block{
	Head: "shadow", Open: "shadow",
	Text: "Rules that are tried on every request that needs a credential, and not enforced: what they would decide is counted and kept, and `caddy gatehouse policy diff` lists the people and paths that would change sides. " +
		"They stand in place of `need`, `policy`, `allow` and `deny` of the site; scopes, groups, level and the other options hold for both.",
	Sample: "allow {\n\tmatch path /admin/*\n\tneed groups admins\n}\nallow {\n\tmatch not path /admin/*\n\tneed groups staff\n}",
	Options: []Option{
		{
			Word: "need", Arguments: ruleNeed.Arguments, Repeats: true, Example: "need claim department finance",
			Text: "What is asked of every request, as in `protect`.",
		},
		{
			Word: "policy", Arguments: "<name>…", Example: "policy office",
			Text: "[Policies](#policy) that are tried, in this order, before the rules of the block.",
		},
		{
			Word: "allow", Arguments: "{ … }", Repeats: true, Example: "allow {\n\tneed groups staff\n}",
			Text: "A rule that lets in, as in a [policy](#policy-allow).",
		},
		{
			Word: "deny", Arguments: "{ … }", Repeats: true, Example: "deny {\n\tmatch method DELETE\n}",
			Text: "A rule that refuses, as in a [policy](#policy-deny).",
		},
		{
			Word: "limit", Arguments: "<number>/<period> per client|person|app_password|session|token|ip|site|claim <name> [burst <number>]", Repeats: true,
			Text:    "A [limit](#protect-limit) that is tried: it counts the requests that the rules of the block let pass, for itself, and refuses none. In a block without rules those of the site count.",
			Example: "limit 100/min per client",
			Blocks:  []*Block{&Limit},
		},
	},
}
