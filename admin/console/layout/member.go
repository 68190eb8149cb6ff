package layout

import (
	"cmp"
	"strings"
)

var (
	entries = strings.NewReplacer("[]", "", "{}", "")
	// told are the attributes that service providers are told: the same of an organisation and of one of them.
	told = strings.NewReplacer(
		"service_providers.identity", "identity", "user_profile_attributes.identity", "identity",
		"service_providers.custom_attribute", "custom_attribute", "user_profile_attributes.custom_attribute", "custom_attribute",
	)
)

// MemberLabel returns the key of the label of a member of the settings. Members of a login method go by their last
// word, since many types have the same ones, and those of its lists by that of the list too.
func MemberLabel(path string) string {
	if rest, of := strings.CutPrefix(path, "login_methods.login_methods["); of {
		list, member := "", rest[strings.LastIndexByte(rest, '.')+1:]
		if i := strings.LastIndex(rest, "[]."); i > 0 {
			list = rest[strings.LastIndexByte(rest[:i], '.')+1:i] + "."
		}
		return "console.provider_member." + list + member
	}
	return "console.member." + told.Replace(entries.Replace(path))
}

// MemberHint returns the key of the sentence that says what a member of the settings does.
func MemberHint(path string) string { return MemberLabel(path) + ".hint" }

// WordLabel returns the key of the label of a word that is the value of a member.
func WordLabel(word string) string { return "console.word." + cmp.Or(word, "none") }
