package goldentest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/goldentest"
)

func TestRelative(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[a](guide.md), [b](start/oidc.md#x)": "[a](../guide.md), [b](../start/oidc.md#x)",
		"[a](#protect-mcp)":                   "[a](protect-mcp.md)",
		"[a](https://example.com/a.md)":       "[a](https://example.com/a.md)",
	} {
		if got := goldentest.Relative(text); got != want {
			t.Errorf("Relative(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestDocuments: only with GATEHOUSE_GOLDEN=write are the documents of a directory replaced by those that there are.
func TestDocuments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs")
	files := func() (out []string) {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, e := range entries {
			raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e.Name()+": "+strings.TrimPrefix(string(raw), "<!-- Made from the code by `make golden`. -->\n\n"))
		}
		return out
	}
	for _, step := range []struct {
		golden    string
		documents map[string]string
		want      []string
	}{
		{"", map[string]string{"a.md": "# A"}, nil},
		{"write", map[string]string{"a.md": "# A", "b.md": "# B"}, []string{"a.md: # A", "b.md: # B"}},
		{"", map[string]string{"a.md": "# New"}, []string{"a.md: # A", "b.md: # B"}},
		{"write", map[string]string{"a.md": "# New"}, []string{"a.md: # New"}},
	} {
		t.Setenv("GATEHOUSE_GOLDEN", step.golden)
		goldentest.Documents(t, dir, step.documents)
		if got := files(); !slices.Equal(got, step.want) {
			t.Errorf("files after Documents(%v) with GATEHOUSE_GOLDEN=%q = %q, want %q", step.documents, step.golden, got, step.want)
		}
	}
}
