package reference

// Allow is a rule that lets in.
var Allow = Block{
	Head: "allow", Text: "A rule that lets in the people and clients who meet its needs. It fits if all of its parts do; a part that is left out fits everything.",
	Options: []Option{ruleName, ruleMatch, ruleNeed, ruleWhen},
}
