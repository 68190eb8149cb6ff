package personindex

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

const (
	maxWords = 20 // of a person
	maxWord  = 32 // characters
)

// wordsOf returns the words of a person's name, username and e-mail address, sorted, each once.
func wordsOf(r *person.Record) []string {
	return words(r.Name + " " + r.GivenName + " " + r.FamilyName + " " + r.Username + " " + r.Email)
}

// words splits text into words as they are compared: without case, accents and width.
func words(text string) []string {
	var plain strings.Builder
	for _, c := range norm.NFKD.String(text) {
		if !unicode.Is(unicode.Mn, c) {
			plain.WriteRune(unicode.ToLower(c))
		}
	}
	out := strings.FieldsFunc(plain.String(), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	for i, w := range out {
		if utf8.RuneCountInString(w) > maxWord {
			out[i] = string([]rune(w)[:maxWord])
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxWords)]
}

// named reports whether each of the wanted words begins a word of a name.
func named(have, want []string) bool {
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h string) bool { return strings.HasPrefix(h, w) }) {
			return false
		}
	}
	return true
}
