package archtest

import (
	"go/ast"
	"go/types"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// tables are packages with a file for each entry of a table, so two entries are not in each other's way.
var tables = []string{"caddymodule/internal/reference"}

// unsplit are packages whose files tell of several subjects by their prefixes, until each subject is a package.
var unsplit = []string{"identity/mfa", "identity/settings", "caddymodule"}

// TestPrefixesArePackages: two prefixes of file names, of three files or more each, are two packages.
func TestPrefixesArePackages(t *testing.T) {
	t.Parallel()
	for dir, p := range typedFiles(t).packages {
		names := map[string]int{}
		for _, f := range p.files {
			prefix, _, _ := strings.Cut(strings.TrimSuffix(path.Base(f.path), ".go"), "_")
			names[prefix]++
		}
		var subjects []string
		for prefix, n := range names {
			if n >= 3 {
				subjects = append(subjects, prefix)
			}
		}
		slices.Sort(subjects)
		listed := slices.Contains(unsplit, dir) || slices.Contains(tables, dir)
		if len(subjects) > 1 && !listed {
			t.Errorf("the files of %s have the prefixes %s: make each a package", dir, strings.Join(subjects, ", "))
		}
		if len(subjects) < 2 && listed {
			t.Errorf("%s tells of one subject: take it off its list", dir)
		}
	}
	for _, dir := range unsplit {
		if typedFiles(t).packages[dir] == nil {
			t.Errorf("%s is to be split, and does not exist", dir)
		}
	}
}

// topLevel are the names at the top of the tree.
var topLevel = strings.Fields(`.ci .gitignore .golangci.yml ARCHITECTURE.md CHANGELOG.md CODE_OF_CONDUCT.md CONTRIBUTING.md
	Caddyfile.example LICENSE Makefile README.md SECURITY.md admin authz bench caddymodule changes cmd docs e2e example faults
	gatehouse.go go.mod go.sum identity idp internal packaging release scripts site storage tools xcaddy.json`)

// TestTopLevel: nothing new is at the top of the tree by accident, such as a program that go build has left there.
func TestTopLevel(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range all {
		name, _, _ := strings.Cut(f, "/")
		if !seen[name] && !slices.Contains(topLevel, name) {
			t.Errorf("%s is at the top of the tree and not in topLevel", name)
		}
		seen[name] = true
	}
}

// TestNoLinks: the tree has no symbolic links, which lead elsewhere on another machine.
func TestNoLinks(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--stage")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "120000 ") {
			t.Errorf("a symbolic link: %s", line)
		}
	}
}

// TestTablesStayInTheirRooms: SCIM, the APIs and Caddy ask identity's packages for what they need, and read no table of
// theirs.
func TestTablesStayInTheirRooms(t *testing.T) {
	t.Parallel()
	for _, p := range typedFiles(t).order {
		if !under(p.dir, "identity/scim") && !under(p.dir, "identity/api") && !under(p.dir, "caddymodule") {
			continue
		}
		for _, f := range p.files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				if v, ok := p.info.Uses[id].(*types.Var); ok && isTable(v) && v.Pkg() != p.types {
					t.Errorf("%s uses the table %s.%s: ask that package", f.at(n), v.Pkg().Name(), v.Name())
				}
				return true
			})
		}
	}
}
