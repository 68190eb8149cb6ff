package archtest

import (
	"encoding/json"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// foreign are words that belong to the machine or the network that someone works on, not to the project. They are
// spelled in two parts, since this file is read too.
var foreign = []struct{ word, why string }{
	{"/wo" + "rk/", "a path of one machine"},
	{"/ro" + "ot/", "a path of one machine"},
	{"../sha" + "red/", "a path outside of the tree"},
	{"registry.npm" + "js.org", "npm asks the registry that the machine is set up for"},
	{"registry.yarn" + "pkg.com", "npm asks the registry that the machine is set up for"},
	{"proxy.go" + "lang.org", "go asks the proxy that the machine is set up for"},
	{"deb.deb" + "ian.org", "apt asks the mirror that the machine is set up for"},
}

// TestNoForeignWords finds paths of a machine and hosts of registries in files that others will clone.
func TestNoForeignWords(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if filepath.Base(f) == "go.sum" {
			continue
		}
		content := text(t, f)
		if !utf8.ValidString(content) {
			continue // a picture
		}
		for n, line := range strings.Split(content, "\n") {
			for _, w := range foreign {
				if strings.Contains(line, w.word) {
					t.Errorf("%s:%d says %q: %s", f, n+1, w.word, w.why)
				}
			}
		}
	}
}

// TestIndexListsEveryDocument holds the index docs/README.md, that of each directory (docs/decisions.md lists
// docs/decisions), and the links of all documents, against the tree.
func TestIndexListsEveryDocument(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		name, in := strings.CutPrefix(f, "docs/")
		if !in || name == "README.md" || strings.HasPrefix(name, "images/") || strings.HasPrefix(name, "reports/") || path.Ext(name) == ".go" {
			continue
		}
		index := "docs/README.md"
		if own := path.Dir(f) + ".md"; slices.Contains(all, own) {
			index = own
		}
		if !strings.Contains(text(t, index), "]("+name+")") {
			t.Errorf("%s does not list %s", index, name)
		}
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, doc := range all {
		if filepath.Ext(doc) != ".md" || path.Dir(doc) == "docs/attacks" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(text(t, doc), -1) {
			if target := filepath.Join(filepath.Dir(doc), m[1]); !slices.Contains(all, target) {
				t.Errorf("%s links to %s, which is not in the tree", doc, m[1])
			}
		}
	}
}

// TestLinksLeadToHeadings holds links with an anchor against the headings of the documents that they lead to.
func TestLinksLeadToHeadings(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	headings := map[string]map[string]bool{}
	for _, doc := range all {
		if filepath.Ext(doc) == ".md" {
			headings[doc] = map[string]bool{}
			for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text(t, doc), -1) {
				headings[doc][anchorOf(m[1])] = true
			}
		}
	}
	for doc := range headings {
		for _, m := range regexp.MustCompile(`\]\(([^)#: ]*)#([^)]+)\)`).FindAllStringSubmatch(text(t, doc), -1) {
			target := doc
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(doc), m[1])
			}
			if filepath.Ext(target) == ".md" && !headings[target][m[2]] {
				t.Errorf("%s links to %s#%s, which is not one of its headings", doc, target, m[2])
			}
		}
	}
}

var targetLine = regexp.MustCompile(`(?m)^([a-z]+):.*## `)

