package settings

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings/address"
	"github.com/gatehouse-id/gatehouse/identity/settings/kind"
)

// malformed has texts that are not of a kind: one for each thing that can be wrong.
var malformed = map[string][]string{
	"text": {"a\x00", "a\u202eb"}, "lines": {"a\x00"}, "secret": {"a\x00"}, "id": {"a b"}, "key": {"a b"}, "message": {"a/b", "a b"},
	"locale": {"n l", "zzzz"}, "email": {"ann"}, "regex": {"("}, "cidr": {"ten"}, "scope": {`a"b`}, "keypair": {"a\x00"},
	"keytab": {"a\x00"}, "app": {"mailto:ann"}, "target": {"nowhere", "/a b"}, "path": {"login", "/a b"},
	"metadata":    {"<a/>", "http://a.example"},
	"url":         {"nowhere", "https://a.example:70000", "http://a.example", "https://a.example/" + strings.Repeat("a", address.Most)},
	"origin":      {"https://a.example/path"},
	"whitelisted": {"https://a.example/?b", ""},
	"image":       {"no picture"},
}

// TestChecksHaveCodes: each check that a member of the units has gives its problem a code, by which pages explain it.
func TestChecksHaveCodes(t *testing.T) {
	t.Parallel()
	coded := func(c *checker, what string) {
		t.Helper()
		if len(c.problems) != 1 || c.problems[0].Code == "" {
			t.Errorf("%s: problems = %+v, want one with a code", what, c.problems)
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
		if len(malformed[word]) == 0 {
			t.Errorf("the kind %s is not tried", word)
		}
	}
	for word, texts := range malformed {
		for _, text := range texts {
			c := &checker{}
			c.text(text, "at", word)
			coded(c, word+" "+text[:min(len(text), 30)])
		}
	}
	for tag, v := range map[string]any{"int,1,4": 9, "enum,A|B": "C", "most,1": []string{"a", "b"}, "text,1": "ab"} {
		c := &checker{}
		c.value(reflect.ValueOf(v), place{at: "at", tag: tag})
		coded(c, tag)
	}
}

// TestProblemsAreCoded: no part of the checks makes a problem from a text alone.
func TestProblemsAreCoded(t *testing.T) {
	t.Parallel()
	for pattern, bare := range map[string]string{
		"*.go": "jsonapi.Problem{Path", "kind/*.go": "errors.New(", "address/*.go": "errors.New(",
		"../../caddymodule/provider/loginmethod/*.go": "jsonapi.Problem{Path", "../../internal/strictjson/*.go": "errors.New(",
	} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), bare) {
				t.Errorf("%s has %s…, want an error with a code", name, bare)
			}
		}
	}
}
