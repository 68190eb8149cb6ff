package archtest

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxCommentWidth = 120

	awkwardCounts = "internal/archtest/testdata/words.txt"
)

// awkward are words of comments and documents that make a reader stop, and what to say in their place. Their names are
// those of the rules in testdata/words.txt.
var awkward = []struct {
	name  string
	has   string // what each match has in lower case, one of several by |: without it, the expression is not tried
	words *regexp.Regexp
	plain string
}{
	{"whoever", "whoever", regexp.MustCompile(`(?i)\bwhoever\b`), "a noun: the caller, the administrator, anyone who"},
	{"whom-what", "whom what", regexp.MustCompile(`(?i)\bwhom what\b`), "a noun: the person that the input names"},
	{"of-ours", "of ours", regexp.MustCompile(`(?i)\bof ours\b`), "our, internal"},
	{"is-none", "is none", regexp.MustCompile(`(?i)\bis none\b`), "invalid, unknown, missing"},
	{"good-for-nothing", "good for nothing", regexp.MustCompile(`(?i)\bgood for nothing\b`), "invalid, expired"},
	{"somebody", "somebody", regexp.MustCompile(`(?i)\bsomebody\b`), "someone, a caller, an administrator, another person"},
	{"nobody", "nobody", regexp.MustCompile(`\b[Nn]obody\b([^@]|$)`), "no one, unknown"},
	{"tells-whether", "tells whether", regexp.MustCompile(`\btells whether\b`), "reports whether"},
	{"anew", "anew", regexp.MustCompile(`\banew\b`), "again"},
	{"of-late", "of late", regexp.MustCompile(`(?i)\bof late\b`), "recently"},
	{"fix", "fix", regexp.MustCompile(`\bmend(s|ed|ing)?\b`), "fix"},
	{"beside", "beside", regexp.MustCompile(`\bbeside\b`), "next to, besides"},
	{
		"behind", "behind ", regexp.MustCompile(`\b[Bb]ehind (after|an? (key|place)|one of (them|these)|the (last|others)|th[eo]se|them)\b`),
		"after",
	},
	{
		"to-say", "to say|look", regexp.MustCompile(`(?i)\b((as much|more|less) to say|looks? after)\b`),
		"of equal, higher or lower rank; may act on",
	},
	{"not-here", " here", regexp.MustCompile(`\b(does not belong|is not) here\b`), "how it works, in place of what is elsewhere"},
	{"so-that", ", so that", regexp.MustCompile(`, so that\b`), "so, for a result"},
	{"whom", "whom", regexp.MustCompile(`(?i)\bwhom\b`), "the noun, or who"},
	{"whose", " whose", regexp.MustCompile(`\b(is|are|tells?|says?|knows?|notes?) whose\b`), "the noun: the owner of"},
	{
		"is-what", " is | are ", regexp.MustCompile(`^//\s\S+ (is|are) (what|who|how|where|when|whose|whom)\b`),
		"the noun: title returns the localized title, not: title is what it is called",
	},
}

// TestWidthOfComments: comments end at 120 columns.
func TestWidthOfComments(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		lines := strings.Split(text(t, f.path), "\n")
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				from := fset.Position(c.Pos())
				for i, line := range strings.Split(c.Text, "\n") {
					whole := lines[from.Line-1+i]
					alone := i > 0 || strings.TrimSpace(whole[:from.Column-1]) == ""
					if alone && utf8.RuneCountInString(whole) > maxCommentWidth && !forMachines(line) && !strings.Contains(line, "://") {
						t.Errorf("%s:%d: the comment is wider than %d columns", f.path, from.Line+i, maxCommentWidth)
					}
				}
			}
		}
	}
}

func forMachines(line string) bool {
	return strings.HasPrefix(line, "//go:") || strings.HasPrefix(line, "//nolint")
}

