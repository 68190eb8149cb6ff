package attacks

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/attacks.md")

const root = "../.."

func TestEveryAttackIsTestedOrExcused(t *testing.T) {
	t.Parallel()
	found, err := scan(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range check(found) {
		t.Error(w)
	}
}

func TestDocumentIsFresh(t *testing.T) {
	t.Parallel()
	found, err := scan(root)
	if err != nil {
		t.Fatal(err)
	}
	want := render(found)
	name := filepath.Join(root, "docs", "attacks.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("docs/attacks.md is stale: run `make golden`")
	}
}

func TestNumbersAreUniqueAndSorted(t *testing.T) {
	t.Parallel()
	last := 0
	for _, s := range catalogue {
		for _, c := range s.Cases {
			if c.Number <= last {
				t.Errorf("attack %d stands after %d", c.Number, last)
			}
			last = c.Number
		}
	}
	last = 0
	for _, p := range peers {
		if p.Number <= last {
			t.Errorf("peer %d stands after %d", p.Number, last)
		}
		last = p.Number
	}
}

func TestScanFile(t *testing.T) {
	t.Parallel()
	src := `package p
var table = []string{"attack 3: a table"}
func TestX(t *testing.T) {
	t.Run("attack 1,2: words", nil)
	t.Run("attack 4", nil)
	t.Run("an attack 5: words", nil)
	t.Run("peer 8: words", nil)
	t.Run(` + "`attack 6, 7: raw`" + `, nil)
}`
	tests, err := scanFile("p_test.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	got := map[claim]string{}
	for _, x := range tests {
		for _, c := range claims(x.Name) {
			got[c] = x.Func
		}
	}
	want := map[claim]string{
		{kindAttack, 1}: "TestX", {kindAttack, 2}: "TestX", {kindAttack, 3}: "", {kindAttack, 6}: "TestX", {kindAttack, 7}: "TestX", {kindPeer, 8}: "TestX",
	}
	if !maps.Equal(got, want) {
		t.Errorf("claims = %v, want %v", got, want)
	}
}

// TestCheck covers each way in which tests and reasons can disagree.
func TestCheck(t *testing.T) {
	t.Parallel()
	all := map[claim][]subtest{}
	one := []subtest{{File: "x_test.go", Func: "TestX", Name: "attack"}}
	for _, s := range catalogue {
		for _, c := range s.Cases {
			if _, excused := reasons[c.Number]; !excused {
				all[claim{kindAttack, c.Number}] = one
			}
		}
	}
	for _, p := range peers {
		if _, excused := peerReasons[p.Number]; !excused {
			all[claim{kindPeer, p.Number}] = one
		}
	}
	if wrong := check(all); len(wrong) > 0 {
		t.Fatalf("check = %q, want none", wrong)
	}
	missing := maps.Clone(all)
	delete(missing, claim{kindAttack, 1})
	if wrong := check(missing); len(wrong) != 1 || !strings.Contains(wrong[0], "attack 1 has neither") {
		t.Errorf("without a test: check = %q", wrong)
	}
	excused := slices.Sorted(maps.Keys(peerReasons))[0]
	both := maps.Clone(all)
	both[claim{kindPeer, excused}] = one
	if wrong := check(both); len(wrong) != 1 || !strings.Contains(wrong[0], "still the reason") {
		t.Errorf("with a test and a reason: check = %q", wrong)
	}
	untried := maps.Clone(all)
	delete(untried, claim{kindPeer, peers[0].Number})
	if wrong := check(untried); len(wrong) != 1 || !strings.Contains(wrong[0], "has neither") {
		t.Errorf("peer without a test: check = %q", wrong)
	}
	unknown := maps.Clone(all)
	unknown[claim{kindPeer, 1000}] = one
	if wrong := check(unknown); len(wrong) != 1 || !strings.Contains(wrong[0], "claims peer 1000") {
		t.Errorf("with a test of an unknown number: check = %q", wrong)
	}
}
