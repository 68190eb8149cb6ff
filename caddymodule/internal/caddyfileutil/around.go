package caddyfileutil

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// CheckAround finds options of gatehouse that stand outside of its block, and sites that are read as global options
// since a } is missing. Caddy's own error about either says only that it does not know the word. at is the token of the
// block. What was not read from a file is not looked at.
func CheckAround(at caddyfile.Token) error {
	raw, err := os.ReadFile(at.File)
	if err != nil {
		return nil //nolint:nilerr // the text is elsewhere, and nothing is wrong with it so far
	}
	blocks, err := caddyfile.Parse(at.File, raw)
	if err != nil || len(blocks) == 0 || len(blocks[0].Keys) > 0 {
		return nil //nolint:nilerr // Caddy says what is wrong
	}
	global := blocks[0].Segments
	i := slices.IndexFunc(global, func(s caddyfile.Segment) bool { return s.Directive() == AppName && s[0].Line == at.Line })
	if i < 0 {
		return nil
	}
	for _, s := range global[i+1:] {
		if isAddress(s.Directive()) {
			return At(s[0], fmt.Errorf("%s: the global options in front of this site are not closed: a } is missing%s", s.Directive(),
				unclosed(string(raw), s[0].Line)))
		}
		if isOption(s) {
			return At(s[0], fmt.Errorf("%s: it is an option of gatehouse: move it into the block `gatehouse { ... }`, which begins on line %d",
				s.Directive(), at.Line))
		}
	}
	for _, b := range blocks[1:] {
		for _, s := range b.Segments {
			if isOption(s) {
				return At(s[0], fmt.Errorf("%s: it is not a directive of a site but an option of gatehouse: move it into the block `gatehouse { ... }` of the global options, which begins on line %d", s.Directive(), at.Line))
			}
		}
	}
	return nil
}

// isAddress reports whether a word is the address of a site rather than an option.
func isAddress(word string) bool { return strings.ContainsAny(word, ".:*") || word == "localhost" }

// isOption reports whether a segment is a block of gatehouse: by its word, and by the options in it. Other modules can
// have a directive of the same name.
func isOption(s caddyfile.Segment) bool {
	option := reference.Gatehouse.Option(s.Directive())
	if option == nil {
		return false
	}
	var words []string
	d := caddyfile.NewDispenser(s)
	d.Next()
	d.RemainingArgs()
	for outer := d.Nesting(); d.NextBlock(outer); {
		words = append(words, d.Val())
		d.RemainingArgs()
		for inner := d.Nesting(); d.NextBlock(inner); { //nolint:revive // what is within an option does not matter
		}
	}
	return len(words) > 0 && slices.ContainsFunc(option.Blocks, func(b *reference.Block) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return b.Option(w) == nil })
	})
}

// unclosed says which block in front of a line has no } of its own, by how far lines are indented, or says nothing.
func unclosed(text string, before int) string {
	type opened struct {
		indent, line int
		text         string
	}
	var open []opened
	for i, line := range strings.Split(text, "\n")[:before-1] {
		word := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		switch last := len(open) - 1; {
		case strings.HasSuffix(word, "{"):
			open = append(open, opened{indent, i + 1, strings.TrimSpace(strings.TrimSuffix(word, "{"))})
		case word != "}" || last < 0:
		case open[last].indent > indent:
			return fmt.Sprintf(" for `%s {` on line %d", open[last].text, open[last].line)
		default:
			open = open[:last]
		}
	}
	return ""
}

// Twice returns the lines on which a site has a directive without a matcher, if there are several. Caddy keeps the site
// in an unexported field of Helper. If that field goes away, there are none and the tests fail.
func Twice(h httpcaddyfile.Helper, directive string) (lines []int) {
	block := reflect.ValueOf(h).FieldByName("parentBlock")
	if block.Kind() != reflect.Struct {
		return nil
	}
	segments := block.FieldByName("Segments")
	if segments.Kind() != reflect.Slice {
		return nil
	}
	for i := range segments.Len() {
		s := segments.Index(i)
		if s.Kind() != reflect.Slice || s.Len() != 1 {
			continue
		}
		if text, line := s.Index(0).FieldByName("Text"), s.Index(0).FieldByName("Line"); text.Kind() == reflect.String &&
			line.CanInt() && text.String() == directive {
			lines = append(lines, int(line.Int()))
		}
	}
	if len(lines) < 2 {
		return nil
	}
	return lines
}
