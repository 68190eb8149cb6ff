package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// A transaction body is a function that gets a storage.Tx: a closure given to Update or View, or what such a closure
// calls.
type txBody struct {
	p    *pkg
	file source
	name string // of the declaration
	decl *ast.FuncDecl
	typ  *ast.FuncType
	body *ast.BlockStmt
	lit  *ast.FuncLit // nil: the declaration itself
}

// txBodies returns the functions of the tree that get a storage.Tx, engines and test code left out.
func txBodies(t *testing.T) (out []txBody) {
	t.Helper()
	typedFiles(t).funcs(func(p *pkg, f source, d *ast.FuncDecl) {
		if under(p.dir, "storage") || slices.ContainsFunc(mains, func(m string) bool { return under(p.dir, m) }) {
			return
		}
		name := funcName(d)
		if p.takesTx(d.Type) {
			out = append(out, txBody{p, f, name, d, d.Type, d.Body, nil})
		}
		ast.Inspect(d.Body, func(n ast.Node) bool {
			if lit, ok := n.(*ast.FuncLit); ok && p.takesTx(lit.Type) {
				out = append(out, txBody{p, f, name, d, lit.Type, lit.Body, lit})
			}
			return true
		})
	})
	return out
}

// funcName returns Name or Type.Name of a declaration.
func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	e := d.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if index, ok := e.(*ast.IndexExpr); ok {
		e = index.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name + "." + d.Name.Name
	}
	return d.Name.Name
}

// calls calls fn for each call of the body, in literals of transactions inside it too.
func (b txBody) calls(fn func(call *ast.CallExpr)) {
	ast.Inspect(b.body, func(n ast.Node) bool {
		if lit, ok := n.(*ast.FuncLit); ok && b.p.takesTx(lit.Type) {
			return false // has its own turn
		}
		if call, ok := n.(*ast.CallExpr); ok {
			fn(call)
		}
		return true
	})
}

// slow says why a call has no place in a transaction, or returns "".
func (b txBody) slow(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	name := sel.Sel.Name
	if x, ok := sel.X.(*ast.Ident); ok {
		if imported, ok := b.p.info.Uses[x].(*types.PkgName); ok {
			return slowFunction(imported.Imported().Path(), name)
		}
	}
	if (name == "Now" || name == "now") && len(call.Args) == 0 {
		return "reads the clock: take the time before the transaction, so it is one time however often fn runs"
	}
	if slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, name) {
		if field, ok := sel.X.(*ast.SelectorExpr); ok && strings.EqualFold(field.Sel.Name, "log") {
			return "logs: a rerun or a rollback would make the line untrue"
		}
	}
	if m := b.p.callee(call); m != nil {
		if recv := m.Signature().Recv(); recv != nil {
			return slowMethod(recv.Type(), name)
		}
	}
	return ""
}

func slowFunction(path, name string) string {
	switch {
	case path == "crypto/rand" || strings.HasPrefix(path, "math/rand"):
		return "makes a random value: make it before the transaction, so it is one value however often fn runs"
	case path == "time" && slices.Contains([]string{"Now", "Since", "Until"}, name):
		return "reads the clock"
	case path == "encoding/json":
		return "reads or writes JSON: do so outside, where it holds up no other transaction"
	case path == "net/http" || path == "net":
		return "speaks to the network"
	case path == "golang.org/x/crypto/bcrypt" || path == "golang.org/x/crypto/argon2" || path == "crypto/rsa" || path == "crypto/ecdsa" ||
		path == "crypto/ecdh" || path == "crypto/ed25519" || path == "crypto/aes" || path == "crypto/cipher" || path == "crypto/x509":
		return "computes cryptography"
	}
	return ""
}

func slowMethod(recv types.Type, name string) string {
	if ptr, ok := recv.(*types.Pointer); ok {
		recv = ptr.Elem()
	}
	n, ok := recv.(*types.Named)
	if !ok || n.Obj().Pkg() == nil || n.Obj().Pkg().Path() != module+"/internal/secret" {
		return ""
	}
	if n.Obj().Name() == "Keyring" || n.Obj().Name() == "Hasher" {
		return "computes cryptography (" + n.Obj().Name() + "." + name + "): do so before or after the transaction"
	}
	return ""
}

// slowInTransactions are functions that compute inside a transaction all the same, and why.
var slowInTransactions = allowance{
	"allowsOrigin":     "a View once in five minutes; stored clients are JSON",
	"loadPairwise":     "once, when the service starts",
	"Send":             "of Mail and Texts: logs an address that cannot be written to, which no rerun makes untrue",
	"Unlinked":         "logs that a notice has no address",
	"add":              "seals a few hundred bytes of a message, whose recipient is known in the transaction only",
	"sendCode":         "derives a hash of six digits with a key",
	"putDeliveredCode": "derives a hash of a short code with a key",
}

// TestTransactionsComputeNothing: a closure for Update or View, and every function that gets its storage.Tx, works on
// records only. An engine may run it several times, and an Update holds up others while it runs.
func TestTransactionsComputeNothing(t *testing.T) {
	t.Parallel()
	used := slowInTransactions.use(t)
	for _, b := range txBodies(t) {
		b.calls(func(call *ast.CallExpr) {
			if why := b.slow(call); why != "" && !used.allows(b.name) {
				t.Errorf("%s: %s, in a transaction, %s", b.file.at(call), b.name, why)
			}
		})
	}
}

// TestClosuresStartAfresh: a closure that changes a variable of its surroundings sets it before it reads it.
// Otherwise a second run starts from what the first one has left behind.
func TestClosuresStartAfresh(t *testing.T) {
	t.Parallel()
	for _, b := range txBodies(t) {
		if b.lit == nil {
			continue
		}
		for _, v := range b.stale() {
			t.Errorf("%s: the closure in %s changes %s, which it has read before: if it runs again, it starts from the wrong value",
				b.file.at(b.lit), b.name, v.Name())
		}
	}
}

// stale returns the variables from outside a closure that it reads first and changes later.
func (b txBody) stale() (out []*types.Var) {
	read, set, reported := map[*types.Var]bool{}, map[*types.Var]bool{}, map[*types.Var]bool{}
	change := func(v *types.Var, readsToo bool) {
		if !set[v] && (readsToo || read[v]) && !reported[v] {
			reported[v] = true
			out = append(out, v)
		}
		set[v] = true
	}
	var walk func(ast.Node)
	walk = func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Rhs {
					walk(e)
				}
				for _, e := range n.Lhs {
					if v := b.outside(e); v != nil {
						change(v, n.Tok != token.ASSIGN)
					} else {
						walk(e)
					}
				}
				return false
			case *ast.IncDecStmt:
				if v := b.outside(n.X); v != nil {
					change(v, true)
					return false
				}
			case *ast.Ident:
				if v := b.outside(n); v != nil && !set[v] {
					read[v] = true
				}
			}
			return true
		})
	}
	walk(b.body)
	return out
}

// outside returns the variable that an expression is, if a function around the closure declares it.
func (b txBody) outside(e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, ok := b.p.info.Uses[id].(*types.Var)
	if !ok || v.IsField() || v.Parent() == b.p.types.Scope() || b.lit.Pos() <= v.Pos() && v.Pos() < b.lit.End() {
		return nil
	}
	return v
}
