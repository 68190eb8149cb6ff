package layout

import (
	"cmp"
	"strings"
)

// MemberLabel returns the key of the label of a member of the settings. Members of a login method go by their last
// word, since many types have the same ones.
func MemberLabel(path string) string {
	if strings.HasPrefix(path, "login_methods.login_methods[") {
		return "console.provider_member." + path[strings.LastIndexByte(path, '.')+1:]
	}
	return "console.member." + path
}

// MemberHint returns the key of the sentence that says what a member of the settings does.
func MemberHint(path string) string { return MemberLabel(path) + ".hint" }

// WordLabel returns the key of the label of a word that is the value of a member.
func WordLabel(word string) string { return "console.word." + cmp.Or(word, "none") }
