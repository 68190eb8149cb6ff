package reference

// Allow is a rule that lets in.
var Allow = Block{
	Head: "allow", Text: "A rule that lets in the people and clients who meet its needs. It fits if all of its parts do; a part that is left out fits everything.",
	Options: []Option{ruleName, ruleMatch, ruleNeed, ruleWhen, {
		Word: "audit", Arguments: "[log]", Default: "as the [site](#protect) says", Example: "match method POST\naudit log",
		Text: "Each call that the rule lets pass is recorded, as at a [site](#protect).",
	}},
}
