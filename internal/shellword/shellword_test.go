package shellword_test

import (
	"os/exec"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/shellword"
)

// TestQuote: a shell reads each name as it is, and plain names look plain.
func TestQuote(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ann@example.com":   "ann@example.com",
		`acme\ann`:          `'acme\ann'`,
		"Night Shift":       "'Night Shift'",
		"o'neil":            `'o'\''neil'`,
		"$(touch /tmp/x);`": "'$(touch /tmp/x);`'",
		"":                  "''",
		"jürgen":            "'jürgen'",
		"~root":             "'~root'",
	} {
		got := shellword.Quote(name)
		if got != want {
			t.Errorf("Quote(%q) = %s, want %s", name, got, want)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+got).Output()
		if err != nil || string(out) != name {
			t.Errorf("sh reads %s as %q, %v", got, out, err)
		}
	}
}
