package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A room is one package without its tests.
type room struct {
	dir   string // slash separated, from the root
	files []*ast.File
	lines int
	types *types.Package

	values, funcs int             // exported: types, variables and constants; functions and methods
	borders       map[string]*use // by the directory of the package that is used
}

// use is what one package uses of another one.
type use struct {
	names      map[types.Object]bool
	references int
}

// A tree resolves the names of the module and of the standard library. Packages of other modules are empty to it, so it
// needs no module cache; a name that is reached only through them is not counted.
type tree struct {
	root, module string
	rooms        map[string]*room
	fset         *token.FileSet
	standard     types.Importer
}

var moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)

// load reads and resolves the packages of the module in a directory.
func load(dir string) (*tree, error) {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("%w: run it at the root of the repository", err)
	}
	name := moduleLine.FindSubmatch(mod)
	if name == nil {
		return nil, errors.New("go.mod names no module")
	}
	// The standard library is read from its source. A binary built with -trimpath does not know where that is.
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	build.Default.GOROOT, build.Default.CgoEnabled = strings.TrimSpace(string(goroot)), false
	t := &tree{root: dir, module: string(name[1]), rooms: map[string]*room{}, fset: token.NewFileSet()}
	t.standard = importer.ForCompiler(t.fset, "source", nil)
	if err := filepath.WalkDir(dir, t.visit); err != nil {
		return nil, err
	}
	for _, dir := range t.order() {
		t.check(dir)
	}
	return t, nil
}

// visit parses a file, or skips a directory that holds no package of the module.
func (t *tree) visit(p string, d fs.DirEntry, err error) error {
	if err != nil || p == t.root {
		return err
	}
	if d.IsDir() {
		_, missing := os.Stat(filepath.Join(p, "go.mod"))
		if missing == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), "test") {
			return filepath.SkipDir
		}
		return nil
	}
	if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
		return nil
	}
	if ok, err := build.Default.MatchFile(filepath.Dir(p), d.Name()); err != nil || !ok {
		return err // of another system
	}
	rel, err := filepath.Rel(t.root, filepath.Dir(p))
	if err != nil {
		return err
	}
	content, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(t.fset, p, content, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	r := t.rooms[rel]
	if r == nil {
		r = &room{dir: rel, borders: map[string]*use{}}
		t.rooms[rel] = r
	}
	r.files = append(r.files, f)
	r.lines += bytes.Count(content, []byte("\n"))
	return nil
}

// order returns the directories of the packages, sorted.
func (t *tree) order() []string { return slices.Sorted(maps.Keys(t.rooms)) }

// check resolves the names of a package, those of the packages that it imports first.
func (t *tree) check(dir string) *types.Package {
	r := t.rooms[dir]
	if r.types != nil {
		return r.types
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: t, Error: func(error) {}} // what other modules declare is missing
	r.types, _ = conf.Check(path.Join(t.module, dir), t.fset, r.files, info)
	r.countExported()
	for _, f := range r.files {
		for _, i := range f.Imports {
			if of, ok := t.directory(strings.Trim(i.Path.Value, `"`)); ok && t.rooms[of] != nil && r.borders[of] == nil {
				r.borders[of] = &use{names: map[types.Object]bool{}}
			}
		}
	}
	for _, o := range info.Uses {
		if _, ok := o.(*types.PkgName); ok || o.Pkg() == nil || o.Pkg() == r.types {
			continue
		}
		of, ok := t.directory(o.Pkg().Path())
		if !ok || t.rooms[of] == nil {
			continue
		}
		u := r.borders[of]
		if u == nil { // a field or method of a value that a third package returned
			u = &use{names: map[types.Object]bool{}}
			r.borders[of] = u
		}
		u.names[origin(o)] = true
		u.references++
	}
	return r.types
}

// origin returns the declaration behind a name of an instance of a generic type or function.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return o
}

func (r *room) countExported() {
	for _, name := range r.types.Scope().Names() {
		o := r.types.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		if _, ok := o.(*types.Func); ok {
			r.funcs++
			continue
		}
		r.values++
		if named, ok := o.Type().(*types.Named); ok && named.Obj() == o {
			for m := range named.Methods() {
				if m.Exported() {
					r.funcs++
				}
			}
		}
	}
}

// directory returns where a package of the module stands.
func (t *tree) directory(importPath string) (string, bool) {
	if importPath == t.module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.module+"/")
}

var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

// Import implements types.Importer.
func (t *tree) Import(p string) (*types.Package, error) {
	if dir, ok := t.directory(p); ok && t.rooms[dir] != nil {
		return t.check(dir), nil
	}
	if first, _, _ := strings.Cut(p, "/"); !strings.Contains(first, ".") {
		return t.standard.Import(p)
	}
	empty := types.NewPackage(p, path.Base(majorVersion.ReplaceAllString(p, "")))
	empty.MarkComplete()
	return empty, nil
}
