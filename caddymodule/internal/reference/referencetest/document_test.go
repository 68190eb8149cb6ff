package referencetest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference/referencetest"
	"github.com/gatehouse-id/gatehouse/internal/goldentest"
)

// TestCaddyfileDocuments writes docs/caddyfile, a document for each block.
func TestCaddyfileDocuments(t *testing.T) {
	t.Parallel()
	documents := map[string]string{}
	for _, p := range referencetest.Places() {
		documents[p.File()] = describe(p)
	}
	goldentest.Documents(t, "../../../../docs/caddyfile", documents)
}

// describe returns the document of a block.
func describe(p referencetest.Place) string {
	var b strings.Builder
	block := p.Block()
	fmt.Fprintf(&b, "# %s\n\n", p.Name())
	switch around := p[:len(p)-1]; {
	case len(around) > 0:
		fmt.Fprintf(&b, "`%s` in [%s](%s). ", block.Head, around.Name(), around.File())
	case block == &reference.Gatehouse:
		b.WriteString("Global option. ")
	default:
		fmt.Fprintf(&b, "`%s` in a site. ", block.Head)
	}
	b.WriteString(goldentest.Relative(block.Text) + "\n\n")
	if len(p) > 1 || block == &reference.Protect {
		fmt.Fprintf(&b, "```text\n%s\n```\n\n", referencetest.Sample(block))
	}
	b.WriteString("| option | meaning | default | example | since |\n|---|---|---|---|---|\n")
	for _, o := range block.Options {
		meaning, shown := o.Text, []string{}
		if o.Repeats {
			meaning += " Can be repeated."
		}
		for line := range strings.Lines(o.Example) {
			shown = append(shown, code(strings.TrimSpace(line)))
		}
		for _, inner := range o.Blocks {
			at := append(p[:len(p):len(p)], inner)
			shown = append(shown, fmt.Sprintf("[%s](%s)", at.Name(), at.File()))
		}
		since := o.Since
		switch {
		case o.Later:
			since = "not yet"
		case since == "":
			since = "0.1"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(strings.TrimSpace(o.Word+" "+o.Arguments)), cell(goldentest.Relative(meaning)),
			cell(goldentest.Relative(o.Default)), strings.Join(shown, "<br>"), since)
	}
	return b.String()
}

// code is a text as code in a cell.
func code(s string) string {
	if strings.Contains(s, "`") {
		return "`` " + cell(s) + " ``"
	}
	return "`" + cell(s) + "`"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// TestCaddyfileOptionsAreExplained: each option says what it does, since when, and how it is written.
func TestCaddyfileOptionsAreExplained(t *testing.T) {
	t.Parallel()
	names, version := map[string]bool{}, regexp.MustCompile(`^(0|[1-9][0-9]*)\.[0-9]+$`)
	for _, p := range referencetest.Places() {
		b := p.Block()
		if names[p.Name()] {
			t.Errorf("two blocks are named %q: a link leads to the first only", p.Name())
		}
		names[p.Name()] = true
		if !strings.HasSuffix(b.Text, ".") {
			t.Errorf("%s: the text is missing, or no sentence", p.Name())
		}
		seen := map[string]bool{}
		for _, o := range b.Options {
			at := p.Name() + ": " + o.Word
			if seen[o.Word] {
				t.Errorf("%s stands there twice", at)
			}
			seen[o.Word] = true
			if !strings.HasSuffix(o.Text, ".") {
				t.Errorf("%s: the text is missing, or no sentence", at)
			}
			if o.Since != "" && !version.MatchString(o.Since) {
				t.Errorf("%s: since %q is no version", at, o.Since)
			}
			if !o.Later && o.Example == "" && len(o.Blocks) == 0 {
				t.Errorf("%s: the example is missing", at)
			}
			if o.Example != "" && !regexp.MustCompile(`(?m)^`+o.Word+`( |$)`).MatchString(o.Example) {
				t.Errorf("%s: the example does not show it: %s", at, o.Example)
			}
			if !o.Later && o.Arguments == "" && o.Example != "" && !regexp.MustCompile(`(?m)^`+o.Word+`$`).MatchString(o.Example) {
				t.Errorf("%s: the example has arguments, the table has none: %s", at, o.Example)
			}
		}
	}
}
