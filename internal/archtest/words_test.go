package archtest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const maxCommentWidth = 120

// notPlain are the directories, with those below them, whose comments and documents are not yet plain English of at
// most 120 columns. One that has become clean must go from the list.
var notPlain = []string{}

// awkward are words of comments and documents that make a reader stop, and what to say in their place.
var awkward = []struct {
	words *regexp.Regexp
	plain string
}{
	{regexp.MustCompile(`(?i)\bwhoever\b`), "a noun: the caller, the administrator, anyone who"},
	{regexp.MustCompile(`(?i)\bwhom what\b`), "a noun: the person that the input names"},
	{regexp.MustCompile(`(?i)\bof ours\b`), "our, internal"},
	{regexp.MustCompile(`(?i)\bis none\b`), "invalid, unknown, missing"},
	{regexp.MustCompile(`(?i)\bof nobody\b`), "unknown"},
	{regexp.MustCompile(`(?i)\bgood for nothing\b`), "invalid, expired"},
	{regexp.MustCompile(`(?i)\bsomebody else's\b`), "another person's"},
}

// TestPlainEnglish: comments end at 120 columns, and neither they nor the documents use words of the list.
func TestPlainEnglish(t *testing.T) {
	t.Parallel()
	needed := map[string]bool{}
	report := func(dir, at, what string) {
		i := slices.IndexFunc(notPlain, func(d string) bool { return under(dir, d) })
		if i < 0 {
			t.Errorf("%s: %s", at, what)
			return
		}
		needed[notPlain[i]] = true
	}
	for _, f := range goFiles(t) {
		if f.path == "internal/archtest/words_test.go" {
			continue
		}
		lines := strings.Split(text(t, f.path), "\n")
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				from := fset.Position(c.Pos())
				for i, line := range strings.Split(c.Text, "\n") {
					if strings.HasPrefix(line, "//go:") || strings.HasPrefix(line, "//nolint") {
						continue // the machine reads it
					}
					at := f.path + ":" + strconv.Itoa(from.Line+i)
					whole := lines[from.Line-1+i]
					alone := i > 0 || strings.TrimSpace(whole[:from.Column-1]) == ""
					if alone && utf8.RuneCountInString(whole) > maxCommentWidth && !strings.Contains(line, "://") {
						report(f.dir(), at, "the comment is wider than 120 columns")
					}
					if words, plain := awkwardWords(line); words != "" {
						report(f.dir(), at, "say "+plain+" instead of "+words)
					}
				}
			}
		}
	}
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if !strings.HasPrefix(f, "docs/") || !strings.HasSuffix(f, ".md") {
			continue
		}
		for n, line := range strings.Split(text(t, f), "\n") {
			if words, plain := awkwardWords(line); words != "" {
				report("docs", f+":"+strconv.Itoa(n+1), "say "+plain+" instead of "+words)
			}
		}
	}
	for _, dir := range notPlain {
		if !needed[dir] {
			t.Errorf("%s is plain or gone: take it off the list", dir)
		}
	}
}

func awkwardWords(line string) (words, plain string) {
	for _, a := range awkward {
		if found := a.words.FindString(line); found != "" {
			return found, a.plain
		}
	}
	return "", ""
}
