package archtest

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unused are exported names without a user in another package, and why they stay.
var unused = allowance{
	"OpenMemory":  "the engine that the tests of other packages run on",
	"Store.Sweep": "the contract's suite says when to collect",
	"CatchUp":     "tests of what runs in the background say when",
	"Sign":        "to do: unexport; its test checks the example of Standard Webhooks",

	"FieldText": "to do: unexport or remove",

	"Gate.Enter": "to do: unexport",

	"Views": "the tests of pages go through every shape of them",
}

// hooks are methods that libraries call by an interface of theirs.
var hooks = []string{
	"CaddyModule", "Provision", "Validate", "Start", "Stop", "Cleanup", "UnmarshalCaddyfile", "ServeHTTP", "Routes",
	"Handle", "WrapListener", // Caddy
	"Error", "Unwrap", "Is", "As", "String", "GoString", "Format", "Read", "Write", "Close", "Len", "Less", "Swap",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "MarshalCBOR", "UnmarshalCBOR", "MarshalLogObject",
	"Deadline", "Done", "Err", "Value", "Header", "WriteHeader", "Flush", "Hijack",
	"Describe", "Collect", // Prometheus
	"Destruct", // pools of Caddy
	"WebAuthnID", "WebAuthnName", "WebAuthnDisplayName", "WebAuthnCredentials",
}

// TestExportedNamesHaveUsers: what a package exports is used by another one, tests left out. A function or method that
// only its own package calls is not exported; one that only tests call stands in a test file or a package for tests.
// Types, constants and variables may be used by their own package: they are what its functions take and return.
func TestExportedNamesHaveUsers(t *testing.T) {
	t.Parallel()
	tree := typedFiles(t)
	elsewhere, anywhere, byName := map[types.Object]bool{}, map[types.Object]bool{}, namesInTemplates(t)
	for _, p := range tree.order {
		for _, f := range p.files {
			if harness(f) {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					o := p.info.Uses[n]
					if fn, ok := o.(*types.Func); ok {
						o = fn.Origin()
					}
					if o != nil {
						anywhere[o] = true
						elsewhere[o] = elsewhere[o] || o.Pkg() != p.types
					}
				case *ast.SelectorExpr:
					if p.info.Uses[n.Sel] == nil {
						byName[n.Sel.Name] = true // of a value whose type is not known here
					}
				case *ast.InterfaceType:
					for _, m := range n.Methods.List {
						for _, name := range m.Names {
							byName[name.Name] = true
						}
					}
				}
				return true
			})
		}
	}
	allowed := unused.use(t)
	check := func(p *pkg, name string, fine bool, o types.Object) {
		if fine || !o.Exported() {
			return
		}
		if !allowed.allows(name) {
			t.Errorf("%s: %s.%s is exported, and no other package uses it outside of tests", position(o), p.dir, name)
		}
	}
	for _, p := range tree.order {
		foreign := slices.ContainsFunc(mains, func(m string) bool { return under(p.dir, m) })
		if foreign || strings.HasSuffix(p.dir, "test") || p.types.Name() == "main" {
			continue
		}
		scope := p.types.Scope()
		for _, name := range scope.Names() {
			o := scope.Lookup(name)
			if _, ok := o.(*types.Func); ok {
				check(p, name, elsewhere[o], o)
				continue
			}
			check(p, name, anywhere[o], o)
			named, ok := o.Type().(*types.Named)
			if _, isType := o.(*types.TypeName); !ok || !isType || !o.Exported() {
				continue
			}
			for m := range named.Methods() {
				check(p, name+"."+m.Name(), elsewhere[m] || byName[m.Name()] || slices.Contains(hooks, m.Name()), m)
			}
		}
	}
}

func position(o types.Object) string {
	at := fset.Position(o.Pos())
	return strings.TrimPrefix(at.Filename, root+"/")
}

var templateName = regexp.MustCompile(`\.([A-Z][A-Za-z]*)`)

// namesInTemplates returns the names that templates ask of their data.
func namesInTemplates(t *testing.T) map[string]bool {
	t.Helper()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, f := range all {
		if strings.HasSuffix(f, ".html") {
			for _, m := range templateName.FindAllStringSubmatch(text(t, f), -1) {
				out[m[1]] = true
			}
		}
	}
	return out
}
