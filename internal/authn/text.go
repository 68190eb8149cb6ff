package authn

import (
	"strings"
	"unicode"
)

// Turns reports whether a text has a character that changes the direction of what follows it: a name with one would
// change how the sentence around it reads.
func Turns(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c >= '\u202a' && c <= '\u202e' || c >= '\u2066' && c <= '\u2069' })
}

// Visible returns a text without the characters that show nothing, with which two names look the same. Joiners stay
// where scripts and emoji need them.
func Visible(s string) string {
	var before rune
	return strings.Map(func(c rune) rune {
		joins := (c == '\u200c' || c == '\u200d') && before > unicode.MaxLatin1
		if !joins && (unicode.Is(unicode.Cf, c) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c)) {
			return -1
		}
		before = c
		return c
	}, s)
}
