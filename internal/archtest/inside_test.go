package archtest

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// compiledTwice are packages with tests inside them and a harness that imports them, and why they stay.
var compiledTwice = allowance{
	"internal/web":      "its sample is small, and the tests look at templates that are not exported",
	"internal/audit":    "eventtest is small, and needs a keeper with a short pause",
	"identity/keystore": "the parser of key files is no one else's, and settings alone is compiled again",
	"caddymodule":       "to do: its instance, which waits, ends and closes in an order, becomes a package of its own",
}

// TestHarnessesAreCompiledOnce: a test file inside a package makes another package of it. Where its tests import a
// harness that imports the package, Go then compiles the harness and everything between the two a second time.
func TestHarnessesAreCompiledOnce(t *testing.T) {
	t.Parallel()
	imports, tested, inside := map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]string{}
	for _, f := range goFiles(t) {
		into := imports
		if f.test() {
			into = tested
			if !strings.HasSuffix(f.ast.Name.Name, "_test") {
				inside[f.dir()] = path.Base(f.path)
			}
		}
		if into[f.dir()] == nil {
			into[f.dir()] = map[string]bool{}
		}
		for _, i := range f.ast.Imports {
			if dir, ok := directory(strings.Trim(i.Path.Value, `"`)); ok {
				into[f.dir()][dir] = true
			}
		}
	}
	allowed := compiledTwice.use(t)
	for dir, file := range inside {
		seen := map[string]bool{}
		var reaches func(from string) bool
		reaches = func(from string) (found bool) {
			if known, ok := seen[from]; ok {
				return known
			}
			for to := range imports[from] {
				found = found || to == dir || reaches(to)
			}
			seen[from] = found
			return found
		}
		var again []string
		for _, harness := range slices.Sorted(maps.Keys(tested[dir])) {
			if harness != dir && reaches(harness) {
				again = append(again, harness)
			}
		}
		if len(again) > 0 && !allowed.allows(dir) {
			t.Errorf("%s has tests inside the package, such as %s, so %s, which its tests import and which imports it, is compiled a second time: "+
				"make all of its tests package %s_test, or move what they look into to a package without such a harness",
				dir, file, strings.Join(again, " and "), path.Base(dir))
		}
	}
}
