package rules

import (
	"go/ast"
	"go/types"
	"maps"
	"path"
	"strings"
	"testing"
)

// rooms are the packages of identity. Imports run downward: a room may import those above it in this list that it
// names.
var rooms = map[string][]string{
	"identity/person":      {"identity/config", "identity/notify", "idp", "storage", "internal"},
	"identity/session":     {"identity/person", "identity/config", "storage", "internal"},
	"identity/proof":       {"identity/session", "identity/person", "identity/config", "identity/notify", "storage", "internal"},
	"identity/passkey":     {"identity/session", "identity/person", "storage", "internal"},
	"identity/front":       append(belowFront, "idp"),
	"identity/assurance":   {"identity/person", "identity/config", "identity/notify", "storage", "internal"},
	"identity/federation":  append(belowFront, "identity/assurance", "identity/front", "idp"),
	"identity/stepup":      append(belowFront, "identity/passkey", "identity/front", "identity/federation"),
	"identity/enrol":       append(belowFront, "identity/front", "identity/federation", "idp"),
	"identity/actiontoken": append(belowFront, "identity/front", "identity/federation", "identity/stepup", "idp"),
	"identity/qrlogin":     append(belowFront, "identity/front", "identity/federation", "identity/stepup"),
	"identity/account": append(belowFront, "identity/passkey", "identity/front", "identity/federation", "identity/stepup", "identity/enrol",
		"identity/actiontoken", "identity/trusted", "idp"),
	"identity/handover":        append(belowFront, "identity/federation", "idp"),
	"identity/serviceprovider": append(belowFront, "identity/front", "idp"),
	"identity/trusted":         append(belowFront, "identity/front"),
	"identity/access":          {"storage", "internal"},

	"identity/access/notice": {"identity/access", "identity/person", "identity/config", "identity/notify", "storage", "internal"},
	"identity/breach":        {"internal"},
	"identity/locker":        {"storage", "internal"},
	"identity/lookup":        {"identity/person", "identity/config", "storage", "internal"}, // config for its tests alone
	"identity/personfile":    {"identity", "internal"},
}

var belowFront = []string{"identity/proof", "identity/session", "identity/person", "identity/config", "identity/notify", "storage", "internal"}

// pageless are the rooms that know rules and no pages.
var pageless = []string{"identity/person", "identity/session", "identity/proof", "identity/passkey"}

func init() { maps.Copy(mayImport, rooms) }

// TestRulesAreOfRealRooms: a rule about a package that does not exist holds nothing.
func TestRulesAreOfRealRooms(t *testing.T) {
	t.Parallel()
	dirs := map[string]bool{}
	for _, f := range goFiles(t) {
		for d := f.dir(); ; d = path.Dir(d) {
			if dirs[d] = true; d == "." {
				break
			}
		}
	}
	_, split := dirs["identity/person"] // before the split its rooms are announced only
	for dir, allowed := range mayImport {
		if _, room := rooms[dir]; room && !split {
			continue
		}
		for _, d := range append([]string{dir}, allowed...) {
			if !dirs[d] {
				t.Errorf("the row of %s names %s, which does not exist", dir, d)
			}
		}
	}
	for _, d := range drivers {
		if !dirs[d.dir] {
			t.Errorf("%s may be imported by %s, which does not exist", d.library, d.dir)
		}
	}
}

// TestRulesKnowNoPages: what a person, a session and a proof are is decided without a page.
func TestRulesKnowNoPages(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		for _, room := range pageless {
			if f.test() || !under(f.dir(), room) {
				continue
			}
			for _, i := range f.ast.Imports {
				if p := strings.Trim(i.Path.Value, `"`); p == module+"/internal/page" {
					t.Errorf("%s imports %s: pages stand in identity/front and above it", f.at(i), p)
				}
			}
		}
	}
}

const (
	maxPackageLines = 5000
	maxPackageFiles = 45
)

// tooLarge are packages over the limits, with the lines and files that they must not exceed until they are split.
var tooLarge = map[string]struct{ lines, files int }{
	"identity/config": {5270, 45},
	"identity/person": {5156, 45},
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
