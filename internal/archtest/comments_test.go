package archtest

import (
	"path"
	"regexp"
	"strings"
	"testing"
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
