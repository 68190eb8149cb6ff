package reference

// Deny is a rule that refuses.
var Deny = Block{
	Head: "deny", Text: "A rule that refuses. It fits if all of its parts do; a part that is left out fits everything. With `need` it is about the persons and clients who meet it.",
	Needs: "match path /hr/*",
	Options: []Option{
		ruleName, ruleMatch, ruleNeed, ruleWhen,
		{
			Word: "message", Arguments: "<text>", Default: "the usual page",
			Text: "What people read who are refused by this rule, instead of the usual page.", Example: "message \"Only from the office network.\"",
		},
	},
}
