package caddymodule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// subdirectives are the words of one block of the Caddyfile.
type subdirectives map[string]subdirective

// subdirective reads the arguments of one word; the dispenser stands on the word itself.
type subdirective struct {
	parse func(d *caddyfile.Dispenser) error
	// repeats allows the word more than once.
	repeats bool
}

// readBlock reads the block that opens after the current token. What it does not know, and what comes twice, is an error
// that says where and what to do; later are words that are known and not supported yet.
func readBlock(d *caddyfile.Dispenser, of string, known subdirectives, later ...string) error {
	seen := map[string]int{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		word, line := d.Val(), d.Line()
		sub, ok := known[word]
		switch {
		case slices.Contains(later, word):
			return d.Errf("%s: %s %w", of, word, errNotSupported)
		case !ok:
			return d.Errf("%s: unrecognized subdirective %q, known are: %s", of, word, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case seen[word] > 0 && !sub.repeats:
			return d.Errf("%s: %s is already set on line %d: keep one of them", of, word, seen[word])
		}
		seen[word] = line
		if err := sub.parse(d); err != nil {
			return err
		}
	}
	return nil
}

// noMore refuses arguments and blocks that nobody reads.
func noMore(d *caddyfile.Dispenser, word string) error {
	if d.NextArg() {
		return d.Errf("%s: unexpected argument %q", word, d.Val())
	}
	if n := d.Nesting(); d.NextBlock(n) {
		return d.Errf("%s: has no block", word)
	}
	return nil
}

// check applies a check to a value that stands in the Caddyfile as it is.
func check(d *caddyfile.Dispenser, word, v string, fn func(string) error) error {
	if v == "" {
		return d.Errf("%s: the value is empty", word)
	}
	if fn == nil || hasPlaceholder(v) {
		return nil
	}
	if err := fn(v); err != nil {
		return d.WrapErr(fmt.Errorf("%s: %w", word, err))
	}
	return nil
}

// value reads exactly one argument.
func value[T ~string](dst *T, fn func(string) error) subdirective {
	return subdirective{parse: func(d *caddyfile.Dispenser) error { return readValue(d, dst, fn) }}
}

func readValue[T ~string](d *caddyfile.Dispenser, dst *T, fn func(string) error) error {
	word := d.Val()
	if !d.NextArg() {
		return d.Errf("%s: a value is missing", word)
	}
	v := d.Val()
	if err := check(d, word, v, fn); err != nil {
		return err
	}
	*dst = T(v)
	return noMore(d, word)
}

// values reads one argument or more.
func values[T ~string](dst *[]T, fn func(string) error) subdirective {
	return subdirective{parse: func(d *caddyfile.Dispenser) error {
		word := d.Val()
		for d.NextArg() {
			v := d.Val()
			if err := check(d, word, v, fn); err != nil {
				return err
			}
			if slices.Contains(*dst, T(v)) {
				return d.Errf("%s: %s is named twice", word, v)
			}
			*dst = append(*dst, T(v))
		}
		if len(*dst) == 0 {
			return d.Errf("%s: a value is missing", word)
		}
		return noMore(d, word)
	}}
}

// another reads one argument each time the word appears.
func another[T ~string](dst *[]T, fn func(string) error) subdirective {
	return subdirective{repeats: true, parse: func(d *caddyfile.Dispenser) error {
		var v T
		if err := readValue(d, &v, fn); err != nil {
			return err
		}
		*dst = append(*dst, v)
		return nil
	}}
}

// text reads one argument, or several as one text with spaces: name Demo Person.
func text(dst *string) subdirective {
	return subdirective{parse: func(d *caddyfile.Dispenser) error {
		word := d.Val()
		args := d.RemainingArgs()
		if len(args) == 0 {
			return d.Errf("%s: a value is missing", word)
		}
		*dst = strings.Join(args, " ")
		return noMore(d, word)
	}}
}

// flag is set by its presence.
func flag(dst *bool) subdirective {
	return subdirective{parse: func(d *caddyfile.Dispenser) error {
		*dst = true
		return noMore(d, d.Val())
	}}
}

// block reads a block without arguments.
func block(known subdirectives, later ...string) subdirective {
	return subdirective{parse: func(d *caddyfile.Dispenser) error {
		word := d.Val()
		if d.NextArg() {
			return d.Errf("%s: unexpected argument %q, its options stand in a block", word, d.Val())
		}
		return readBlock(d, word, known, later...)
	}}
}
