// Package weakpassword recognizes passwords that others try first: common ones, from a list inside the binary, and
// those that repeat a name that belongs to the person or the site (NIST SP 800-63B-4, 3.1.1.2).
//
// common.txt is the list of passwords of @zxcvbn-ts/language-common 4.1.3 in lower case, without those of less than six
// characters. LICENSE.txt is its licence.
package weakpassword

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

//go:embed common.txt
var list string

var common = sync.OnceValue(func() []string { return strings.Split(strings.TrimSuffix(list, "\n"), "\n") })

// Common reports whether a password is a common one: in any case and width, with or without accents, several times
// over, with signs in place of letters, and with a few digits and signs around it. Characters in a row are common.
func Common(password string) bool {
	whole := fold(password)
	if isRow(whole) {
		return true
	}
	whole = strings.TrimSpace(whole)
	for _, form := range []string{whole, plain.Replace(whole)} {
		word := core(form)
		if listed(form) || listed(once(form)) || len(form)-len(word) <= mostAround && (listed(word) || listed(once(word))) {
			return true
		}
	}
	return false
}

// mostAround is the maximum length of the digits and signs around a common word: a year and a sign.
const mostAround = 5

// plain replaces the signs and digits that are written in place of letters.
var plain = strings.NewReplacer("@", "a", "4", "a", "3", "e", "1", "i", "!", "i", "0", "o", "$", "s", "5", "s", "7", "t")

// fold returns a text in lower case, without differences of width and accents.
func fold(s string) string {
	return strings.ToLower(strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Mn, c) {
			return -1
		}
		return c
	}, norm.NFKD.String(s)))
}

func listed(s string) bool {
	_, found := slices.BinarySearch(common(), s)
	return found
}

// isRow reports whether a text is one to three characters over and over, or characters that follow each other in
// Unicode, such as 12345678 and zyxwvuts.
func isRow(s string) bool {
	runes := []rune(s)
	if len(runes) < 2 {
		return false
	}
	row := true
	for i := 2; i < len(runes) && row; i++ {
		row = runes[i]-runes[i-1] == runes[1]-runes[0]
	}
	step := runes[1] - runes[0]
	return row && step >= -1 && step <= 1 || utf8.RuneCountInString(once(s)) <= 3 && len(runes) > 3
}

// leastWord is the minimum length of a part of a name that is looked for.
const leastWord = 3

// Repeats reports whether a password is nothing but a name, or a part of one: in any case, several times over, and with
// digits and signs around it. Names are usernames, addresses, and what a site is called.
func Repeats(password string, names ...string) bool {
	whole := fold(password)
	bare, joined := once(core(whole)), once(letters(whole))
	for _, name := range names {
		name = fold(strings.TrimSpace(name))
		if name == "" {
			continue
		}
		if whole == name || once(whole) == name {
			return true
		}
		for _, part := range parts(name) {
			if bare == part || joined == part {
				return true
			}
		}
	}
	return false
}

// core returns a text without the digits and signs around its letters.
func core(s string) string {
	return strings.TrimFunc(s, func(c rune) bool { return !unicode.IsLetter(c) })
}

// letters returns the letters of a text.
func letters(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) {
			return c
		}
		return -1
	}, s)
}

// once returns the text that another one repeats, or the text itself.
func once(s string) string {
	for n := 1; n <= len(s)/2; n++ {
		if len(s)%n == 0 && strings.Repeat(s[:n], len(s)/n) == s {
			return s[:n]
		}
	}
	return s
}

// parts returns what a password can repeat of a name: the name without what surrounds its letters, without what
// separates its words, and its words.
func parts(name string) (out []string) {
	add := func(s string) {
		if utf8.RuneCountInString(s) >= leastWord && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	add(core(name))
	local, domain, isAddress := strings.Cut(name, "@")
	if isAddress {
		add(core(local))
		add(core(domain))
	}
	add(letters(name))
	for _, w := range strings.FieldsFunc(name, func(c rune) bool { return !unicode.IsLetter(c) }) {
		if !slices.Contains(commonParts, w) {
			add(w)
		}
	}
	return out
}

// commonParts are parts of addresses that say nothing of anyone.
var commonParts = []string{"com", "org", "net", "www"}
