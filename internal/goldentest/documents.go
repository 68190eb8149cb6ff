// Package goldentest writes the documents that tests generate from the code. An outdated document fails no test: `make
// golden` rewrites it.
package goldentest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	toDocument = regexp.MustCompile(`\]\(([a-z][a-z0-9/_-]*\.md)`)
	toSection  = regexp.MustCompile(`\]\(#([a-z0-9_-]+)\)`)
)

// made is the first line of each document.
const made = "<!-- Made from the code by `make golden`. -->\n\n"

// Relative rewrites the links of a text for a document in a directory below docs: those to documents of docs, and those
// to #name, which is a document of the same directory.
func Relative(text string) string {
	text = toDocument.ReplaceAllString(text, "](../$1")
	return toSection.ReplaceAllString(text, "]($1.md)")
}

// Documents checks that there are documents, each with a title and by a name that can be one of a file. With
// GATEHOUSE_GOLDEN=write they become the only Markdown files of the directory.
func Documents(t *testing.T, dir string, documents map[string]string) {
	t.Helper()
	if len(documents) == 0 {
		t.Fatalf("no documents for %s", dir)
	}
	for name, text := range documents {
		documents[name] = made + text
		if !regexp.MustCompile(`^[a-z0-9_-]+\.md$`).MatchString(name) || !strings.HasPrefix(text, "# ") {
			t.Errorf("%s begins with %.40q, want a file of Markdown with a title", path.Join(dir, name), text)
		}
	}
	if os.Getenv("GATEHOUSE_GOLDEN") != "write" || t.Failed() {
		return
	}
	there, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range there {
		if _, kept := documents[filepath.Base(file)]; !kept {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // documents are for everybody
		t.Fatal(err)
	}
	for name, text := range documents {
		file := filepath.Join(dir, name)
		if old, err := os.ReadFile(file); err == nil && string(old) == text {
			continue
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // documents are for everybody
			t.Fatal(err)
		}
	}
}
