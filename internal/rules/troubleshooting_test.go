package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTroubleshooting: each message that docs/troubleshooting.md explains in a table "the log says" is still one that a
// source file has.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	err = filepath.WalkDir(filepath.Join("..", ".."), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		sources.Write(src)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	code, inTable, n := regexp.MustCompile("`([^`]+)`"), false, 0
	for line := range strings.Lines(string(doc)) {
		switch {
		case strings.HasPrefix(line, "| the log says |"):
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable:
			first, _, _ := strings.Cut(line[1:], "|")
			for _, m := range code.FindAllStringSubmatch(first, -1) {
				for part := range strings.SplitSeq(m[1], "…") {
					part = strings.Trim(part, ` "`)
					if n++; part != "" && !strings.Contains(sources.String(), part) {
						t.Errorf("no source says %q, which docs/troubleshooting.md explains", part)
					}
				}
			}
		}
	}
	if n == 0 {
		t.Error("docs/troubleshooting.md explains no message")
	}
}
