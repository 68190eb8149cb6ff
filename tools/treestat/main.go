// Command treestat prints a table of the packages of this tree: lines, files and exported names without tests, imports
// of other packages of the tree, and lines of tests. With a commit, the table has the figures of that commit before
// those of the tree; a package that has moved since is one row for its old path and one for its new.
//
//	cd tools && go run ./treestat -root .. [-base COMMIT]
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/gatehouse-id/gatehouse"

// A figures is what is counted of one package.
type figures struct {
	lines, files, exported, testLines int

	imports map[string]bool
}

// A tree has figures by directory.
type tree map[string]*figures

// add counts one file, by its path from the root, with slashes.
func (t tree) add(name string, src []byte) error {
	dir := path.Dir(name)
	f := t[dir]
	if f == nil {
		f = &figures{imports: map[string]bool{}}
		t[dir] = f
	}
	lines := bytes.Count(src, []byte("\n"))
	if strings.HasSuffix(name, "_test.go") {
		f.testLines += lines
		return nil
	}
	f.lines += lines
	f.files++
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, i := range file.Imports {
		if p := strings.Trim(i.Path.Value, `"`); strings.HasPrefix(p, module+"/") {
			f.imports[p] = true
		}
	}
	for _, d := range file.Decls {
		f.exported += exported(d)
	}
	return nil
}

// exported counts the exported names of a declaration; methods count if their name is exported.
func exported(d ast.Decl) (n int) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() {
			n++
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					n++
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						n++
					}
				}
			}
		}
	}
	return n
}

// ours reports whether a path is a Go file of the tree, rather than something fetched or made.
func ours(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.Contains("/"+name, "/node_modules/") && !strings.Contains("/"+name, "/.")
}

// readDir reads the tree below a directory.
func readDir(root string) (tree, error) {
	t := tree{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if name := filepath.ToSlash(rel); err == nil && ours(name) {
			var src []byte
			if src, err = os.ReadFile(p); err == nil {
				err = t.add(name, src)
			}
		}
		return err
	})
	return t, err
}

// readCommit reads the tree of a commit.
func readCommit(root, commit string) (tree, error) {
	cmd := exec.Command("git", "-C", root, "archive", "--format=tar", commit) //nolint:gosec // by the developer's word
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git archive %s: %w", commit, err)
	}
	t := tree{}
	r := tar.NewReader(bytes.NewReader(out))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg || !ours(h.Name) {
			continue
		}
		src, err := io.ReadAll(r)
		if err == nil {
			err = t.add(h.Name, src)
		}
		if err != nil {
			return nil, err
		}
	}
}

// row prints the figures of one package, or dashes if there are none.
func (f *figures) row() string {
	if f == nil {
		return "– | – | – | – | –"
	}
	return fmt.Sprintf("%d | %d | %d | %d | %d", f.lines, f.files, f.exported, len(f.imports), f.testLines)
}

// total adds the figures of all packages that a test accepts.
func (t tree) total(accept func(dir string) bool) *figures {
	sum := &figures{imports: map[string]bool{}}
	for dir, f := range t {
		if accept(dir) {
			sum.lines += f.lines
			sum.files += f.files
			sum.exported += f.exported
			sum.testLines += f.testLines
			maps.Copy(sum.imports, f.imports)
		}
	}
	return sum
}

// harness reports whether a package only helps tests, or stands outside the product.
func harness(dir string) bool {
	top, _, _ := strings.Cut(dir, "/")
	return slices.Contains([]string{"internal/archtest", "internal/testrun", "internal/testidp"}, dir) ||
		slices.Contains([]string{"bench", "e2e", "faults", "release", "tools"}, top) || strings.HasSuffix(dir, "test")
}

func run(root, base string) error {
	now, err := readDir(root)
	if err != nil {
		return err
	}
	before, head, line := tree{}, "package | lines | files | exported | imports | test lines", "---|--:|--:|--:|--:|--:"
	if base != "" {
		if before, err = readCommit(root, base); err != nil {
			return err
		}
		head = "package | lines before | files | exported | imports | test lines | lines now | files | exported | imports | test lines"
		line += "|--:|--:|--:|--:|--:"
	}
	fmt.Printf("| %s |\n|%s|\n", head, line)
	print := func(name string, was, is *figures) {
		if base == "" {
			fmt.Printf("| %s | %s |\n", name, is.row())
			return
		}
		fmt.Printf("| %s | %s | %s |\n", name, was.row(), is.row())
	}
	dirs := map[string]bool{}
	for _, t := range []tree{before, now} {
		for dir := range t {
			dirs[dir] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		print(dir, before[dir], now[dir])
	}
	product := func(dir string) bool { return !harness(dir) }
	print("**product**", before.total(product), now.total(product))
	print("**harness**", before.total(harness), now.total(harness))
	return nil
}

func main() {
	root := flag.String("root", "..", "the `directory` of the tree")
	base := flag.String("base", "", "a `commit` whose figures stand before those of the tree")
	flag.Parse()
	if err := run(*root, *base); err != nil {
		fmt.Fprintln(os.Stderr, "treestat:", err)
		os.Exit(1)
	}
}
