// Package options reads what an operator writes, for everything in caddymodule: the words of a Caddyfile block, values
// with placeholders, and the checks of single values. What an option means stays with the package that declares it.
package options

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/internal/near"
)

// Subdirectives are the words of one block of the Caddyfile.
type Subdirectives map[string]Subdirective

// Subdirective reads the arguments of one word; the dispenser stands on the word itself.
type Subdirective struct {
	Parse func(d *caddyfile.Dispenser) error
	// Repeats allows the word more than once.
	Repeats bool
}

// ReadBlock reads the block that opens after the current token. An unknown or repeated word is an error that says where
// it stands and what to do. later are words that are known and not supported yet.
func ReadBlock(d *caddyfile.Dispenser, of string, known Subdirectives, later ...string) error {
	seen := map[string]int{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		word, line := d.Val(), d.Line()
		sub, ok := known[word]
		switch {
		case slices.Contains(later, word):
			return d.Errf("%s: %s %w", of, word, ErrNotSupported)
		case !ok:
			return d.Errf("%s: unrecognized subdirective %q, %s", of, word, unknownWord(word, known))
		case seen[word] > 0 && !sub.Repeats:
			return d.Errf("%s: %s is already set on line %d: keep one of them", of, word, seen[word])
		}
		seen[word] = line
		if err := sub.Parse(d); err != nil {
			return err
		}
	}
	return nil
}

// unknownWord says what may have been meant by a word that a block does not know.
func unknownWord(word string, known Subdirectives) string {
	words := slices.Sorted(maps.Keys(known))
	if found := near.Word(word, words); found != "" {
		return "did you mean " + found + "?"
	}
	if slices.Contains(blocks, word) {
		return "which is an option of gatehouse itself: is a } missing in front of it?"
	}
	return "known are: " + strings.Join(words, ", ")
}

// blocks are the words of the global block that open blocks, and that no other block has.
var blocks = []string{"api_client", "client", "events", "identity", "idp", "mail", "outbound", "push", "scope", "sms", "storage"}

// NoMore refuses further arguments and a block, which would be ignored.
func NoMore(d *caddyfile.Dispenser, word string) error {
	if d.NextArg() {
		return d.Errf("%s: unexpected argument %q", word, d.Val())
	}
	if n := d.Nesting(); d.NextBlock(n) {
		return d.Errf("%s: has no block", word)
	}
	return nil
}

// Check applies a check to a value of the Caddyfile. A placeholder is checked later, once it is resolved.
func Check(d *caddyfile.Dispenser, word, v string, fn func(string) error) error {
	if v == "" {
		return missing(d, word, "the value is empty")
	}
	if fn == nil || HasPlaceholder(v) {
		return nil
	}
	if err := fn(v); err != nil {
		return d.WrapErr(fmt.Errorf("%s: %w", word, err))
	}
	return nil
}

// Value reads exactly one argument.
func Value[T ~string](dst *T, fn func(string) error) Subdirective {
	return Subdirective{Parse: func(d *caddyfile.Dispenser) error { return ReadValue(d, dst, fn) }}
}

// ReadValue reads exactly one argument of the word that the dispenser stands on.
func ReadValue[T ~string](d *caddyfile.Dispenser, dst *T, fn func(string) error) error {
	word := d.Val()
	if !d.NextArg() {
		return missing(d, word, "a value is missing")
	}
	v := d.Val()
	if err := Check(d, word, v, fn); err != nil {
		return err
	}
	*dst = T(v)
	return NoMore(d, word)
}

// Values reads one argument or more.
func Values[T ~string](dst *[]T, fn func(string) error) Subdirective {
	return Subdirective{Parse: func(d *caddyfile.Dispenser) error {
		word := d.Val()
		for d.NextArg() {
			v := d.Val()
			if err := Check(d, word, v, fn); err != nil {
				return err
			}
			if slices.Contains(*dst, T(v)) {
				return d.Errf("%s: %s is named twice", word, v)
			}
			*dst = append(*dst, T(v))
		}
		if len(*dst) == 0 {
			return missing(d, word, "a value is missing")
		}
		return NoMore(d, word)
	}}
}

// Another reads one argument each time the word appears.
func Another[T ~string](dst *[]T, fn func(string) error) Subdirective {
	return Subdirective{Repeats: true, Parse: func(d *caddyfile.Dispenser) error {
		var v T
		if err := ReadValue(d, &v, fn); err != nil {
			return err
		}
		*dst = append(*dst, v)
		return nil
	}}
}

// Text reads one argument, or several as one text with spaces: name Demo Person.
func Text(dst *string) Subdirective {
	return Subdirective{Parse: func(d *caddyfile.Dispenser) error {
		word := d.Val()
		args := d.RemainingArgs()
		if len(args) == 0 {
			return missing(d, word, "a value is missing")
		}
		*dst = strings.Join(args, " ")
		return NoMore(d, word)
	}}
}

// Flag sets dst when the word is present.
func Flag(dst *bool) Subdirective {
	return Subdirective{Parse: func(d *caddyfile.Dispenser) error {
		*dst = true
		return NoMore(d, d.Val())
	}}
}

// Block reads a block without arguments.
func Block(known Subdirectives) Subdirective {
	return Subdirective{Parse: func(d *caddyfile.Dispenser) error {
		word := d.Val()
		if d.NextArg() {
			return d.Errf("%s: unexpected argument %q, its options stand in a block", word, d.Val())
		}
		return ReadBlock(d, word, known)
	}}
}

// At adds the place of an earlier token to an error.
func At(t caddyfile.Token, err error) error {
	return fmt.Errorf("%w, at %s:%d", err, t.File, t.Line)
}

// ReadName reads the one argument that names a block.
func ReadName(d *caddyfile.Dispenser, dst *string, fn func(string) error) error {
	word := d.Val()
	if !d.NextArg() {
		return missing(d, word, "a name is missing")
	}
	*dst = d.Val()
	if err := Check(d, word, *dst, fn); err != nil {
		return err
	}
	if d.NextArg() {
		return d.Errf("%s %s: unexpected argument %q", word, *dst, d.Val())
	}
	return nil
}

// ReadPair reads exactly two arguments.
func ReadPair(d *caddyfile.Dispenser, want string) ([]string, error) {
	word, args := d.Val(), d.RemainingArgs()
	if len(args) != 2 || args[0] == "" || args[1] == "" {
		return nil, d.Errf("%s: %s", word, want)
	}
	return args, NoMore(d, word)
}
