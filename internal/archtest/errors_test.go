package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// errorText is the text of an error with a name, or of a type of errors.
var errorText = regexp.MustCompile(`(?:\b[eE]rr\w*\s*= (?:errors\.New|fmt\.Errorf)\(|Error\(\) string \{\s*return )"(\w+): `)

// TestErrorTexts: errors that people read do not begin with the name of a package, which says nothing to them.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	names := map[string]bool{"authz": true, "identity": true}
	for _, f := range goFiles(t) {
		names[f.ast.Name.Name] = true
	}
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") || !under(f.dir(), "authz") && !under(f.dir(), "identity") && !under(f.dir(), "caddymodule") {
			continue
		}
		for _, m := range errorText.FindAllStringSubmatch(text(t, f.path), -1) {
			if own := f.ast.Name.Name; m[1] == own || names[m[1]] && (m[1] == "authz" || m[1] == "identity") {
				t.Errorf("%s: an error begins with the name of a package: %s", f.path, strings.TrimSpace(m[0]))
			}
		}
	}
}
