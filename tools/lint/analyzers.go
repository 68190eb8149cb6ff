package main

import (
	"fmt"
	"go/token"
	"os"
	"regexp"

	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/kisielk/errcheck/errcheck"
	reviveconfig "github.com/mgechev/revive/config"
	revive "github.com/mgechev/revive/lint"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/appends"
	"golang.org/x/tools/go/analysis/passes/asmdecl"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomic"
	"golang.org/x/tools/go/analysis/passes/bools"
	"golang.org/x/tools/go/analysis/passes/buildtag"
	"golang.org/x/tools/go/analysis/passes/composite"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/defers"
	"golang.org/x/tools/go/analysis/passes/directive"
	"golang.org/x/tools/go/analysis/passes/errorsas"
	"golang.org/x/tools/go/analysis/passes/hostport"
	"golang.org/x/tools/go/analysis/passes/httpresponse"
	"golang.org/x/tools/go/analysis/passes/ifaceassert"
	"golang.org/x/tools/go/analysis/passes/loopclosure"
	"golang.org/x/tools/go/analysis/passes/lostcancel"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/sigchanyzer"
	"golang.org/x/tools/go/analysis/passes/slog"
	"golang.org/x/tools/go/analysis/passes/stdmethods"
	"golang.org/x/tools/go/analysis/passes/stdversion"
	"golang.org/x/tools/go/analysis/passes/stringintconv"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/testinggoroutine"
	"golang.org/x/tools/go/analysis/passes/tests"
	"golang.org/x/tools/go/analysis/passes/timeformat"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unreachable"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/analysis/passes/unusedresult"
	"golang.org/x/tools/go/analysis/passes/waitgroup"
	"golang.org/x/tools/go/packages"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func all() []*analysis.Analyzer {
	list := []*analysis.Analyzer{
		named("errcheck", false, unchecked),
		named("errorlint", true, errorlint.NewAnalyzer()),
		named("bodyclose", false, bodyclose.Analyzer),
		named("ineffassign", true, ineffassign.Analyzer),
		named("revive", true, style),
		named("unused", true, dead),
	}
	for _, a := range vet {
		list = append(list, named("govet", true, a))
	}
	for _, group := range [][]*lint.Analyzer{staticcheck.Analyzers, simple.Analyzers, stylecheck.Analyzers} {
		for _, a := range group {
			if !unwanted[a.Analyzer.Name] {
				list = append(list, named("staticcheck", a.Analyzer.Name != "S1025", a.Analyzer)) // a test of a formatting verb spells the verb
			}
		}
	}
	return list
}

// unwanted checks of staticcheck: naming and comments are revive's, and initialisms are the project's own.
var unwanted = map[string]bool{"ST1000": true, "ST1003": true, "ST1016": true, "ST1020": true, "ST1021": true, "ST1022": true}

var vet = []*analysis.Analyzer{
	appends.Analyzer, asmdecl.Analyzer, assign.Analyzer, atomic.Analyzer, bools.Analyzer, buildtag.Analyzer, composite.Analyzer,
	copylock.Analyzer, defers.Analyzer, directive.Analyzer, errorsas.Analyzer, hostport.Analyzer, httpresponse.Analyzer,
	ifaceassert.Analyzer, loopclosure.Analyzer, lostcancel.Analyzer, nilfunc.Analyzer, printf.Analyzer, shift.Analyzer,
	sigchanyzer.Analyzer, slog.Analyzer, stdmethods.Analyzer, stdversion.Analyzer, stringintconv.Analyzer, structtag.Analyzer,
	testinggoroutine.Analyzer, tests.Analyzer, timeformat.Analyzer, unmarshal.Analyzer, unreachable.Analyzer, unsafeptr.Analyzer,
	unusedresult.Analyzer, waitgroup.Analyzer,
}

// unchecked is errcheck. Closing after a read, and writing to a client that could be gone, have no use for the error.
var unchecked = &analysis.Analyzer{
	Name: "errcheck", Doc: "reports errors that are not checked",
	Run: func(pass *analysis.Pass) (any, error) {
		checker := errcheck.Checker{Exclusions: errcheck.Exclusions{
			BlankAssignments: true, TypeAssertions: true,
			Symbols: append(errcheck.DefaultExcludedSymbols,
				"(io.Closer).Close", "(*os.File).Close", "(net.Conn).Close", "(net.Listener).Close", "(net/http.ResponseWriter).Write",
				"io.WriteString(net/http.ResponseWriter)", "os.Remove", "os.RemoveAll", "fmt.Fprintf", "fmt.Fprintln", "fmt.Fprint"),
		}}
		for _, e := range checker.CheckPackage(loaded(pass)).Unique().UncheckedErrors {
			if !harmless.MatchString(e.FuncName) && !harmless.MatchString(e.SelectorName) {
				report(pass, e.Pos.Filename, e.Pos.Line, "error of "+e.SelectorName+" is not checked")
			}
		}
		return nil, nil //nolint:nilnil // an analyzer without a result
	},
}

// harmless are golangci-lint's exclusions for what is customarily not checked.
var harmless = regexp.MustCompile(`(Close|Flush|os\.Remove(All)?|[pP]rint(f|ln)?|os\.(Un)?Setenv)$`)

// style is revive: comments of exported names, the order of parameters, names of errors and receivers. Its rules that
// need types are left to make nightly, since revive asks the go command for each package of the standard library that a
// package imports; SA1029 of staticcheck finds what its context-keys-type does.
var style = &analysis.Analyzer{Name: "revive", Doc: "reports style", Run: func(pass *analysis.Pass) (any, error) {
	conf := &revive.Config{Confidence: 0.8, Rules: revive.RulesConfig{"exported": {Arguments: []any{"disableStutteringCheck"}}}}
	for _, name := range []string{
		"blank-imports", "context-as-argument", "error-naming", "error-strings", "increment-decrement", "package-comments",
		"range", "receiver-naming", "redefines-builtin-id", "unreachable-code", "use-any", "waitgroup-by-value",
	} {
		conf.Rules[name] = revive.RuleConfig{}
	}
	wanted, err := reviveconfig.GetLintingRules(conf, nil)
	if err != nil {
		return nil, err
	}
	linter := revive.New(os.ReadFile, 0)
	var files []string
	for _, f := range pass.Files {
		files = append(files, pass.Fset.Position(f.Package).Filename)
	}
	failures, err := linter.Lint([][]string{files}, wanted, *conf)
	if err != nil {
		return nil, err
	}
	for f := range failures {
		if f.Confidence >= conf.Confidence {
			report(pass, f.Filename(), f.Position.Start.Line, f.RuleName+": "+f.Failure)
		}
	}
	return nil, nil //nolint:nilnil // an analyzer without a result
}}

// dead is unused, whose own analyzer has a result and reports nothing.
var dead = &analysis.Analyzer{
	Name: "unused", Doc: "reports unused code", Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, o := range pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result).Unused {
			if o.Kind != "type param" {
				report(pass, o.Position.Filename, o.Position.Line, o.Kind+" "+o.Name+" is unused")
			}
		}
		return nil, nil //nolint:nilnil // an analyzer without a result
	},
}

func loaded(pass *analysis.Pass) *packages.Package {
	return &packages.Package{Fset: pass.Fset, Syntax: pass.Files, Types: pass.Pkg, TypesInfo: pass.TypesInfo}
}

// report places a finding that has a file and a line. Findings in generated files and assembler are left out.
func report(pass *analysis.Pass, file string, line int, text string) {
	for _, f := range pass.Files {
		at := pass.Fset.File(f.Package)
		if at.Name() == file && line <= at.LineCount() {
			pass.Report(analysis.Diagnostic{Pos: at.LineStart(line), Message: text})
			return
		}
	}
	pass.Report(analysis.Diagnostic{Pos: token.NoPos, Message: fmt.Sprintf("%s:%d: %s", file, line, text)})
}
