package settings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings/address"
	"github.com/gatehouse-id/gatehouse/identity/settings/kind"
)

// invalid has texts that are not of a kind: one for each thing that can be wrong.
var invalid = map[string][]string{
	"text": {"a\x00", "a\u202eb"}, "lines": {"a\x00"}, "secret": {"a\x00"}, "id": {"a b"}, "key": {"a b"}, "message": {"a/b", "a b"},
	"locale": {"n l", "zzzz"}, "email": {"ann"}, "regex": {"("}, "cidr": {"ten"}, "scope": {`a"b`}, "keypair": {"a\x00"},
	"keytab": {"a\x00"}, "app": {"mailto:ann"}, "target": {"nowhere", "/a b"}, "path": {"login", "/a b"},
	"metadata":    {"<a/>", "http://a.example"},
	"url":         {"nowhere", "https://a.example:70000", "http://a.example", "https://a.example/" + strings.Repeat("a", address.Most)},
	"origin":      {"https://a.example/path"},
	"whitelisted": {"https://a.example/?b", ""},
	"image":       {"no picture"},
}

// languages returns the messages about problems of settings by language.
func languages(t *testing.T) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	for _, language := range []string{"en", "nl", "de", "fr"} {
		raw, err := os.ReadFile("../../internal/web/messages/" + language + "/console-settings-problems.json")
		if err != nil {
			t.Fatal(err)
		}
		var known map[string]string
		if err := json.Unmarshal(raw, &known); err != nil {
			t.Fatal(err)
		}
		out[language] = known
	}
	return out
}

// sourcesOf returns the code of the checks.
func sourcesOf(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"*.go", "kind/*.go", "address/*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if name == "wordings.go" || strings.HasSuffix(name, "_test.go") {
				continue
			}
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(raw)
		}
	}
	return all.String()
}

// TestChecksHaveWords: each check that a member of the units has is explained to people in each language. Every message
// belongs to a problem, and fills in what the problem knows.
func TestChecksHaveWords(t *testing.T) {
	t.Parallel()
	known := languages(t)
	worded := func(c *checker, what string) {
		t.Helper()
		if len(c.problems) != 1 {
			t.Errorf("%s: problems = %+v, want one", what, c.problems)
			return
		}
		p := c.problems[0]
		for language, texts := range known {
			if texts[p.Key] == "" {
				t.Errorf("%s: %q has no message in %s", what, p.Problem, language)
			}
		}
	}
	kinds := map[string]bool{}
	for _, m := range members() {
		for word := range strings.SplitSeq(m.tag, ",") {
			if kind.All[word].Check != nil {
				kinds[word] = true
			}
		}
	}
	if len(kinds) < 10 {
		t.Errorf("%d kinds are used, want at least 10", len(kinds))
	}
	for word := range kinds {
		if len(invalid[word]) == 0 {
			t.Errorf("the kind %s is not tried", word)
		}
	}
	for word, texts := range invalid {
		for _, text := range texts {
			c := &checker{}
			c.text(text, "at", word)
			worded(c, word+" "+text[:min(len(text), 30)])
		}
	}
	for tag, v := range map[string]any{"int,1,4": 9, "enum,A|B": "C", "most,1": []string{"a", "b"}, "text,1": "ab"} {
		c := &checker{}
		c.value(reflect.ValueOf(v), place{at: "at", tag: tag})
		worded(c, tag)
	}
	sources := sourcesOf(t)
	keys := map[string]bool{}
	for format, w := range wordings {
		key := "console.settings_problem." + w.key
		keys[key] = true
		if !strings.Contains(sources, strconv.Quote(format)) && !strings.Contains(sources, "`"+format+"`") {
			t.Errorf("no check says %q any more", format)
		}
		for language, texts := range known {
			for _, name := range w.params {
				if name != "type" && !strings.Contains(texts[key], "{"+name+"}") {
					t.Errorf("%s in %s does not say {%s} of %q", key, language, name, format)
				}
			}
		}
	}
	for key := range known["en"] {
		if !keys[key] {
			t.Errorf("%s belongs to no problem", key)
		}
	}
}
