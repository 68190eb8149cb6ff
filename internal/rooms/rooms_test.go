package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module example.com/m\n",
		"low/low.go": `package low

import "example.com/elsewhere"

// Table is generic: an instance of it counts as the same name.
type Table[T any] struct{ Name string }

func (t Table[T]) Get(string) (v T) { return v }

func (t Table[T]) hidden() {}

var Numbers = Table[int]{}

type Alias = elsewhere.Type
`,
		"low/low_test.go": "package low\n\nfunc Extra() {}\n",
		"mid/mid.go":      "package mid\n\nimport \"example.com/m/low\"\n\nfunc Low() low.Table[string] { return low.Table[string]{} }\n",
		"high/high.go": `package high

import (
	"strings"

	"example.com/m/mid"
)

var b strings.Builder

// The method is of low, though only mid is imported.
func use() { b.WriteString(mid.Low().Get("a") + mid.Low().Get("b")) }
`,
		"lowtest/help.go":  "package lowtest\n",
		"own/go.mod":       "module example.com/own\n",
		"own/own.go":       "package own\n",
		"testdata/data.go": "package data\n",
	} {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	const head = "| package | lines | files | exported types and values | exported functions and methods | uses packages | used by |\n" +
		"|---|--:|--:|--:|--:|--:|--:|\n"
	const borders = "\n| package | what it uses of others: distinct names / references |\n|---|---|\n"
	for _, c := range []struct {
		name  string
		below []string
		want  string
	}{
		{"all", nil, head + "| high | 12 | 1 | 0 | 0 | 2 | 0 |\n| low | 14 | 1 | 3 | 1 | 0 | 2 |\n| mid | 5 | 1 | 0 | 1 | 1 | 1 |\n" +
			"| 3 packages | 31 | 3 | 3 | 2 | 3 | |\n" + borders + "| high | low 1/2, mid 1/2 |\n| mid | low 1/2 |\n| 3 borders | 3 / 6 |\n"},
		{"below one", []string{"mid"}, head + "| mid | 5 | 1 | 0 | 1 | 1 | 1 |\n| 1 packages | 5 | 1 | 0 | 1 | 1 | |\n" + borders +
			"| mid | low 1/2 |\n| 1 borders | 1 / 2 |\n"},
	} {
		if report := got.report(c.below); report != c.want {
			t.Errorf("report of %s =\n%s\nwant\n%s", c.name, report, c.want)
		}
	}
}

func TestLoadOutsideOfTheRoot(t *testing.T) {
	t.Parallel()
	if _, err := load(t.TempDir()); err == nil {
		t.Error("a directory without go.mod was measured")
	}
}
