package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// ownLocation are the files that write a Location header by themselves.
var ownLocation = allowance{
	"internal/web/redirect.go": "the writer of redirects",
	"identity/scim/server.go":  "the address of a new resource, in a 201 (RFC 7644 3.3)",
	"internal/testidp/page.go": "another provider's, for tests",
}

// TestRedirectsHaveOneWriter: every redirect has the headers of page.Redirect.
func TestRedirectsHaveOneWriter(t *testing.T) {
	t.Parallel()
	allowed := ownLocation.use(t)
	for _, f := range goFiles(t) {
		if harness(f) {
			continue
		}
		found := headerWrites(f, "Location")
		f.uses(func(n *ast.SelectorExpr, p string) {
			if p == "net/http" && n.Sel.Name == "Redirect" {
				found = append(found, n)
			}
		})
		for _, n := range found {
			if !allowed.allows(f.path) {
				t.Errorf("%s: a redirect of its own: use page.Redirect or page.RedirectStatus", f.at(n))
			}
		}
	}
}

// ownRetryAfter are the files that write a Retry-After header by themselves.
var ownRetryAfter = allowance{
	"internal/ratelimit/retry.go": "the writer of the header",
}

// TestRetryAfterHasOneWriter: every Retry-After is rounded up by pace.RetryAfter.
func TestRetryAfterHasOneWriter(t *testing.T) {
	t.Parallel()
	allowed := ownRetryAfter.use(t)
	for _, f := range goFiles(t) {
		if harness(f) {
			continue
		}
		for _, n := range headerWrites(f, "Retry-After") {
			if !allowed.allows(f.path) {
				t.Errorf("%s: a Retry-After of its own: use pace.RetryAfter", f.at(n))
			}
		}
	}
}

// headerWrites returns the places where a file sets or adds a header, by Set, Add or an index.
func headerWrites(f source, header string) (out []ast.Node) {
	named := func(x ast.Expr) bool {
		lit, ok := x.(*ast.BasicLit)
		return ok && lit.Kind == token.STRING && lit.Value == strconv.Quote(header)
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if ok && len(n.Args) == 2 && named(n.Args[0]) && slices.Contains([]string{"Set", "Add"}, sel.Sel.Name) {
				out = append(out, n)
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if x, ok := left.(*ast.IndexExpr); ok && named(x.Index) {
					out = append(out, n)
				}
			}
		}
		return true
	})
	return out
}
