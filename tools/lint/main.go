// Command lint is a vet tool: `go vet -vettool=.bin/lint ./...` runs the linters of the project package by package, and
// the go command's cache keeps what has been checked. These are vet's own analyzers, staticcheck, unused, errcheck,
// errorlint, bodyclose, ineffassign and revive, with the settings below.
//
// A finding is accepted by `//nolint:NAME // reason` on its line. golangci-lint, which `make nightly` runs, reads the
// same directives and has the same settings in .golangci.yml. It also runs revive's rules that need types, and gosec,
// which takes longer to start than to look at a package.
package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	analyzers := all()
	if unit := os.Args[len(os.Args)-1]; strings.HasSuffix(unit, ".cfg") {
		analyzers = forUnit(unit, analyzers)
	}
	unitchecker.Main(analyzers...)
}

// forUnit returns the analyzers that a package needs. One of another module needs none, and ends the program. Where a
// package has tests of its own, the variant with these tests is checked, and the one without them is not checked a
// second time.
func forUnit(file string, analyzers []*analysis.Analyzer) []*analysis.Analyzer {
	raw, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var unit unitchecker.Config
	if err := json.Unmarshal(raw, &unit); err != nil {
		log.Fatal(err)
	}
	if unit.VetxOnly && !known(unit.ImportPath) {
		if err := os.WriteFile(unit.VetxOutput, nil, 0o600); err != nil { // without facts
			log.Fatal(err)
		}
		os.Exit(0)
	}
	if !unit.VetxOnly && hasInternalTests(unit) {
		return silent(analyzers)
	}
	return analyzers
}

// known reports whether a package has functions like fmt.Errorf that are called here: ours, and Caddy's parser.
func known(path string) bool {
	return strings.HasPrefix(path, "github.com/gatehouse-id/gatehouse") || strings.HasPrefix(path, "github.com/caddyserver/caddy/v2/caddyconfig")
}

// hasInternalTests reports whether another unit checks the same files together with tests of the same package.
func hasInternalTests(unit unitchecker.Config) bool {
	if len(unit.GoFiles) == 0 || slices.ContainsFunc(unit.GoFiles, isTest) {
		return false
	}
	tests, _ := filepath.Glob(filepath.Join(filepath.Dir(unit.GoFiles[0]), "*_test.go"))
	for _, name := range tests {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly)
		if err == nil && !strings.HasSuffix(f.Name.Name, "_test") {
			return true
		}
	}
	return false
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// silent keeps the facts of the analyzers and drops what they report.
func silent(analyzers []*analysis.Analyzer) []*analysis.Analyzer {
	var kept []*analysis.Analyzer
	for _, a := range analyzers {
		if !usesFacts(a, map[*analysis.Analyzer]bool{}) {
			continue
		}
		run := a.Run
		a.Run = func(pass *analysis.Pass) (any, error) {
			quiet := *pass
			quiet.Report = func(analysis.Diagnostic) {}
			return run(&quiet)
		}
		kept = append(kept, a)
	}
	return kept
}

func usesFacts(a *analysis.Analyzer, seen map[*analysis.Analyzer]bool) bool {
	if seen[a] {
		return false
	}
	seen[a] = true
	return len(a.FactTypes) > 0 || slices.ContainsFunc(a.Requires, func(r *analysis.Analyzer) bool { return usesFacts(r, seen) })
}

// named gives the reports of an analyzer the name of its linter, and drops those that a directive accepts. Linters that
// are not for tests see no test files.
func named(linter string, tests bool, a *analysis.Analyzer) *analysis.Analyzer {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		accepted := accepts(pass, linter)
		filtered := *pass
		filtered.Report = func(d analysis.Diagnostic) {
			at := pass.Fset.Position(d.Pos)
			if !tests && isTest(at.Filename) || strings.HasSuffix(at.Filename, ".pb.go") || accepted[at.Filename][at.Line] {
				return
			}
			d.Message += " (" + linter + ")"
			d.SuggestedFixes = nil
			pass.Report(d)
		}
		return run(&filtered)
	}
	return a
}

// accepts returns the lines of each file that a nolint directive covers: its own, and the whole of a declaration or
// statement that begins there.
func accepts(pass *analysis.Pass, linter string) map[string]map[int]bool {
	covered := map[string]map[int]bool{}
	for _, f := range pass.Files {
		lines := map[int]bool{}
		for _, group := range f.Comments {
			for _, c := range group.List {
				names, ok := strings.CutPrefix(c.Text, "//nolint:")
				if !ok {
					continue
				}
				names, _, _ = strings.Cut(names, " ")
				if slices.Contains(strings.Split(names, ","), linter) {
					lines[pass.Fset.Position(c.Pos()).Line] = true
				}
			}
		}
		if len(lines) == 0 {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if n == nil {
				return false
			}
			from, to := pass.Fset.Position(n.Pos()).Line, pass.Fset.Position(n.End()).Line
			if d := doc(n); d != nil { // a directive at the end of a doc comment is for all of the declaration
				lines[from] = lines[from] || lines[pass.Fset.Position(d.List[len(d.List)-1].Pos()).Line]
			}
			if _, whole := n.(*ast.File); !whole && lines[from] {
				for line := from; line <= to; line++ {
					lines[line] = true
				}
			}
			return true
		})
		covered[pass.Fset.Position(f.Pos()).Filename] = lines
	}
	return covered
}

func doc(n ast.Node) *ast.CommentGroup {
	switch d := n.(type) {
	case *ast.GenDecl:
		return d.Doc
	case *ast.FuncDecl:
		return d.Doc
	case *ast.Field:
		return d.Doc
	case *ast.ValueSpec:
		return d.Doc
	}
	return nil
}
