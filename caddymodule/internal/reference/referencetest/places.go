// Package referencetest walks the tables of the Caddyfile reference in tests, and writes their documents.
package referencetest

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// Place is a block with those around it, the outermost first.
type Place []*reference.Block

// Places are all blocks, in the order of the document.
func Places() []Place {
	var out []Place
	var walk func(at Place)
	walk = func(at Place) {
		out = append(out, at)
		for _, o := range at.Block().Options {
			for _, b := range o.Blocks {
				walk(append(slices.Clone(at), b))
			}
		}
	}
	walk(Place{&reference.Gatehouse})
	walk(Place{&reference.Protect})
	return out
}

// Block is the block itself.
func (p Place) Block() *reference.Block { return p[len(p)-1] }

var arguments = regexp.MustCompile(` *(\[?<[^>]*>…?\]?|…)`)

// Name is the heading of the block: its words without arguments, and those of the blocks around it.
func (p Place) Name() string {
	var words []string
	for _, b := range p {
		if b != &reference.Gatehouse || len(p) == 1 {
			words = append(words, arguments.ReplaceAllString(b.Head, ""))
		}
	}
	return strings.Join(words, " ")
}

// File is the name of its document.
func (p Place) File() string { return strings.ReplaceAll(p.Name(), " ", "-") + ".md" }

// Wrap puts lines into a block, after those that it needs and that they do not replace.
func Wrap(b *reference.Block, lines, needs string) string {
	has := map[string]bool{}
	for l := range strings.Lines(lines) {
		if word, _, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " "); !strings.HasPrefix(l, "\t") {
			has[word] = true
		}
	}
	var kept []string
	for l := range strings.Lines(needs) {
		if word, _, _ := strings.Cut(l, " "); !has[word] && word != "-" {
			kept = append(kept, strings.TrimSpace(l))
		}
	}
	open := b.Open
	if open == "" {
		open = b.Head
	}
	if lines = Join(strings.Join(kept, "\n"), lines); lines == "" {
		return open
	}
	return open + " {\n" + Indent(lines) + "\n}"
}

// Join joins two texts by a line break.
func Join(a, b string) string { return strings.Trim(a+"\n"+b, "\n") }

// Indent puts a tab before each line.
func Indent(lines string) string {
	return "\t" + strings.ReplaceAll(lines, "\n", "\n\t")
}

// Sample is the example of the block itself, with the lines that it needs next to it.
func Sample(b *reference.Block) string {
	lines := b.Sample
	if lines == "" && b.Needs == "" {
		for _, o := range b.Options {
			lines = Join(lines, o.Example)
		}
	}
	return Join(Wrap(b, lines, b.Needs), b.Around)
}