// TestWordsOfCommentsAndDocuments: awkward words become fewer. testdata/words.txt has their number for each rule and
// package or document where there are any. A higher number is an error, and so is a lower one until `make golden` has
// written it. It also writes the numbers of packages that were renamed or split, unless a rule has more words than
// before.
func TestWordsOfCommentsAndDocuments(t *testing.T) {
	t.Parallel()
	found := awkwardPlaces(t)
	want := readCounts(t)
	if os.Getenv("GATEHOUSE_GOLDEN") == "write" {
		writeCounts(t, found, want)
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(found), compareKeys) {
		if at := found[key]; len(at) > want[key] {
			t.Errorf("%s has %d awkward words of the rule %s, want at most %d. Say %s:\n%s",
				key.place, len(at), key.rule, want[key], plainFor(key.rule), strings.Join(at, "\n"))
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(want), compareKeys) {
		if n := len(found[key]); n < want[key] {
			t.Errorf("%s has %d awkward words of the rule %s, fewer than the %d of %s: run make golden",
				key.place, n, key.rule, want[key], awkwardCounts)
		}
	}
}

type wordKey struct{ rule, place string }

func compareKeys(a, b wordKey) int {
	return cmp.Or(strings.Compare(a.rule, b.rule), strings.Compare(a.place, b.place))
}

// awkwardPlaces returns where awkward words are, by rule and package or document.
func awkwardPlaces(t *testing.T) map[wordKey][]string {
	t.Helper()
	found := map[wordKey][]string{}
	look := func(place, at, text string) {
		lower := strings.ToLower(text)
		for _, a := range awkward {
			if !slices.ContainsFunc(strings.Split(a.has, "|"), func(s string) bool { return strings.Contains(lower, s) }) {
				continue
			}
			for _, words := range a.words.FindAllString(text, -1) {
				key := wordKey{a.name, place}
				found[key] = append(found[key], at+": "+words)
			}
		}
	}
	for _, f := range goFiles(t) {
		if f.path == "internal/archtest/words_test.go" {
			continue
		}
		for _, group := range f.ast.Comments {
			look(f.dir(), f.path+":"+strconv.Itoa(fset.Position(group.Pos()).Line), paragraph(group.List[0].Text, group.Text()))
		}
	}
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f != "README.md" && !strings.HasPrefix(f, "docs/") || !strings.HasSuffix(f, ".md") {
			continue
		}
		line := 1
		for part := range strings.SplitSeq(text(t, f), "\n\n") {
			look(f, f+":"+strconv.Itoa(line), strings.ReplaceAll(part, "\n", " "))
			line += strings.Count(part, "\n") + 2
		}
	}
	return found
}

// paragraph returns the text of a comment in one line, without directives: ast.CommentGroup.Text leaves them out.
func paragraph(first, text string) string {
	if forMachines(first) {
		return strings.Join(strings.Fields(text), " ")
	}
	return "// " + strings.Join(strings.Fields(text), " ")
}

func plainFor(rule string) string {
	for _, a := range awkward {
		if a.name == rule {
			return a.plain
		}
	}
	return ""
}

func readCounts(t *testing.T) map[wordKey]int {
	t.Helper()
	counts := map[wordKey]int{}
	for line := range strings.Lines(text(t, awkwardCounts)) {
		var key wordKey
		var n int
		if _, err := fmt.Sscan(line, &key.rule, &key.place, &n); err != nil || n < 1 || plainFor(key.rule) == "" {
			t.Fatalf("%s has the line %q, want a rule, a package or document, and a number", awkwardCounts, line)
		}
		counts[key] = n
	}
	return counts
}

func writeCounts(t *testing.T, found map[wordKey][]string, want map[wordKey]int) {
	t.Helper()
	total := map[string]int{}
	for key, n := range want {
		total[key.rule] -= n
	}
	var b strings.Builder
	for _, key := range slices.SortedFunc(maps.Keys(found), compareKeys) {
		total[key.rule] += len(found[key])
		fmt.Fprintln(&b, key.rule, key.place, len(found[key]))
	}
	for rule, more := range total {
		if more > 0 {
			t.Errorf("there are %d more awkward words of the rule %s than in %s: say %s", more, rule, awkwardCounts, plainFor(rule))
		}
	}
	if t.Failed() {
		return
	}
	if err := os.WriteFile(filepath.Join(root, awkwardCounts), []byte(b.String()), 0o644); err != nil { //nolint:gosec // it is in the tree
		t.Fatal(err)
	}
}

// TestAwkwardWords: each rule finds its words and leaves good English alone.
func TestAwkwardWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"// title is what an example is called":                  "is-what",
		"// title returns the title, which is what users see":    "",
		"// isOpen tells whether somebody is there":              "somebody tells-whether",
		"// nobody@example.com is behind a proxy":                "",
		"// list continues behind the last one, so that it ends": "behind so-that",
		"// the key is kept so that it can be read":              "",
		"// a client whose secret has expired":                   "",
		"// owner notes whose key it is":                         "whose",
	} {
		var got []string
		for _, a := range awkward {
			if a.words.MatchString(text) {
				got = append(got, a.name)
			}
		}
		if joined := strings.Join(got, " "); joined != want {
			t.Errorf("%q breaks the rules %q, want %q", text, joined, want)
		}
	}
}
