// Package attacks holds the catalogue of attacks and the vulnerabilities of comparable products, which the tests of
// this tree refer to by number, and writes docs/attacks.md: each number with its tests, or with the reason why it
// cannot be tested yet.
//
// A test claims numbers with a subtest whose name has the form "attack 12: words" or "attack 12,13: words", and for a
// vulnerability of a peer "peer 12: words" or "peer 12,13: words".
package attacks

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// subtest is a subtest whose name claims attack numbers.
type subtest struct {
	File string // slash separated, from the root of the tree
	Func string // the function it stands in, or "" for a table of the package
	Name string // of the subtest
}

// The kinds of claims, as the names of subtests begin.
const (
	kindAttack = "attack"
	kindPeer   = "peer"
)

var nameForm = regexp.MustCompile(`^(attack|peer) (\d+(?:, ?\d+)*): \S`)

// claim is a number that a subtest's name claims.
type claim struct {
	kind   string
	number int
}

// claims returns what a subtest's name claims.
func claims(name string) []claim {
	m := nameForm.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	var out []claim
	for f := range strings.SplitSeq(m[2], ",") {
		n, err := strconv.Atoi(strings.TrimSpace(f))
		if err == nil {
			out = append(out, claim{m[1], n})
		}
	}
	return out
}

// scan finds the tests below root by what they claim. A file that does not parse is an error.
func scan(root string) (map[claim][]subtest, error) {
	found := map[claim][]subtest{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && rel != "." && skipped(rel):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		tests, err := scanFile(rel, src)
		for _, t := range tests {
			for _, c := range claims(t.Name) {
				found[c] = append(found[c], t)
			}
		}
		return err
	})
	for c := range found {
		slices.SortFunc(found[c], func(a, b subtest) int {
			return strings.Compare(a.File+"\x00"+a.Func+"\x00"+a.Name, b.File+"\x00"+b.Func+"\x00"+b.Name)
		})
		found[c] = slices.Compact(found[c])
	}
	return found, err
}

// skipped leaves out directories without tests of this tree, and this package, whose own tests mention attack numbers.
func skipped(dir string) bool {
	base := path.Base(dir)
	return strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || dir == "internal/attacks"
}

func scanFile(name string, src []byte) ([]subtest, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("scan for attacks: %w", err)
	}
	var tests []subtest
	for _, decl := range file.Decls {
		in := ""
		if f, ok := decl.(*ast.FuncDecl); ok {
			in = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if s, err := strconv.Unquote(lit.Value); err == nil && len(claims(s)) > 0 {
				tests = append(tests, subtest{File: name, Func: in, Name: s})
			}
			return true
		})
	}
	return tests, nil
}

// check returns what is wrong with the tests found: a number with neither test nor reason, a number with both, and a
// number that is not in the catalogue.
func check(found map[claim][]subtest) []string {
	wrong := checkPeers(found)
	known := map[int]bool{}
	for _, s := range catalogue {
		for _, c := range s.Cases {
			known[c.Number] = true
			reason, excused := reasons[c.Number]
			tested := len(found[claim{kindAttack, c.Number}]) > 0
			switch {
			case !tested && !excused:
				wrong = append(wrong, fmt.Sprintf("attack %d has neither a test nor a reason: %s", c.Number, c.Attack))
			case tested && excused:
				wrong = append(wrong, fmt.Sprintf("attack %d has a test, and still the reason %q", c.Number, reason))
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(open)) {
		if len(found[claim{kindAttack, n}]) == 0 {
			wrong = append(wrong, fmt.Sprintf("attack %d is listed as partly tested, but it has no test", n))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(reasons)) {
		if !known[n] {
			wrong = append(wrong, fmt.Sprintf("a reason is given for attack %d, which is not in the catalogue", n))
		}
	}
	return wrong
}

// checkPeers is check for the vulnerabilities of peers.
func checkPeers(found map[claim][]subtest) []string {
	var wrong []string
	known := map[int]bool{}
	for _, p := range peers {
		known[p.Number] = true
		reason, excused := peerReasons[p.Number]
		switch tested := len(found[claim{kindPeer, p.Number}]) > 0; {
		case !tested && !excused:
			wrong = append(wrong, fmt.Sprintf("peer %d has neither a test nor a reason: %s", p.Number, p.Mechanism))
		case tested && excused:
			wrong = append(wrong, fmt.Sprintf("peer %d has a test, and still the reason %q", p.Number, reason))
		}
	}
	for c, tests := range found {
		if c.kind == kindPeer && !known[c.number] {
			wrong = append(wrong, fmt.Sprintf("%s claims peer %d, which is not in the list", tests[0].File, c.number))
		}
	}
	slices.Sort(wrong)
	return wrong
}

const head = `# Attacks

Written by ` + "`make golden`" + ` from the catalogue in internal/attacks and the names of the tests. Each attack is listed with the tests
that name its number, or with the reason why it cannot be tested yet. The numbers have gaps and never change. After each
attack a test also asserts that there is no 5xx that the case does not name, no panic and no internal detail in the
answer, and that a valid token is still active and a revoked one still inactive.
`

// render returns docs/attacks.md.
func render(found map[claim][]subtest) []byte {
	var b strings.Builder
	b.WriteString(head)
	cases, tested := 0, 0
	var body strings.Builder
	for _, s := range catalogue {
		fmt.Fprintf(&body, "\n## %s\n\n| # | Attack | Required outcome | Tests |\n|---|---|---|---|\n", s.Title)
		for _, c := range s.Cases {
			cases++
			at := claim{kindAttack, c.Number}
			if len(found[at]) > 0 {
				tested++
			}
			fmt.Fprintf(&body, "| %d | %s | %s | %s |\n", c.Number, cell(c.Attack), cell(c.Outcome), cell(shownBy(found[at], reasons[c.Number], open[c.Number])))
		}
	}
	fmt.Fprintf(&b, "\n%d attacks, %d with tests, %d with a reason.\n", cases, tested, cases-tested)
	b.WriteString(body.String())
	b.WriteString(peersHead)
	for _, p := range peers {
		shown := shownBy(found[claim{kindPeer, p.Number}], peerReasons[p.Number], "")
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", p.Number, cell(p.Peer+", "+p.ID), cell(p.Mechanism), cell(p.Attack), cell(shown))
	}
	return []byte(b.String())
}

const peersHead = `
## Peers' vulnerabilities

Where comparable products were broken in 2025 and 2026, as far as the mechanism is not among the attacks above or is
wider. Each is tried against Gatehouse by a test that names its number, or waits for a part that is not there yet.

| # | Peer | Mechanism | What is tried | Tests |
|---|---|---|---|---|
`

// shownBy names the tests of a case, and what stands in the way of others.
func shownBy(tests []subtest, missing, partly string) string {
	var parts []string
	files := map[string][]string{}
	for _, t := range tests {
		name := t.Func
		if !strings.HasPrefix(name, "Test") {
			name = "" // a helper or a table: the file is enough
		}
		if !slices.Contains(files[t.File], name) {
			files[t.File] = append(files[t.File], name)
		}
	}
	for _, f := range slices.Sorted(maps.Keys(files)) {
		line := "`" + f + "`"
		if names := slices.DeleteFunc(files[f], func(s string) bool { return s == "" }); len(names) > 0 {
			slices.Sort(names)
			line += " " + strings.Join(names, ", ")
		}
		parts = append(parts, line)
	}
	if missing != "" {
		parts = append(parts, "not yet: "+missing)
	}
	if partly != "" {
		parts = append(parts, "not yet in it: "+partly)
	}
	return strings.Join(parts, "; ")
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
