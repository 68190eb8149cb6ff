package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const troubleshooting = "docs/troubleshooting.md"

var (
	quoted  = regexp.MustCompile("`([^`]+)`")
	message = regexp.MustCompile(`^\| (message|the log says|the page says) \|`)
)

// explained are the messages that the document explains in its tables. The parts that differ are left out.
func explained(t *testing.T) (messages [][]string) {
	t.Helper()
	inTable := false
	for line := range strings.Lines(text(t, troubleshooting)) {
		switch {
		case message.MatchString(line):
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable:
			first, _, _ := strings.Cut(line[1:], "|")
			for _, m := range quoted.FindAllStringSubmatch(first, -1) {
				var parts []string
				for part := range strings.SplitSeq(m[1], "…") {
					if part = strings.Trim(part, ` "`); part != "" {
						parts = append(parts, part)
					}
				}
				if len(parts) > 0 {
					messages = append(messages, parts)
				}
			}
		}
	}
	if len(messages) < 100 {
		t.Errorf("%s explains %d messages: it does not look as this test expects", troubleshooting, len(messages))
	}
	return messages
}

// TestTroubleshooting: each message that docs/troubleshooting.md explains is still one that a source file or a page
// has.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, f := range all {
		if filepath.Ext(f) == ".go" && !strings.HasSuffix(f, "_test.go") || path.Dir(f) == "internal/web/messages/en" {
			sources.WriteString(text(t, f))
		}
	}
	for _, parts := range explained(t) {
		for _, part := range parts {
			if !strings.Contains(sources.String(), part) {
				t.Errorf("no source says %q, which %s explains", part, troubleshooting)
			}
		}
	}
}

// says reports whether one of the messages is in a text.
func says(messages [][]string, text string) bool {
	return slices.ContainsFunc(messages, func(parts []string) bool {
		return len(strings.Join(parts, "")) > 12 && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
	})
}

// TestMistakesAreExplained: who makes a mistake of caddymodule/testdata/mistakes finds its message in the document.
func TestMistakesAreExplained(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	messages, n := explained(t), 0
	for _, f := range all {
		if path.Dir(f) != "caddymodule/testdata/mistakes" {
			continue
		}
		n++
		_, told, _ := strings.Cut(text(t, f), "----------\n")
		for line := range strings.Lines(told) {
			if !says(messages, line) && !strings.Contains(line, "whichever starts first") {
				t.Errorf("%s does not explain the message of %s: %s", troubleshooting, path.Base(f), line)
			}
		}
	}
	if n == 0 {
		t.Error("there are no mistakes")
	}
}

// TestFindingsAreExplained: each warning of `caddy gatehouse check` is in the document.
func TestFindingsAreExplained(t *testing.T) {
	t.Parallel()
	messages, n := explained(t), 0
	for _, f := range goFiles(t) {
		if f.test() || !under(f.dir(), "caddymodule") {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			var reason ast.Expr
			switch node := node.(type) {
			case *ast.KeyValueExpr:
				if key, ok := node.Key.(*ast.Ident); ok && key.Name == "Reason" {
					reason = node.Value
				}
			case *ast.CallExpr:
				if called(node) == "warn" && len(node.Args) == 3 {
					reason = node.Args[1]
				}
			}
			if reason == nil {
				return true
			}
			if s := strings.Join(textsIn(reason), "…"); len(s) > 20 {
				if n++; !says(messages, s) {
					t.Errorf("%s: %s does not explain %q", f.at(node), troubleshooting, s)
				}
			}
			return true
		})
	}
	if n < 10 {
		t.Errorf("found %d findings: they do not look as this test expects", n)
	}
}

// TestOAuthErrorsAreExplained: each error_description that an application can get is in the document.
func TestOAuthErrorsAreExplained(t *testing.T) {
	t.Parallel()
	messages, n := explained(t), 0
	for _, f := range goFiles(t) {
		if f.test() || !under(f.dir(), "authz") || strings.HasSuffix(f.dir(), "test") {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			described := ""
			switch node := node.(type) {
			case *ast.CallExpr:
				if slices.Contains([]string{"InvalidRequest", "InvalidGrant", "InvalidScope", "UnauthorizedClient"}, called(node)) &&
					len(node.Args) == 2 {
					described = strings.Join(textsIn(node.Args[1]), "…")
				}
			case *ast.KeyValueExpr:
				if key, ok := node.Key.(*ast.Ident); ok && key.Name == "Description" {
					described = strings.Join(textsIn(node.Value), "…")
				}
			}
			if described != "" {
				if n++; !says(messages, described) {
					t.Errorf("%s: %s does not explain %q", f.at(node), troubleshooting, described)
				}
			}
			return true
		})
	}
	if n < 40 {
		t.Errorf("found %d descriptions: they do not look as this test expects", n)
	}
}

func called(call *ast.CallExpr) string {
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		return fn.Name
	case *ast.SelectorExpr:
		return fn.Sel.Name
	}
	return ""
}

// textsIn are the texts in an expression.
func textsIn(e ast.Expr) (out []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, s)
			}
		}
		return true
	})
	return out
}
