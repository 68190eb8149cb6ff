package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/goldentest"
)

const eventPackage = module + "/internal/audit"

// kind is a kind of event as it is declared in an events.go.
type kind struct {
	typ, name, dir string
	brief          bool
}

// eventKinds returns every kind that is declared, sorted by its type, and says what is wrong with where and how.
func eventKinds(t *testing.T) []kind {
	t.Helper()
	form := regexp.MustCompile(`^[a-z]+\.[A-Z][A-Za-z]+Event$`)
	var out []kind
	for _, f := range goFiles(t) {
		if harness(f) {
			continue
		}
		for _, lit := range literals(f, "Type") {
			k := kind{dir: f.dir()}
			for _, e := range lit.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok {
					t.Errorf("%s: name the members of an event.Type", f.at(e))
					continue
				}
				switch v := kv.Value.(type) {
				case *ast.BasicLit:
					s, err := strconv.Unquote(v.Value)
					if err != nil {
						t.Fatal(err)
					}
					if kv.Key.(*ast.Ident).Name == "Type" {
						k.typ = s
					} else {
						k.name = s
					}
				case *ast.Ident:
					k.brief = v.Name == "true"
				case *ast.SelectorExpr:
					if kv.Key.(*ast.Ident).Name != "Counts" {
						t.Errorf("%s: an event.Type is made of plain words", f.at(e))
					}
				default:
					t.Errorf("%s: an event.Type is made of plain words", f.at(e))
				}
			}
			if path.Base(f.path) != "events.go" {
				t.Errorf("%s makes an event.Type: they stand in events.go, one line each", f.at(lit))
			}
			if !form.MatchString(k.typ) || k.name == "" {
				t.Errorf("%s: type %q and name %q are not in the style person.PersonCreatedEvent, Person Created", f.at(lit), k.typ, k.name)
			}
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b kind) int { return strings.Compare(a.typ, b.typ) })
	return out
}

// literals returns the composite literals of a type of internal/audit.
func literals(f source, typ string) (out []*ast.CompositeLit) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		sel, ok := lit.Type.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != typ {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && f.imports()[x.Name] == eventPackage {
			out = append(out, lit)
		}
		return true
	})
	return out
}

// TestEventDocuments writes docs/events, a document for each family of events.
func TestEventDocuments(t *testing.T) {
	t.Parallel()
	kinds := eventKinds(t)
	if len(kinds) < 20 {
		t.Fatalf("found %d kinds of events: they are not where this test looks for them", len(kinds))
	}
	documents := map[string]string{}
	for i, k := range kinds {
		if i > 0 && kinds[i-1].typ == k.typ {
			t.Errorf("%s and %s both declare %s", kinds[i-1].dir, k.dir, k.typ)
		}
		family, _, _ := strings.Cut(k.typ, ".")
		file := family + ".md"
		if documents[file] == "" {
			documents[file] = fmt.Sprintf("# Events: %s\n\n| Type | Name | Written by | |\n|---|---|---|---|\n", family)
		}
		note := ""
		if k.brief {
			note = "brief"
		}
		documents[file] += fmt.Sprintf("| `%s` | %s | %s | %s |\n", k.typ, k.name, k.dir, note)
	}
	goldentest.Documents(t, filepath.Join(root, "docs/events"), documents)
}

// TestEventsHaveAnOrigin finds events that are made without saying from where the request came.
func TestEventsHaveAnOrigin(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if harness(f) || f.dir() == "internal/audit" {
			continue
		}
		for _, lit := range literals(f, "Origin") {
			if len(lit.Elts) == 0 {
				t.Errorf("%s: an event without an origin: take that of the request or of the event.Actor, or event.Self for what the server does by itself", f.at(lit))
			}
		}
	}
}
