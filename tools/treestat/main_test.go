package main

import "testing"

func TestAdd(t *testing.T) {
	t.Parallel()
	tr := tree{}
	for name, src := range map[string]string{
		"a/a.go":      "package a\n\nimport (\n\t\"fmt\"\n\n\t\"" + module + "/b\"\n)\n\nvar A, b = fmt.Sprint(b.B), 1\n\nfunc (x) C() {}\n\ntype x int\n",
		"a/a_test.go": "package a\n",
	} {
		if err := tr.add(name, []byte(src)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := tr["a"].row(), "13 | 1 | 2 | 1 | 1"; got != want {
		t.Errorf("row() = %q, want %q", got, want)
	}
}
