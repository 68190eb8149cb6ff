package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var elsewhere = regexp.MustCompile(`(?i)\b(do|does)\s+not\s+belong\s+here\b`)

// TestPackageComments: each package has one comment, which begins with its name and describes what the package does. A
// sentence about what it does not do helps only a reader who would look for it there, and names the right package.
func TestPackageComments(t *testing.T) {
	t.Parallel()
	comments := map[string][]source{}
	for _, f := range goFiles(t) {
		if f.test() && f.ast.Doc == nil {
			continue
		}
		if _, ok := comments[f.dir()]; !ok {
			comments[f.dir()] = nil
		}
		if f.ast.Doc != nil {
			comments[f.dir()] = append(comments[f.dir()], f)
		}
	}
	for dir, files := range comments {
		if len(files) != 1 {
			t.Errorf("%s has %d package comments, want one", dir, len(files))
		}
		for _, f := range files {
			name := f.ast.Name.Name
			want := "Package " + strings.TrimSuffix(name, "_test")
			if name == "main" {
				want = "Command " + path.Base(f.dir())
			}
			comment := f.ast.Doc.Text()
			if !strings.HasPrefix(comment, want+" ") {
				t.Errorf("%s: the package comment begins with %.40q, want %q", f.path, comment, want)
			}
			if said := elsewhere.FindString(comment); said != "" {
				t.Errorf("%s: the package comment says %q: say what the package does", f.path, said)
			}
		}
	}
}

const maxColumns = 140

// TestColumns: a line of code has at most 140 columns. One that is longer by a piece of text alone may stay.
func TestColumns(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		longest, within := map[int]int{}, map[int]bool{} // by line: its longest piece of text; whether it is in one
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				first, last := f.fset.Position(lit.Pos()).Line, f.fset.Position(lit.End()).Line
				longest[first] = max(longest[first], utf8.RuneCountInString(lit.Value))
				for line := first; line <= last && first != last; line++ {
					within[line] = true
				}
			}
			return true
		})
		for i, line := range strings.Split(text(t, f.path), "\n") {
			code, _, _ := strings.Cut(line, " //nolint")
			n, long := utf8.RuneCountInString(code), longest[i+1]
			if n > maxColumns && !within[i+1] && (n-long > maxColumns || long < maxColumns/4) {
				t.Errorf("%s:%d has %d columns, want at most %d", f.path, i+1, n, maxColumns)
			}
		}
	}
}

const maxArchitectureLines = 250

// TestArchitectureNamesEveryPackage: ARCHITECTURE.md has a sentence for each package but those that help tests or stand
// alone, names none that is gone, and stays short enough to be read in one sitting.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	t.Parallel()
	document := text(t, "ARCHITECTURE.md")
	if n := strings.Count(document, "\n"); n > maxArchitectureLines {
		t.Errorf("ARCHITECTURE.md has %d lines, want at most %d", n, maxArchitectureLines)
	}
	described := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m:^- |\\. )`([a-z0-9/]+)` [a-z]").FindAllStringSubmatch(section(t, document, "Packages"), -1) {
		described[m[1]] = true
	}
	floors := []string{"admin", "authz", "caddymodule", "identity", "idp", "internal", "storage"}
	for dir := range typedFiles(t).packages {
		floor, _, _ := strings.Cut(dir, "/")
		helps := strings.HasSuffix(dir, "test") && dir != "internal/archtest"
		if !slices.Contains(floors, floor) || helps {
			continue
		}
		if !described[dir] {
			t.Errorf("ARCHITECTURE.md has no sentence about %s", dir)
		}
		delete(described, dir)
	}
	for dir := range described {
		t.Errorf("ARCHITECTURE.md describes %s, which is not a package", dir)
	}
}

// section returns the text below a heading of a document, up to the next of the same rank.
func section(t *testing.T, document, heading string) string {
	t.Helper()
	_, after, ok := strings.Cut(document, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("there is no heading %q", heading)
	}
	text, _, _ := strings.Cut(after, "\n## ")
	return text
}
