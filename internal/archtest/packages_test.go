package archtest

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"
)

const (
	maxPackageLines = 5000
	maxPackageFiles = 45
)

// tables are packages with a file for each entry of a table, so that two entries are not in each other's way.
var tables = []string{"caddymodule/internal/reference"}

// tooLarge are packages over the limits, with the lines and files that they must not exceed until they are split.
var tooLarge = map[string]struct{ lines, files int }{
	"identity/settings":   {5700, 50},
	"identity/person":     {5700, 48},
	"idp/saml":            {5500, 45},
	"caddymodule":         {5150, 45},
	"caddymodule/protect": {5600, 46},
}

// TestPackagesAreRooms: a package of more than 5,000 lines or 45 files, tests left out, is more than one story.
func TestPackagesAreRooms(t *testing.T) {
	t.Parallel()
	for dir, p := range typedFiles(t).packages {
		lines, files := 0, 0
		for _, f := range p.files {
			lines += strings.Count(text(t, f.path), "\n")
			files++
		}
		limit, listed := tooLarge[dir]
		if !listed {
			limit = struct{ lines, files int }{maxPackageLines, maxPackageFiles}
		} else if lines <= maxPackageLines && files <= maxPackageFiles {
			t.Errorf("%s has %d lines in %d files: take it off the list of packages that are too large", dir, lines, files)
		}
		if slices.Contains(tables, dir) {
			limit.files = files
		}
		if lines > limit.lines || files > limit.files {
			t.Errorf("%s has %d lines in %d files, at most %d in %d are allowed: split it", dir, lines, files, limit.lines, limit.files)
		}
	}
	for dir := range tooLarge {
		if typedFiles(t).packages[dir] == nil {
			t.Errorf("%s is on the list of packages that are too large, and does not exist", dir)
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
