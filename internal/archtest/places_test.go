package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// protocol are the directories whose time and randomness are injected: their tests turn the clock and repeat the dice.
var protocol = []string{"authz", "identity", "idp"}

// TestClocksAndDice finds time.Now, crypto/rand and math/rand outside of constructors, where they are defaults.
func TestClocksAndDice(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if harness(f) || !slices.ContainsFunc(protocol, func(p string) bool { return under(f.dir(), p) }) {
			continue
		}
		constructors := constructorSpans(f)
		f.uses(func(n *ast.SelectorExpr, p string) {
			direct := p == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "Tick"}, n.Sel.Name) ||
				p == "crypto/rand" || p == "math/rand" || p == "math/rand/v2"
			if !direct || slices.ContainsFunc(constructors, func(s ast.Node) bool { return s.Pos() <= n.Pos() && n.End() <= s.End() }) {
				return
			}
			t.Errorf("%s: %s.%s outside of a constructor New… or Open…: use the injected clock or source of randomness", f.at(n), p, n.Sel.Name)
		})
	}
}

func constructorSpans(f source) []ast.Node {
	var out []ast.Node
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "New") || strings.HasPrefix(fn.Name.Name, "Open")) {
			out = append(out, fn)
		}
	}
	return out
}

// TestRoutesStandInRoutes finds registrations of routes outside of routes.go: every endpoint is found by reading one
// file a package.
func TestRoutesStandInRoutes(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		ours := under(f.dir(), "authz") || under(f.dir(), "identity") || under(f.dir(), "caddymodule") || under(f.dir(), "idp")
		if harness(f) || !ours || path.Base(f.path) == "routes.go" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Handle" && sel.Sel.Name != "HandleFunc" || len(call.Args) != 2 {
				return true
			}
			if lit, ok := call.Args[0].(*ast.BasicLit); ok && strings.Contains(lit.Value, "/") {
				t.Errorf("%s registers the route %s: routes stand in routes.go, one line each", f.at(n), lit.Value)
			}
			return true
		})
	}
}

// TestRecordsStandInRecords finds tables outside of records.go: what is stored is found by reading one file a package.
func TestRecordsStandInRecords(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if harness(f) || path.Base(f.path) == "records.go" {
			continue
		}
		f.uses(func(n *ast.SelectorExpr, p string) {
			if p == module+"/storage" && n.Sel.Name == "NewTable" {
				t.Errorf("%s makes a table: stored records stand in records.go", f.at(n))
			}
		})
	}
}

// TestTestsNeitherSkipNorSleep finds tests that could pass without having looked, and those that wait for luck.
func TestTestsNeitherSkipNorSleep(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if !harness(f) {
			continue
		}
		f.uses(func(n *ast.SelectorExpr, p string) {
			if p == "time" && n.Sel.Name == "Sleep" {
				t.Errorf("%s sleeps: wait for the event itself, or turn a fake clock", f.at(n))
			}
		})
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				if x, ok := sel.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "f", "tb", "tt"}, x.Name) {
					t.Errorf("%s skips: a test that cannot run fails and says why", f.at(n))
				}
			}
			return true
		})
	}
}
