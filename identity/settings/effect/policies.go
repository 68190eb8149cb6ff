package effect

var policies = []Effect{
	does("policies{}.allow[].*", "A rule that lets in the callers who meet its needs, at the requests and hours that it names. It means what the same words mean in `allow` of a policy of the Caddyfile: [caddyfile.md](caddyfile/policy-allow.md).", "PolicyOfTheAPIHoldsAtOnce"),
	does("policies{}.deny[].*", "A rule that refuses, before every rule that lets in: [caddyfile.md](caddyfile/policy-deny.md).",
		"PolicyOfTheAPIHoldsAtOnce"),
	does("policies{}.public", "Paths that are open to everybody: /healthz, or /assets/* for all below.", "PolicyOfTheAPIHoldsAtOnce"),
}
