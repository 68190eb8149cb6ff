package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

// answers compares answers in a document with those of a server. What differs from run to run, such as identifiers and
// times, can be other than in the document, but the same value of the document is always the same value of the server.
type answers struct {
	known map[string]string // values of the document, and what they are here
	taken map[string]string // the other way round
}

func newAnswers() *answers { return &answers{map[string]string{}, map[string]string{}} }

// changing are the parts of a text that differ from run to run: times, random values, references, the version of curl.
var changing = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|[A-Za-z0-9_-]{16,}|\b[0-9A-Z]{4}-[0-9A-Z]{4}\b|curl/[\d.]+`)

const digits = "0123456789"

// text compares two texts. One that ends in … goes on.
func (a *answers) text(want, got string) error {
	if start, more := strings.CutSuffix(want, "…"); more {
		if !strings.HasPrefix(got, start) {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	}
	wants, gots := changing.FindAllString(want, -1), changing.FindAllString(got, -1)
	between := func(s string) string { return changing.ReplaceAllLiteralString(s, "\x00") }
	if between(want) != between(got) {
		return fmt.Errorf("%q, want %q", got, want)
	}
	for i, w := range wants {
		g := gots[i]
		if strings.Contains(w, ":") && strings.Contains(g, ":") || strings.HasPrefix(w, "curl/") && strings.HasPrefix(g, "curl/") {
			continue // times and versions
		}
		if !strings.ContainsAny(w, digits) {
			if w != g {
				return fmt.Errorf("%q, want %q", got, want)
			}
			continue // a long word
		}
		if before, ok := a.known[w]; ok && before != g {
			return fmt.Errorf("%q, want %q again for the document's %q", g, before, w)
		}
		if before, ok := a.taken[g]; ok && before != w {
			return fmt.Errorf("%q, which the document called %q before, and %q now", g, before, w)
		}
		a.known[w], a.taken[g] = g, w
	}
	return nil
}

// here returns a text of the document with the values of this run.
func (a *answers) here(text string) string {
	return changing.ReplaceAllStringFunc(text, func(v string) string {
		if here, ok := a.known[v]; ok {
			return here
		}
		return v
	})
}

// json compares two JSON texts. A member "…" stands for any more members.
func (a *answers) json(want, got string) error {
	w, err := decoded(want)
	if err != nil {
		return fmt.Errorf("the document: %w", err)
	}
	g, err := decoded(got)
	if err != nil {
		return fmt.Errorf("the answer: %w: %s", err, got)
	}
	return a.value("", w, g)
}

func decoded(text string) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	return v, d.Decode(&v)
}

func (a *answers) value(path string, want, got any) error {
	var err error
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, want an object", path, got)
		}
		return a.members(path, w, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Errorf("%s is %v, want %d elements", path, got, len(w))
		}
		for i := range w {
			if err := a.value(fmt.Sprintf("%s[%d]", path, i), w[i], g[i]); err != nil {
				return err
			}
		}
		return nil
	case string:
		g, ok := got.(string)
		if !ok {
			return fmt.Errorf("%s is %v, want %q", path, got, w)
		}
		err = a.text(w, g)
	case json.Number:
		g, ok := got.(json.Number)
		if !ok || !near(w, g) {
			err = fmt.Errorf("%v, want %v", got, w)
		}
	default:
		if want != got {
			err = fmt.Errorf("%v, want %v", got, want)
		}
	}
	if err != nil {
		return fmt.Errorf("%s is %w", path, err)
	}
	return nil
}

func (a *answers) members(path string, want, got map[string]any) error {
	for name, w := range want {
		g, ok := got[name]
		if !ok && name != "…" {
			return fmt.Errorf("%s.%s is missing", path, name)
		}
		if ok {
			if err := a.value(path+"."+name, w, g); err != nil {
				return err
			}
		}
	}
	if _, more := want["…"]; more {
		return nil
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			return fmt.Errorf("%s.%s is not in the document", path, name)
		}
	}
	return nil
}

// near reports whether two numbers are equal, both a time since 1970, or both a lifetime with a few seconds between.
func near(want, got json.Number) bool {
	w, err := want.Float64()
	g, err2 := got.Float64()
	if err != nil || err2 != nil {
		return false
	}
	const since1970 = 1e9
	return w == g || w > since1970 && g > since1970 || w > 60 && math.Abs(w-g) < 20
}

// TestAnswers holds the comparison itself: it must find what the documents would otherwise say wrongly.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const document = `{"id": "3f1c9a52-1111-4222-8333-444455556666", "url": "https://a/3f1c9a52-1111-4222-8333-444455556666", "at": "2026-01-01T00:00:00Z", "exp": 1795370869, "n": 12, "jwt": "eyJ…", "list": [true]}`
	for _, c := range []struct{ name, from, to, want string }{
		{"the same", "", "", ""},
		{"another identifier", "3f1c9a52-1111-4222-8333-444455556666", "00000000-1111-4222-8333-444455556666", ""},
		{"another time", "2026-01-01T00:00:00Z", "2027-02-02T01:01:01.5Z", ""},
		{"another time since 1970", "1795370869", "1895370869", ""},
		{"the rest of what goes on", "eyJ…", "eyJhbGciOiJSUzI1NiJ9.e30.x", ""},
		{"one of two equal identifiers", "/3f1c9a52-1111-4222-8333-444455556666", "/00000000-1111-4222-8333-444455556666", "again for"},
		{"another number", "12", "13", ".n is"},
		{"another word", `"id"`, `"key"`, "missing"},
		{"a missing element", "[true]", "[]", "elements"},
		{"another value", "true", "false", "[0]"},
		{"one member more", `"n": 12`, `"n": 12, "m": 1`, ".m is not in the document"},
	} {
		a := newAnswers()
		err := a.json(document, strings.ReplaceAll(document, c.from, c.to))
		if c.from == "" {
			err = a.json(document, document)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
