package archtest

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// A graph says which functions of the tree name which others.
type graph struct {
	kinds   map[types.Object]string // the event.Type variables and what they are called in events
	decls   map[*types.Func]*node
	callers map[*types.Func][]*types.Func
}

type node struct {
	p     *pkg
	file  source
	decl  *ast.FuncDecl
	name  string
	kinds []string // the types of events that it names
}

func callGraph(t *testing.T) *graph {
	t.Helper()
	g := &graph{decls: map[*types.Func]*node{}, callers: map[*types.Func][]*types.Func{}, kinds: eventVariables(t)}
	typedFiles(t).funcs(func(p *pkg, f source, d *ast.FuncDecl) {
		fn, ok := p.info.Defs[d.Name].(*types.Func)
		if !ok {
			return
		}
		n := &node{p: p, file: f, decl: d, name: funcName(d)}
		g.decls[fn] = n
		ast.Inspect(d.Body, func(x ast.Node) bool {
			if id, ok := x.(*ast.Ident); ok {
				switch o := p.info.Uses[id].(type) {
				case *types.Func:
					g.callers[o.Origin()] = append(g.callers[o.Origin()], fn)
				case *types.Var:
					if k := g.kinds[o]; k != "" {
						n.kinds = append(n.kinds, k)
					}
				}
			}
			return true
		})
	})
	return g
}

// personTables are the records of identity that say who a person is, and what that person may do.
var personTables = []string{"persons", "profiles", "passwords", "groups", "groupMembers"}

// changes are the types of events that say so when a person or a group has become another.
var changes = regexp.MustCompile(`^(person\.Person[A-Z][a-z]+Event|group\..*|person\.Password(Changed|Reset)Event|person\.PersonSignedUpEvent|` +
	`person\.InvitationAcceptedEvent|person\.ActionTokenProcessedEvent)$`)

// silent are functions that write a person's records without an event of it, and why.
var silent = allowance{
	"Rehash":           "the same password, hashed anew at today's cost",
	"putPassword":      "the answer of the provider comes with its events",
	"acceptByPassword": "the invitation comes with its events",
	"acceptInvitation": "the invitation comes with its events",
	"create":           "the form of a sign-up comes with its events",
	"createPerson":     "each way to come in makes its event beforehand",
	"replacePassword":  "its callers make the event, which is not the same for all",
	"RemoveGroup":      "marks a group that is about to be removed; the removal has its event",
	"settle":           "finishes a change of a group that had its event when it began",
	"joinGroup":        "keeps the groups in step with a person, whose change has its event",
	"leaveGroup":       "keeps the groups in step with a person, whose change has its event",
	"createGroup":      "keeps the groups in step with a person, whose change has its event",
}

// TestEventBesidePerson: who writes a person or a group names an event that says so, or each of its callers does. What
// an administrator or a webhook does not hear of has not happened to them.
func TestEventBesidePerson(t *testing.T) {
	t.Parallel()
	allowed := silent.use(t)
	g := callGraph(t)
	telling := map[*types.Func]bool{}
	for fn, n := range g.decls {
		if slices.ContainsFunc(n.kinds, changes.MatchString) {
			telling[fn] = true
		}
	}
	var tells func(fn *types.Func, seen map[*types.Func]bool) bool
	tells = func(fn *types.Func, seen map[*types.Func]bool) bool {
		if telling[fn] || seen[fn] {
			return true
		}
		seen[fn] = true
		callers := g.callers[fn]
		return len(callers) > 0 && !slices.ContainsFunc(callers, func(c *types.Func) bool { return !tells(c, seen) })
	}
	for fn, n := range g.decls {
		if !under(n.p.dir, "identity") || tells(fn, map[*types.Func]bool{}) {
			continue
		}
		ast.Inspect(n.decl.Body, func(x ast.Node) bool {
			call, ok := x.(*ast.CallExpr)
			if !ok {
				return true
			}
			table, method := n.p.tableCall(call)
			if table == nil || !slices.Contains(personTables, recase(table.Name(), unicode.ToLower)) ||
				!slices.Contains([]string{"Put", "Create", "Delete"}, method) {
				return true
			}
			if !allowed.allows(n.name) {
				t.Errorf("%s: %s does %s.%s, and neither it nor all of its callers name an event of that", n.file.at(call),
					n.name, table.Name(), method)
			}
			return true
		})
	}
}

// eventVariables returns the variables of the tree that are an event.Type, with the type that events have of them.
func eventVariables(t *testing.T) map[types.Object]string {
	t.Helper()
	out := map[types.Object]string{}
	for _, p := range typedFiles(t).order {
		for _, f := range p.files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok || len(spec.Values) != len(spec.Names) {
					return true
				}
				for i, name := range spec.Names {
					lit, ok := spec.Values[i].(*ast.CompositeLit)
					if !ok || !isNamed(p.info.TypeOf(lit), eventPackage, "Type") {
						continue
					}
					for _, e := range lit.Elts {
						kv, ok := e.(*ast.KeyValueExpr)
						if ok && kv.Key.(*ast.Ident).Name == "Type" {
							out[p.info.Defs[name]] = strings.Trim(kv.Value.(*ast.BasicLit).Value, `"`)
						}
					}
				}
				return true
			})
		}
	}
	return out
}
