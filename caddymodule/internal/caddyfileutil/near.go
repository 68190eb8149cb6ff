package caddyfileutil

import (
	"fmt"
	"slices"

	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// DidYouMean returns `did you mean "x"?` for a misspelled word, or otherwise.
func DidYouMean(word string, known []string, otherwise string) string {
	if found := spelling.Word(word, known); found != "" {
		return fmt.Sprintf("did you mean %q?", found)
	}
	return otherwise
}

// Misspelled is a name that is not known and resembles one that is.
type Misspelled struct{ Name, Near string }

// Unknown returns the names that resemble a known one and are probably misspelled. Any other name can be meant: a scope
// needs only a client that names it, and a client may be in the storage.
func Unknown(names, known []string) (out []Misspelled) {
	for _, s := range names {
		if slices.Contains(known, s) {
			continue
		}
		if found := spelling.Word(s, known); found != "" {
			out = append(out, Misspelled{s, found})
		}
	}
	return out
}
