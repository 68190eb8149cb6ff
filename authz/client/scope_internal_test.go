package client

import (
	"strings"
	"testing"
)

func FuzzScope(f *testing.F) {
	for _, seed := range []string{"openid profile", " a  b ", `a"b`, "a\x7f", "ä", strings.Repeat("x ", 200)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseScope(text)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, name := range got {
			if seen[name] || !isScopeToken(name) || !strings.Contains(text, name) {
				t.Fatalf("parseScope(%q) = %q", text, got)
			}
			seen[name] = true
		}
		again, err := ParseScope(strings.Join(got, " "))
		if err != nil || strings.Join(again, " ") != strings.Join(got, " ") {
			t.Fatalf("parseScope of %q = %q, %v", got, again, err)
		}
	})
}
