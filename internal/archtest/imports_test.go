package archtest

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// mayImport says which of our packages the packages below a directory may import, besides those below that directory
// itself. The longest directory that fits decides. Its rows are in the files imports_<tree>_test.go.
var mayImport = map[string][]string{}

// mayImportRows adds rows to mayImport, one for each line: a directory, a colon and what it may import. Each row is one
// line and each tree one file, so two new packages are seldom in the way of each other. # begins a comment.
func mayImportRows(rows string) {
	for line := range strings.Lines(rows) {
		line, _, _ = strings.Cut(line, "#")
		if dir, allowed, ok := strings.Cut(line, ":"); ok {
			if _, twice := mayImport[dir]; twice {
				panic(dir + " has two rows")
			}
			mayImport[dir] = strings.Fields(allowed)
		}
	}
}

// drivers are libraries that one directory alone may import, so they can be replaced there and nowhere else.
var drivers = []struct{ library, dir, why string }{
	{"github.com/caddyserver/", "caddymodule", "Caddy lives in caddymodule, protocol rules elsewhere"},
	{"github.com/dgraph-io/", "storage/badgerstore", "a driver stays in its backend"},
	{"github.com/cloudflare/", "internal/mldsa", "Go 1.27 takes its place"},
	{"github.com/jackc/", "storage/pgstore", "a driver stays in its backend"},
	{"github.com/crewjam/saml", "idp/saml", "a protocol library stays in its provider"},
	{"github.com/go-ldap/", "idp/ldap", "a protocol library stays in its provider"},
	{"github.com/jcmturner/", "idp/kerberos", "a protocol library stays in its provider"},
	{"github.com/go-asn1-ber/", "idp/ldap", "a protocol library stays in its provider"},
	{"github.com/chromedp/", "e2e", "what only tests need stays out of our go.mod"},
}

// mains may name Caddy or a driver: they are programs that link it or measure against it.
var mains = []string{"cmd", "bench", "faults", "e2e"}

func TestImportsOfOurs(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		allowed, rule := allowedFor(f.dir())
		for _, i := range f.ast.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			if p != module && !strings.HasPrefix(p, module+"/") {
				continue
			}
			target := strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
			if target == "" {
				target = "."
			}
			if f.dir() == target || under(target, rule) && rule != "." || permits(allowed, target) {
				continue
			}
			if harness(f) && (under(target, "storage") || under(f.dir(), "admin") &&
				under(target, "caddymodule/servertest")) { // tests run on a real store and server
				continue
			}
			tree, _, _ := strings.Cut(f.dir(), "/")
			if f.test() && (tree == "caddymodule" || slices.Contains(protocol, tree)) && (under(target, tree) || permits(mayImport[tree], target)) {
				continue // tests of a package go through the service that it is part of
			}
			t.Errorf("%s imports %s: packages below %q may import %v of ours; what both need goes to internal/, what ties them together to caddymodule",
				f.at(i), target, rule, allowed)
		}
	}
}

func TestAuthzAndIdentityAreStrangers(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		for _, i := range f.ast.Imports {
			p := strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module+"/")
			if under(f.dir(), "authz") && under(p, "identity") || under(f.dir(), "identity") && under(p, "authz") {
				t.Errorf("%s imports %s: authz declares the small interfaces that it needs, identity implements them, caddymodule ties them",
					f.at(i), p)
			}
		}
	}
}

func TestDriversStayAtHome(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if slices.ContainsFunc(mains, func(m string) bool { return under(f.dir(), m) }) {
			continue
		}
		for _, i := range f.ast.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			for _, d := range drivers {
				if strings.HasPrefix(p, d.library) && !under(f.dir(), d.dir) {
					t.Errorf("%s imports %s: only %s may: %s", f.at(i), p, d.dir, d.why)
				}
			}
		}
	}
}

// harness reports whether a file is test code: a _test.go file or a package such as authztest.
func harness(f source) bool {
	return f.test() || strings.HasSuffix(f.dir(), "test")
}

func permits(allowed []string, target string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		if a == "storage" || a == "." { // an engine is named by caddymodule alone
			return target == a
		}
		return under(target, a)
	})
}

func allowedFor(dir string) (allowed []string, rule string) {
	rule = "."
	for r := range mayImport {
		if under(dir, r) && (rule == "." || len(r) > len(rule)) {
			rule = r
		}
	}
	allowed = mayImport[rule]
	if rule == "caddymodule" {
		allowed = append(slices.Clone(allowed), "storage/badgerstore", "storage/pgstore")
	}
	return allowed, rule
}

// TestImportRulesAreOfRealPackages: a rule about a package that does not exist holds nothing.
func TestImportRulesAreOfRealPackages(t *testing.T) {
	t.Parallel()
	dirs := map[string]bool{}
	for _, f := range goFiles(t) {
		for d := f.dir(); ; d = path.Dir(d) {
			if dirs[d] = true; d == "." {
				break
			}
		}
	}
	for dir, allowed := range mayImport {
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

// pageless are the packages that know rules and no pages.
var pageless = []string{"identity/person", "identity/session", "identity/challenge", "identity/passkey"}

// TestRulesKnowNoPages: what a person, a session and a proof are is decided without a page.
func TestRulesKnowNoPages(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		for _, dir := range pageless {
			if f.test() || !under(f.dir(), dir) {
				continue
			}
			for _, i := range f.ast.Imports {
				if p := strings.Trim(i.Path.Value, `"`); p == module+"/internal/page" {
					t.Errorf("%s imports %s: pages stand in identity/webflow and above it", f.at(i), p)
				}
			}
		}
	}
}
