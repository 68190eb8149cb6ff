package archtest

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	attackRow = regexp.MustCompile(`(?m)^\| (\d+) \|(.*)\|$`)
	// claimForm is the name of a subtest that plays numbers of docs/attacks: "attack 12: …" or "peer 12, 13: …".
	claimForm = regexp.MustCompile("[\"`](attack|peer) (\\d+(?:, ?\\d+)*): ")
)

// attack is a number of docs/attacks. Those of peers.md are counted by themselves.
type attack struct {
	kind   string // "attack" or "peer"
	number int
}

// attackRows returns the attacks of a document, in its order, and whether the row says why there is no test.
func attackRows(doc, content string) (rows []attack, untested []bool) {
	kind := "attack"
	if path.Base(doc) == "peers.md" {
		kind = "peer"
	}
	for _, m := range attackRow.FindAllStringSubmatch(content, -1) {
		n, _ := strconv.Atoi(m[1]) //nolint:errcheck // digits; an absurd number has no test
		rows, untested = append(rows, attack{kind, n}), append(untested, strings.Contains(m[2], " Not tested: "))
	}
	return rows, untested
}

// claims returns the attacks that the names of subtests in a source claim.
func claims(src string) map[attack]bool {
	out := map[attack]bool{}
	for _, m := range claimForm.FindAllStringSubmatch(src, -1) {
		for f := range strings.SplitSeq(m[2], ",") {
			if n, err := strconv.Atoi(strings.TrimSpace(f)); err == nil {
				out[attack{m[1], n}] = true
			}
		}
	}
	return out
}

// TestAttacksAreTested: each number of docs/attacks has a subtest or says why not, appears once, and there is no
// subtest of another number.
func TestAttacksAreTested(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	tested := map[attack]string{} // a file with a subtest
	for _, f := range all {
		if !strings.HasSuffix(f, "_test.go") || f == "internal/archtest/attacks_test.go" {
			continue
		}
		for a := range claims(text(t, f)) {
			tested[a] = f
		}
	}
	listed := map[attack]string{} // its document
	for _, doc := range all {
		if path.Dir(doc) != "docs/attacks" {
			continue
		}
		rows, untested := attackRows(doc, text(t, doc))
		for i, a := range rows {
			if other := listed[a]; other != "" {
				t.Errorf("%s: %s %d is in %s too", doc, a.kind, a.number, other)
			}
			listed[a] = doc
			switch file := tested[a]; {
			case file == "" && !untested[i]:
				t.Errorf("%s: no subtest is named `%s %d: …`, and the row does not say why", doc, a.kind, a.number)
			case file != "" && untested[i]:
				t.Errorf("%s: the row of %s %d says that it is not tested, and %s tests it", doc, a.kind, a.number, file)
			}
		}
	}
	if len(listed) < 400 {
		t.Fatalf("found %d attacks: the tables do not look as this test expects", len(listed))
	}
	for a, file := range tested {
		if listed[a] == "" {
			t.Errorf("%s claims %s %d, which is in no table of docs/attacks", file, a.kind, a.number)
		}
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	for src, want := range map[string][]attack{
		`t.Run("attack 1,2: words", f)`:       {{"attack", 1}, {"attack", 2}},
		"t.Run(`attack 6, 7: raw`, f)":        {{"attack", 6}, {"attack", 7}},
		`map[string]x{"peer 8: words": {}}`:   {{"peer", 8}},
		`t.Run("attack 4", f) // attack 3: x`: nil,
		`t.Run("an attack 5: words", f)`:      nil,
		`t.Run("attack 5: "+name, f)`:         {{"attack", 5}},
	} {
		got := slices.SortedFunc(maps.Keys(claims(src)), func(a, b attack) int { return a.number - b.number })
		if !slices.Equal(got, want) {
			t.Errorf("claims(%q) = %v, want %v", src, got, want)
		}
	}
	rows, untested := attackRows("docs/attacks/peers.md",
		"# Peers\n\n| # | Peer |\n|---|---|\n| 7 | a \\| b | tried |\n| 9 | c | d. Not tested: e |\n")
	if want := []attack{{"peer", 7}, {"peer", 9}}; !slices.Equal(rows, want) || !slices.Equal(untested, []bool{false, true}) {
		t.Errorf("attackRows = %v %v, want %v and the second untested", rows, untested, want)
	}
}
