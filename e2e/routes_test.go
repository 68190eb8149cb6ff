package e2e

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is the part of a package's Go files that the tests read, so new pages and parameters are tested without a
// change here.
type source struct {
	files  []*ast.File
	values map[string]ast.Expr // of constants and variables, and of their elements: name, name.field or name.key
}

func readSource(t *testing.T, dir string) *source {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("sources of %s: %v", dir, err)
	}
	s := &source{values: map[string]ast.Expr{}}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, raw, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, f)
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				s.declare(g)
			}
		}
	}
	return s
}

func (s *source) declare(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range v.Names {
			if i >= len(v.Values) {
				continue
			}
			s.values[name.Name] = v.Values[i]
			x := v.Values[i]
			if u, ok := x.(*ast.UnaryExpr); ok {
				x = u.X
			}
			if lit, ok := x.(*ast.CompositeLit); ok {
				for _, e := range lit.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						s.values[name.Name+"."+fmt.Sprint(kv.Key)] = kv.Value
					}
				}
			}
		}
	}
}

// text returns the string value of an expression.
func (s *source) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		v, err := strconv.Unquote(e.Value)
		return v, err == nil
	case *ast.ParenExpr:
		return s.text(e.X)
	case *ast.BinaryExpr:
		a, ok := s.text(e.X)
		b, also := s.text(e.Y)
		return a + b, ok && also && e.Op == token.ADD
	case *ast.Ident:
		v, ok := s.values[e.Name]
		if !ok {
			return "", false
		}
		return s.text(v)
	case *ast.IndexExpr:
		if v, ok := s.values[fmt.Sprint(e.X)+"."+fmt.Sprint(e.Index)]; ok {
			return s.text(v)
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			if v, ok := s.values[x.Name+"."+e.Sel.Name]; ok {
				return s.text(v)
			}
		}
	}
	return "", false
}

// own returns the constants and variables of the package itself whose value is a known string.
func (s *source) own() map[string]string {
	texts := map[string]string{}
	for name, v := range s.values {
		if text, ok := s.text(v); ok && !strings.Contains(name, ".") {
			texts[name] = text
		}
	}
	return texts
}

// calls visits the calls of methods and functions by the last part of their name.
func (s *source) calls(visit func(name string, call *ast.CallExpr)) {
	for _, f := range s.files {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
					visit(sel.Sel.Name, call)
				}
			}
			return true
		})
	}
}

// identityRooms are the directories of the packages that serve pages.
func identityRooms(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../identity/*/routes.go")
	if err != nil {
		t.Fatal(err)
	}
	rooms := []string{"../identity", "../identity/person", "../identity/session", "../identity/challenge"}
	for _, f := range files {
		if dir := filepath.Dir(f); !slices.Contains([]string{"api", "config", "keypair", "scim"}, filepath.Base(dir)) {
			rooms = append(rooms, dir)
		}
	}
	return rooms
}

// identityRoutes are the paths that the identity service registers with its router, without those for providers, for
// files and for unknown paths.
func identityRoutes(t *testing.T) []string {
	t.Helper()
	rooms := identityRooms(t)
	sources := map[string]*source{"web": readSource(t, "../internal/web"), "dbsc": readSource(t, "../internal/dbsc")}
	for _, dir := range rooms {
		sources[filepath.Base(dir)] = readSource(t, dir)
	}
	// A constant of one package stands on those of another: each round resolves one step more.
	for range rooms {
		for name, src := range sources {
			for constant, text := range src.own() {
				for _, other := range sources {
					other.values[name+"."+constant] = &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(text)}
				}
			}
		}
	}
	found := map[string]bool{}
	for _, dir := range rooms {
		src := sources[filepath.Base(dir)]
		src.calls(func(name string, call *ast.CallExpr) {
			if (name != "Handle" && name != "HandleFunc") || len(call.Args) != 2 {
				return
			}
			p, ok := src.text(call.Args[0])
			if !ok {
				t.Errorf("the path of a route of %s is %v, which this test cannot read", dir, call.Args[0])
				return
			}
			if !strings.Contains(p, "{") && !strings.HasSuffix(p, "/") {
				found[p] = true
			}
		})
	}
	if len(found) < 10 {
		t.Fatalf("routes of identity: %v, want more", found)
	}
	return slices.Sorted(maps.Keys(found))
}

var parameterName = regexp.MustCompile(`^[a-z][a-z_]*$`)

// pageParameters are the names of all parameters that pages read from a query or a form.
func pageParameters(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for _, dir := range append(identityRooms(t), "../authz", "../authz/oauth", "../internal/web") {
		src := readSource(t, dir)
		src.calls(func(name string, call *ast.CallExpr) {
			if (name == "Get" || name == "Has" || name == "FormValue") && len(call.Args) == 1 {
				if p, ok := src.text(call.Args[0]); ok && parameterName.MatchString(p) {
					found[p] = true
				}
			}
		})
	}
	// those that the authorization endpoint reads from a table
	for _, p := range []string{
		"client_id", "redirect_uri", "response_type", "response_mode", "scope", "state", "nonce", "prompt", "max_age",
		"ui_locales", "language", "app_view",
		"login_hint", "acr_values", "claims", "external_idp", "external_idp_custom_param", "idp", "id_token_hint",
		"post_logout_redirect_uri", "resource",
	} {
		found[p] = true
	}
	if len(found) < 30 {
		t.Fatalf("parameters of pages: %v, want more", found)
	}
	return slices.Sorted(maps.Keys(found))
}
