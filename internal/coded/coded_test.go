package coded_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/coded"
)

func TestErrorf(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("at the door: %w", coded.Errorf("range", "- from to", "%d is not from %d to %d", 9, 1, 4))
	code, fill := coded.Of(err)
	if got, want := err.Error(), "at the door: 9 is not from 1 to 4"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	if want := []any{"from", "1", "to", "4"}; code != "range" || !slices.Equal(fill, want) {
		t.Errorf("Of = %q %v, want range %v", code, fill, want)
	}
	if code, fill := coded.Of(os.ErrNotExist); code != "" || fill != nil {
		t.Errorf("Of an error without a code = %q %v, want none", code, fill)
	}
}

const module = "../.."

// calls returns the codes that the code of the module gives to errors, with the names of their parameters.
func calls(t *testing.T) map[string][][]string {
	t.Helper()
	out := map[string][][]string{}
	for _, floor := range []string{"admin", "authz", "caddymodule", "identity", "idp", "internal", "storage"} {
		err := filepath.WalkDir(filepath.Join(module, floor), func(path string, e fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(raw, []byte("coded.")) {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, raw, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					read(t, path, call, out)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// read adds the code of a call of New or Errorf. One that is taken from another error is there already.
func read(t *testing.T, path string, call *ast.CallExpr, into map[string][][]string) {
	t.Helper()
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	if of, ok := sel.X.(*ast.Ident); !ok || of.Name != "coded" || sel.Sel.Name == "Of" {
		return
	}
	code, literal := call.Args[0].(*ast.BasicLit)
	if !literal {
		return
	}
	var names []string
	if sel.Sel.Name == "Errorf" {
		given, ok := call.Args[1].(*ast.BasicLit)
		if !ok {
			t.Errorf("%s: the names of parameters are not written at the call", path)
			return
		}
		text, _ := strconv.Unquote(given.Value)
		if names = strings.Fields(text); len(names) > len(call.Args)-3 {
			t.Errorf("%s: %s names %d parameters of %d arguments", path, code.Value, len(names), len(call.Args)-3)
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n == "-" })
	}
	text, _ := strconv.Unquote(code.Value)
	into[text] = append(into[text], names)
}

// TestEveryCodeHasWords: each code has a message in every language, in which all of its parameters appear, and no
// message is left over.
func TestEveryCodeHasWords(t *testing.T) {
	t.Parallel()
	const prefix = "console.settings_problem."
	codes := calls(t)
	if len(codes) < 100 {
		t.Fatalf("%d codes found, want at least 100", len(codes))
	}
	for _, language := range []string{"en", "nl", "de", "fr"} {
		raw, err := os.ReadFile(filepath.Join(module, "internal/web/messages", language, "console-settings-problems.json"))
		if err != nil {
			t.Fatal(err)
		}
		var texts map[string]string
		if err := json.Unmarshal(raw, &texts); err != nil {
			t.Fatal(err)
		}
		for code, all := range codes {
			text := texts[prefix+code]
			if text == "" {
				t.Errorf("%s has no message in %s", code, language)
				continue
			}
			for _, names := range all {
				for _, name := range names {
					if !strings.Contains(text, "{"+name+"}") {
						t.Errorf("%s in %s = %q, want {%s} in it", code, language, text, name)
					}
				}
			}
		}
		for key := range texts {
			if codes[strings.TrimPrefix(key, prefix)] == nil {
				t.Errorf("%s in %s belongs to no error", key, language)
			}
		}
	}
}
