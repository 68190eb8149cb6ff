package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
	"testing"
)

// putUnread are functions whose closure puts a record that it has not read, and why that is right.
var putUnread = allowance{
	"issueOwn":       "makes the token",
	"exchange":       "makes the token",
	"Upstream.Token": "makes the token",
	"issueGrant":     "makes the token",
	"issueImplicit":  "makes the token",
	"Invite":         "makes the person",
	"createAs":       "makes the person",
	"register":       "makes the person",
	"signIn":         "makes the person, if the provider's account is a new one",
	"storeInactive":  "makes the person",
	"activateByCode": "refreshActivation has compared the person with the stored one",
}

// A putter is a function that gets a transaction and puts a record that one of its arguments is or holds.
type putter struct {
	table *types.Var
	arg   int // -1: the receiver
}

// TestPutsOfReadRecords: a closure puts a record that it has made or read in the same transaction. One that was read
// in an earlier transaction may have changed since then, and the Put would undo that.
func TestPutsOfReadRecords(t *testing.T) {
	t.Parallel()
	allowed := putUnread.use(t)
	bodies := txBodies(t)
	putters := map[*types.Func]putter{}
	for again := true; again; {
		again = false
		for _, b := range bodies {
			if b.lit != nil {
				continue
			}
			fn, _ := b.p.info.Defs[b.decl.Name].(*types.Func)
			if _, ok := putters[fn]; ok {
				continue
			}
			b.puts(putters, func(_ *ast.CallExpr, table, v *types.Var) {
				putters[fn] = putter{table, b.argument(v)}
				again = true
			})
		}
	}
	for _, b := range bodies {
		if b.lit == nil {
			continue
		}
		b.puts(putters, func(call *ast.CallExpr, table, v *types.Var) {
			if !b.isNew(v) && !allowed.allows(b.name) {
				t.Errorf("%s: the closure in %s puts a record of %s from %s, which was read outside of this transaction: read it again inside",
					b.file.at(call), b.name, table.Name(), v.Name())
			}
		})
	}
}

// puts calls fn for each record that the body puts by itself or through a putter, and that comes from outside of it.
func (b txBody) puts(putters map[*types.Func]putter, fn func(call *ast.CallExpr, table, v *types.Var)) {
	b.calls(func(call *ast.CallExpr) {
		table, method := b.p.tableCall(call)
		var value ast.Expr
		switch {
		case table != nil && method == "Put" && len(call.Args) > 2:
			value = call.Args[2]
		case table == nil:
			callee := b.p.callee(call)
			p, ok := putters[callee]
			if !ok {
				return
			}
			table = p.table
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && p.arg < 0 {
				value = sel.X
			} else if p.arg >= 0 && p.arg < len(call.Args) {
				value = call.Args[p.arg]
			}
		}
		if id := rootOf(value); id != nil {
			if v := b.given(id); v != nil && !b.sets(v) && !b.reads(table) {
				fn(call, table, v)
			}
		}
	})
}

// rootOf returns the variable that an expression is, points to or is a member of.
func rootOf(e ast.Expr) *ast.Ident {
	for e != nil {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.UnaryExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		default:
			return nil
		}
	}
	return nil
}

// given returns the variable of an identifier if it comes from outside of the body: captured, a parameter or the
// receiver.
func (b txBody) given(id *ast.Ident) *types.Var {
	v, ok := b.p.info.Uses[id].(*types.Var)
	if !ok || v.IsField() || v.Parent() == b.p.types.Scope() || b.body.Pos() <= v.Pos() && v.Pos() < b.body.End() {
		return nil
	}
	if b.lit != nil && b.lit.Pos() <= v.Pos() && v.Pos() < b.lit.End() {
		return nil // who calls the closure has read it in this transaction
	}
	return v
}

// argument returns the place of a parameter of the declaration, -1 for its receiver.
func (b txBody) argument(v *types.Var) int {
	i := 0
	for _, f := range b.decl.Type.Params.List {
		for _, name := range f.Names {
			if b.p.info.Defs[name] == v {
				return i
			}
			i++
		}
	}
	return -1
}

// sets reports whether the body gives the variable, or a member of it, a whole new value from a call or a literal.
func (b txBody) sets(v *types.Var) bool {
	found := false
	ast.Inspect(b.body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok {
			for i, e := range a.Lhs {
				if id := rootOf(e); id == nil || b.p.info.Uses[id] != v {
					continue
				}
				rhs := a.Rhs[0]
				if len(a.Rhs) == len(a.Lhs) {
					rhs = a.Rhs[i]
				}
				from, whole := rootOf(rhs), false
				if _, ok := e.(*ast.Ident); ok && from != nil {
					local, ok := b.p.info.Uses[from].(*types.Var)
					whole = ok && b.body.Pos() <= local.Pos() && local.Pos() < b.body.End()
				}
				found = found || whole || isRecord(b.p, rhs)
			}
		}
		return !found
	})
	return found
}

// isRecord reports whether an expression makes or reads a value: a literal, or a call that is given the transaction.
func isRecord(p *pkg, e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		for _, a := range e.Args {
			if p.isTx(a) {
				return true
			}
		}
	}
	return false
}

// reads reports whether the body reads the table.
func (b txBody) reads(table *types.Var) bool {
	found := false
	b.calls(func(call *ast.CallExpr) {
		tb, method := b.p.tableCall(call)
		found = found || tb == table && (method == "Get" || method == "Find" || method == "Has" || method == "Scan" || method == "Decode")
	})
	return found
}

// isNew reports whether the function around the closure makes the value of a variable itself, as a literal.
func (b txBody) isNew(v *types.Var) bool {
	made, other := false, false
	note := func(name ast.Expr, value ast.Expr) {
		id, ok := name.(*ast.Ident)
		if !ok || b.p.info.Defs[id] != v && b.p.info.Uses[id] != v {
			return
		}
		lit := ast.Unparen(value)
		if u, ok := lit.(*ast.UnaryExpr); ok && u.Op == token.AND {
			lit = u.X
		}
		if _, ok := lit.(*ast.CompositeLit); ok {
			made = true
		} else {
			other = true
		}
	}
	ast.Inspect(b.decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i := range n.Lhs {
				if len(n.Lhs) == len(n.Rhs) {
					note(n.Lhs[i], n.Rhs[i])
				} else {
					note(n.Lhs[i], n.Rhs[0])
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if i < len(n.Values) {
					note(name, n.Values[i])
				}
			}
		}
		return true
	})
	return made && !other
}