// TestExamplesKeepConnections: each whole Caddyfile with the site of an issuer has the listener wrapper before tls.
func TestExamplesKeepConnections(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```caddyfile\n((?:#[^\n]*\n)*\\{\n.*?)```")
	site := regexp.MustCompile(`(?m)^\tgatehouse$`)
	wrapped := regexp.MustCompile(`\tlistener_wrappers \{\s+gatehouse\s+tls\s+\}`)
	seen := 0
	for _, f := range all {
		examples := [][]string{}
		switch {
		case f == "Caddyfile.example":
			examples = append(examples, []string{"", text(t, f)})
		case path.Ext(f) == ".md":
			examples = block.FindAllStringSubmatch(text(t, f), -1)
		}
		for _, e := range examples {
			if !site.MatchString(e[1]) {
				continue
			}
			seen++
			if !wrapped.MatchString(e[1]) {
				t.Errorf("%s: an example lacks the listener wrapper, so its reloads lose requests:\n%s", f, e[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d examples were found, want all of them", seen)
	}
}

// TestDocumentsKnowMake holds what the documents say of make against the Makefile, both ways.
func TestDocumentsKnowMake(t *testing.T) {
	t.Parallel()
	var targets []string
	for _, m := range targetLine.FindAllStringSubmatch(text(t, "Makefile"), -1) {
		targets = append(targets, m[1])
	}
	docs := text(t, "README.md") + text(t, "CONTRIBUTING.md") + text(t, "ARCHITECTURE.md")
	for _, target := range targets {
		if !strings.Contains(docs, "`make "+target+"`") && !strings.Contains(docs, "\nmake "+target) {
			t.Errorf("no document names `make %s`", target)
		}
	}
	for _, m := range regexp.MustCompile("(?:`|\n)make ([a-z]+)").FindAllStringSubmatch(docs, -1) {
		if !slices.Contains(targets, m[1]) {
			t.Errorf("a document names `make %s`, which does not exist", m[1])
		}
	}
}

var namedFile = regexp.MustCompile("`([a-z0-9_./-]+\\.(?:go|md|json|yml|sh|css|example))`")

// TestDocumentsNameRealFiles holds the files that the documents name against the tree.
func TestDocumentsNameRealFiles(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range all {
		if !slices.Contains([]string{"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/guide.md"}, doc) &&
			path.Dir(doc) != "docs/decisions" {
			continue
		}
		for _, m := range namedFile.FindAllStringSubmatch(text(t, doc), -1) {
			name := m[1]
			found := slices.ContainsFunc(all, func(f string) bool { return f == name || !strings.Contains(name, "/") && filepath.Base(f) == name })
			if !found {
				t.Errorf("%s names %s, which is not in the tree", doc, name)
			}
		}
	}
}

// TestDecisionsHaveAnchors holds references to decisions against the headings of docs/decisions: code and documents
// name a heading by its anchor, so the headings of a document are unique.
func TestDecisionsHaveAnchors(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]map[string]bool{}
	count := 0
	for _, doc := range all {
		if path.Dir(doc) != "docs/decisions" {
			continue
		}
		anchors[doc] = map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text(t, doc), -1) {
			a := anchorOf(m[1])
			if anchors[doc][a] {
				t.Errorf("%s has two headings %q: an anchor leads to the first only", doc, m[1])
			}
			anchors[doc][a] = true
			count++
		}
	}
	if count < 50 {
		t.Fatalf("docs/decisions has %d headings: they do not look as this test expects", count)
	}
	named := regexp.MustCompile(`decisions(/[a-z-]+)?\.md(?:#([A-Za-z0-9_-]*))?`)
	for _, f := range all {
		if f == "internal/archtest/docs_test.go" || !slices.Contains([]string{".go", ".md", ".yml", ".json", ".sh"}, filepath.Ext(f)) {
			continue
		}
		for n, line := range strings.Split(text(t, f), "\n") {
			for _, m := range named.FindAllStringSubmatch(line, -1) {
				doc := "docs/" + strings.Split(m[0], "#")[0]
				switch {
				case m[2] != "" && !anchors[doc][m[2]]:
					t.Errorf("%s:%d names %s#%s, which is not one of its headings", f, n+1, doc, m[2])
				case m[2] == "" && strings.HasSuffix(f, ".go"):
					t.Errorf("%s:%d names %s without the anchor of a heading", f, n+1, doc)
				}
			}
		}
	}
}

// TestDocumentsRepeatNothing: no table has a row twice. A merge that keeps both sides leaves such lines.
func TestDocumentsRepeatNothing(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if filepath.Ext(f) != ".md" {
			continue
		}
		rows := map[string]bool{}
		for n, line := range strings.Split(text(t, f), "\n") {
			if !strings.HasPrefix(line, "|") {
				clear(rows)
			}
			if rows[line] {
				t.Errorf("%s:%d: the row stands in the table twice", f, n+1)
			}
			rows[line] = strings.HasPrefix(line, "|")
		}
	}
}

// anchorOf returns the anchor of a heading, as GitHub makes it.
func anchorOf(heading string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c):
			return unicode.ToLower(c)
		}
		return -1
	}, heading)
}

// TestLockFile keeps addresses of downloads out of the npm lock files: the registry is the machine's business, the
// hashes are ours.
func TestLockFile(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"e2e/node", "e2e/clients", "e2e/mcp", "site"} {
		file := dir + "/package-lock.json"
		var lock struct {
			Packages map[string]struct {
				Resolved, Integrity string
			}
		}
		if err := json.Unmarshal([]byte(text(t, file)), &lock); err != nil {
			t.Fatal(err)
		}
		for name, p := range lock.Packages {
			if p.Resolved != "" {
				t.Errorf("%s says where %s was downloaded: remove \"resolved\"", file, name)
			}
			if name != "" && p.Integrity == "" {
				t.Errorf("%s has no hash of %s", file, name)
			}
		}
		if len(lock.Packages) < 2 {
			t.Errorf("%s names no package", file)
		}
	}
}
