package archtest

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/gatehouse-id/gatehouse"
)

// A source is one Go file of the tree.
type source struct {
	path string // slash separated, from the root
	ast  *ast.File
	fset *token.FileSet
}

func (s source) dir() string { return path.Dir(s.path) }

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// at names the place of a node for a failure.
func (s source) at(n ast.Node) string {
	p := s.fset.Position(n.Pos())
	return s.path + ":" + strconv.Itoa(p.Line)
}

// imports returns the import paths by the name under which the file knows them.
func (s source) imports() map[string]string {
	out := map[string]string{}
	for _, i := range s.ast.Imports {
		p := strings.Trim(i.Path.Value, `"`)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		out[name] = p
	}
	return out
}

// uses calls fn for each pkg.Name of the file whose pkg is an imported package, with its import path.
func (s source) uses(fn func(n *ast.SelectorExpr, importPath string)) {
	known := s.imports()
	ast.Inspect(s.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil { // an object would be a variable of that name
			if p, ok := known[x.Name]; ok {
				fn(sel, p)
			}
		}
		return true
	})
}

// skippedDirs are not ours to judge: made or fetched. So are hidden ones, but for .ci.
var skippedDirs = []string{"bin", "data", "dist", "node_modules", "artifacts"}

// files returns every file of the tree that is ours, slash separated, from the root.
var files = sync.OnceValues(func() ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci" && p != root
			if hidden || slices.Contains(skippedDirs, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err == nil && d.Type().IsRegular() && rel != ".git" { // a file where git has linked another work tree
			out = append(out, filepath.ToSlash(rel))
		}
		return err
	})
	return out, err
})

// fset holds the positions of every parsed file.
var fset = token.NewFileSet()

// sources parses every Go file of the tree, once for all tests.
var sources = sync.OnceValues(func() ([]source, error) {
	all, err := files()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(f string) bool { return !strings.HasSuffix(f, ".go") })
	out, errs := make([]source, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	for i, f := range all {
		wg.Go(func() {
			parsed, err := parser.ParseFile(fset, filepath.Join(root, f), nil, parser.ParseComments)
			out[i], errs[i] = source{path: f, ast: parsed, fset: fset}, err
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
})

func goFiles(t *testing.T) []source {
	t.Helper()
	out, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found %d Go files: the tree is not where this test looks for it", len(out))
	}
	return out
}

func text(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// under reports whether the directory d is prefix or stands below it.
func under(d, prefix string) bool { return d == prefix || strings.HasPrefix(d, prefix+"/") }
