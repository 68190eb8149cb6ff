// Package caddyfileutil helps all of caddymodule to read Caddyfile blocks: options, placeholders, and the checks of
// single values.
package caddyfileutil

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// Subdirectives read the words of one block of the Caddyfile: those that package reference lists.
type Subdirectives map[string]Subdirective

// Subdirective reads the arguments of one word; the dispenser stands on the word itself.
type Subdirective func(d *caddyfile.Dispenser) error

// ReadBlock reads the block that opens after the current token. An unknown or repeated word is an error that says where
// it stands and what to do. of names the block in errors.
func ReadBlock(d *caddyfile.Dispenser, of string, block *reference.Block, read Subdirectives) error {
	if words := block.Words(); !slices.Equal(words, slices.Sorted(maps.Keys(read))) {
		return d.Errf("%s: package reference lists %v, and the parser reads %v", of, words, slices.Sorted(maps.Keys(read)))
	}
	seen := map[string]int{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		word, line := d.Val(), d.Line()
		option := block.Option(word)
		switch {
		case option == nil && block.Instead[word] != "":
			return d.Errf("%s: %s %s", of, word, block.Instead[word])
		case option == nil:
			return d.Errf("%s: unrecognized subdirective %q, %s", of, word, unknownWord(word, block.Words()))
		case option.Later:
			return d.Errf("%s: %s %w", of, word, ErrNotSupported)
		case seen[word] > 0 && !option.Repeats:
			return d.Errf("%s: %s is already set on line %d: keep one of them", of, word, seen[word])
		}
		seen[word] = line
		if err := CheckWriting(d, word); err != nil {
			return err
		}
		if err := read[word](d); err != nil {
			return err
		}
	}
	return nil
}

// unknownWord says what may have been meant by a word that a block does not know.
func unknownWord(word string, known []string) string {
	if found := spelling.Word(word, known); found != "" {
		return "did you mean " + found + "?"
	}
	if reference.Opens(word) {
		return "which is an option of gatehouse itself: is a } missing in front of it?"
	}
	if isAddress(word) {
		return "which is the address of a site: is a } missing in front of it?"
	}
	return "known are: " + strings.Join(known, ", ")
}

// CheckWriting refuses the syntax of other formats in the arguments of the current word, such as an equals sign between
// word and value, or the quotation marks of a word processor. The dispenser does not move. Errors contain no value,
// since it can be secret.
func CheckWriting(d *caddyfile.Dispenser, word string) (err error) {
	n := 0
	for ; d.NextArg(); n++ {
		v := d.Val()
		switch first, _ := utf8.DecodeRuneInString(v); {
		case err != nil || d.Token().Quoted():
		case n == 0 && (v == "=" || v == ":"):
			err = d.Errf("%s: a value follows the word without %q: write `%s <value>`", word, v, word)
		case strings.ContainsRune("\u201c\u201d\u201e\u201f\u00ab\u2018\u201a", first):
			err = d.Errf("%s: %c is no quotation mark of a Caddyfile: write \" in place of both, or around them if they belong to the value",
				word, first)
		}
	}
	for range n {
		d.Prev()
	}
	return err
}

// on and off are words that people add to an option which has no value.
var (
	on  = []string{"on", "yes", "true", "enabled"}
	off = []string{"off", "no", "false", "disabled"}
)

// CheckAlone refuses a word such as yes or no after an option that is a switch by itself, and stays there.
func CheckAlone(d *caddyfile.Dispenser, word string) error {
	if !d.NextArg() {
		return nil
	}
	defer d.Prev()
	switch v := d.Val(); {
	case slices.Contains(on, v):
		return d.Errf("%s: it is switched on by `%s` alone: remove %q", word, word, v)
	case slices.Contains(off, v):
		return d.Errf("%s: `%s` alone switches it on: remove the line to switch it off", word, word)
	}
	return nil
}

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
	return func(d *caddyfile.Dispenser) error { return ReadValue(d, dst, fn) }
}

// ReadValue reads exactly one argument of the word that the dispenser stands on.
func ReadValue[T ~string](d *caddyfile.Dispenser, dst *T, fn func(string) error) error {
	word := d.Val()
	if !d.NextArg() {
		return missing(d, word, "a value is missing")
	}
	v := d.Val()
	if err := checkUnit(d, word, v, fn); err != nil {
		return err
	}
	if err := Check(d, word, v, fn); err != nil {
		return err
	}
	*dst = T(v)
	return NoMore(d, word)
}

var (
	number = regexp.MustCompile(`^[0-9]+([.,][0-9]+)?$`)
	unit   = regexp.MustCompile(`^[A-Za-z]{1,8}$`)
)

// checkUnit refuses a number whose unit stands apart.
func checkUnit(d *caddyfile.Dispenser, word, v string, fn func(string) error) error {
	if fn == nil || !number.MatchString(v) || !d.NextArg() {
		return nil
	}
	defer d.Prev()
	if !unit.MatchString(d.Val()) {
		return nil
	}
	whole := v + d.Val()
	if err := fn(whole); err != nil {
		return d.WrapErr(fmt.Errorf("%s: %w", word, err))
	}
	return d.Errf("%s: the unit follows the number without a space: write `%s %s`", word, word, whole)
}

// Values reads one argument or more.
func Values[T ~string](dst *[]T, fn func(string) error) Subdirective {
	return func(d *caddyfile.Dispenser) error {
		word := d.Val()
		for d.NextArg() {
			v := d.Val()
			if !d.Token().Quoted() && strings.HasSuffix(v, ",") {
				return d.Errf("%s: spaces alone separate values: remove the commas", word)
			}
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
	}
}

// Another reads one argument each time the word appears.
func Another[T ~string](dst *[]T, fn func(string) error) Subdirective {
	return func(d *caddyfile.Dispenser) error {
		var v T
		if err := ReadValue(d, &v, fn); err != nil {
			return err
		}
		*dst = append(*dst, v)
		return nil
	}
}

// Text reads one argument, or several as one text with spaces: name Demo Person.
func Text(dst *string) Subdirective {
	return func(d *caddyfile.Dispenser) error {
		word := d.Val()
		args := d.RemainingArgs()
		if len(args) == 0 {
			return missing(d, word, "a value is missing")
		}
		*dst = strings.Join(args, " ")
		return NoMore(d, word)
	}
}

// Flag sets dst when the word is present.
func Flag(dst *bool) Subdirective {
	return func(d *caddyfile.Dispenser) error {
		*dst = true
		if err := CheckAlone(d, d.Val()); err != nil {
			return err
		}
		return NoMore(d, d.Val())
	}
}

// Block reads a block without arguments.
func Block(block *reference.Block, read Subdirectives) Subdirective {
	return func(d *caddyfile.Dispenser) error {
		return ReadOptions(d, d.Val(), block, read)
	}
}

// ReadOptions is ReadBlock where nothing may stand before the block.
func ReadOptions(d *caddyfile.Dispenser, of string, block *reference.Block, read Subdirectives) error {
	if d.NextArg() {
		return d.Errf("%s: unexpected argument %q, its options belong in a block", of, d.Val())
	}
	return ReadBlock(d, of, block, read)
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
