// Package spelling suggests the known word that a misspelled one was probably meant to be.
package spelling

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Word returns the known word that a misspelled one was probably meant to be, or "".
func Word(word string, known []string) string {
	most := maxDistance(word)
	best, least := "", most+1
	folded := strings.ToLower(word)
	length := utf8.RuneCountInString(folded)
	for _, k := range slices.Sorted(slices.Values(known)) {
		if k == word || k == "" {
			continue
		}
		lower := strings.ToLower(k)
		if n := utf8.RuneCountInString(lower); max(n-length, length-n) > most { // so is the distance, which costs far more
			continue
		}
		d := distance(folded, lower)
		if plural(folded, lower) {
			d = min(d, 1)
		}
		if d < least {
			best, least = k, d
		}
	}
	return best
}

func plural(a, b string) bool { return len(a) > 2 && (a+"s" == b || b+"s" == a) }

// maxDistance returns the maximum number of edits between a word and the one that was meant. Half of a short word is
// another word.
func maxDistance(word string) int {
	switch n := len([]rune(word)); {
	case n < 3:
		return 0
	case n < 8:
		return 1
	case n < 16:
		return 2
	default:
		return 3
	}
}

// distance counts the insertions, deletions, replacements and swaps of neighbours between two words (optimal string
// alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, now := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		now[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(y)]
}
