package reference

// Limit is a limit of speed.
var Limit = Block{
	Head: "limit <number/period>", Open: "limit 100/min per client burst 20", Bare: true,
	Text: "A limit of speed, for each caller of a kind. The periods are `s`, `min`, `h` and `d`, also several of them, such as `5/10min`; K and M are thousands and millions. " +
		"`burst` is how many requests can come at once; by default as many as the limit has in its period. In any period at most the limit and the burst pass. See [limits.md](limits.md).",
	Options: []Option{{
		Word: "match", Arguments: ruleMatch.Arguments, Repeats: true, Default: "every request", Example: "match method POST",
		Text: "The requests that are counted, as in a [rule](#policy-allow).",
	}},
}

// Quota is a number of requests in a period.
var Quota = Block{
	Head: "quota <number/period>", Open: "quota 10000/30d per client", Bare: true,
	Text: "A number of requests in a whole period, for each caller of a kind. The periods are those of a [limit](#protect-limit), and `month`, a calendar month in UTC. What was used is kept over restarts. See [limits.md](limits.md).",
	Options: []Option{{
		Word: "match", Arguments: ruleMatch.Arguments, Repeats: true, Default: "every request", Example: "match method POST",
		Text: "The requests that are counted, as in a [rule](#policy-allow).",
	}},
}

// Plan is the limits of those who hold it.
var Plan = Block{
	Head: "plan <name>", Open: "plan gold",
	Text: "Limits and quotas that clients and people have at all sites with [`plan`](#protect) together. The plan of the client counts; without one that of the person's first group with a plan, in the order of the blocks `group`; without one the default plan.",
	Options: []Option{
		{
			Word: "limit", Arguments: "<number>/<period> [per <kind>] [burst <number>]", Repeats: true, Example: "limit 1000/min burst 100",
			Text: "A limit of speed, as in a [site](#protect-limit), per client, person, app_password, session, token or claim.", Default: "none; without `per` it counts the client or the person that has the plan",
		},
		{
			Word: "quota", Arguments: "<number>/<period> [per <kind>]", Repeats: true, Example: "quota 1M/month",
			Text: "A number of requests in a period, as in a [site](#protect-quota).", Default: "none; without `per` it counts the client or the person that has the plan",
		},
		{
			Word: "default", Default: "those without a plan are not counted", Example: "limit 60/min\ndefault",
			Text: "The plan is that of every person without another, and of every client that acts for itself.",
		},
	},
	Needs: "limit 60/min",
}

// Group has the plan of a group.
var Group = Block{
	Head: "group <name>", Open: "group staff", Text: "The plan of the people in a group.",
	Around: "plan gold {\n\tlimit 1000/min\n}",
	Options: []Option{
		{Word: "plan", Arguments: "<name>", Default: "required", Example: "plan gold", Text: "The [plan](#plan)."},
	},
}
