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
)

//go:embed common.txt
var list string

var common = sync.OnceValue(func() []string { return strings.Split(strings.TrimSuffix(list, "\n"), "\n") })

// Common reports whether a password is a common one, in any case.
func Common(password string) bool {
	_, found := slices.BinarySearch(common(), strings.ToLower(password))
	return found
}

// leastWord is the minimum length of a part of a name that is looked for.
const leastWord = 3

// Repeats reports whether a password is nothing but a name, or a part of one: in any case, several times over, and with
// digits and signs around it. Names are usernames, addresses, and what a site is called.
func Repeats(password string, names ...string) bool {
	whole := strings.ToLower(password)
	bare, joined := once(core(whole)), once(letters(whole))
	for _, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
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
