package authn

import "strings"

// Turns reports whether a text has a character that changes the direction of what follows it: a name with one would
// change how the sentence around it reads.
func Turns(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c >= '\u202a' && c <= '\u202e' || c >= '\u2066' && c <= '\u2069' })
}
