package archtest

import (
	"go/ast"
	"go/build"
	"go/types"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// A pkg is one package of the tree without its tests, with what its names mean.
type pkg struct {
	dir   string
	files []source
	types *types.Package
	info  *types.Info
}

// A typedTree resolves the names of the module. Packages from elsewhere are empty to it, the standard library included,
// which makes it fast: an expression whose type comes from there has none here.
type typedTree struct {
	packages map[string]*pkg // by directory
	order    []*pkg          // a package after those that it imports
}

var typed = sync.OnceValues(func() (*typedTree, error) {
	all, err := sources()
	if err != nil {
		return nil, err
	}
	tree := &typedTree{packages: map[string]*pkg{}}
	for _, f := range all {
		if f.test() {
			continue
		}
		if ok, err := build.Default.MatchFile(path.Join(root, f.dir()), path.Base(f.path)); err != nil || !ok {
			continue // of another system
		}
		p := tree.packages[f.dir()]
		if p == nil {
			p = &pkg{dir: f.dir()}
			tree.packages[f.dir()] = p
		}
		p.files = append(p.files, f)
	}
	for dir := range tree.packages {
		tree.check(dir)
	}
	return tree, nil
})

func typedFiles(t *testing.T) *typedTree {
	t.Helper()
	tree, err := typed()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func (tree *typedTree) check(dir string) *types.Package {
	p := tree.packages[dir]
	if p.types != nil {
		return p.types
	}
	p.info = &types.Info{
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{},
	}
	var parsed []*ast.File
	for _, f := range p.files {
		parsed = append(parsed, f.ast)
	}
	conf := types.Config{Importer: tree, Error: func(error) {}}
	p.types, _ = conf.Check(importPath(dir), fset, parsed, p.info) // what it misses is missing on purpose
	tree.order = append(tree.order, p)
	return p.types
}

var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

// Import makes a package of the module from its files, and an empty one for any other path.
func (tree *typedTree) Import(p string) (*types.Package, error) {
	if dir, ok := directory(p); ok && tree.packages[dir] != nil {
		return tree.check(dir), nil
	}
	empty := types.NewPackage(p, path.Base(majorVersion.ReplaceAllString(p, "")))
	empty.MarkComplete()
	return empty, nil
}

func importPath(dir string) string {
	if dir == "." {
		return module
	}
	return module + "/" + dir
}

// directory returns where a package of the module stands.
func directory(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// funcs calls fn for each function declaration of the tree that has a body, test code left out.
func (tree *typedTree) funcs(fn func(p *pkg, f source, d *ast.FuncDecl)) {
	for _, p := range tree.order {
		for _, f := range p.files {
			if harness(f) {
				continue
			}
			for _, d := range f.ast.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
					fn(p, f, d)
				}
			}
		}
	}
}

// callee returns the declared function or method that a call names, nil if it is a value or comes from elsewhere.
func (p *pkg) callee(call *ast.CallExpr) *types.Func {
	fn, _ := p.object(call.Fun).(*types.Func)
	if fn == nil {
		return nil
	}
	return fn.Origin()
}

// object returns what an expression names: a variable, field, function or method of the module.
func (p *pkg) object(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		if o := p.info.Uses[e]; o != nil {
			return o
		}
		return p.info.Defs[e]
	case *ast.SelectorExpr:
		return p.info.Uses[e.Sel]
	case *ast.IndexExpr:
		return p.object(e.X)
	}
	return nil
}

// tableCall returns the table of a call such as persons.Put(tx, …) and the name of the method.
func (p *pkg) tableCall(call *ast.CallExpr) (table *types.Var, method string) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, ""
	}
	v, ok := p.object(sel.X).(*types.Var)
	if !ok || !isTable(v) {
		return nil, ""
	}
	return v, sel.Sel.Name
}

// isTable reports whether a variable is a storage.Table that a package declares.
func isTable(v *types.Var) bool {
	return isNamed(v.Type(), module+"/storage", "Table") && v.Pkg() != nil && v.Parent() == v.Pkg().Scope()
}

// takesTx reports whether a function has a parameter of type storage.Tx, so it runs inside a transaction.
func (p *pkg) takesTx(fn *ast.FuncType) bool {
	for _, f := range fn.Params.List {
		if p.isTx(f.Type) {
			return true
		}
	}
	return false
}

func (p *pkg) isTx(e ast.Expr) bool {
	return isNamed(p.info.TypeOf(e), module+"/storage", "Tx")
}

// isNamed reports whether a type, or what it points to, is a declared one of a package.
func isNamed(t types.Type, path, name string) bool {
	if ptr, ok := t.(*types.Pointer); ok {
		t = ptr.Elem()
	}
	n, ok := t.(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == path
}
