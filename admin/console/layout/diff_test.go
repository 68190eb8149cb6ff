package layout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
)

// TestDiff: two long texts that have little in common are not compared line by line, which would take gigabytes for the
// policies that a form has room for.
func TestDiff(t *testing.T) {
	t.Parallel()
	long := func(name string, n int) string {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprint(name, i))
		}
		return strings.Join(lines, "\n")
	}
	same := long("same ", 2000)
	for name, c := range map[string]struct {
		before, after string
		want          int
	}{
		"nothing before":       {"", "a\nb", 2},
		"the same":             {same, same, 0},
		"a line":               {same + "\nold\n" + same, same + "\nnew\n" + same, 2},
		"a line more":          {"a\nb", "a\nx\nb", 1},
		"a line that stays":    {"a\nx\nb", "c\nx\nd", 4},
		"too many to compare":  {long("a ", 1500) + "\nx\n" + long("b ", 1500), long("c ", 1500) + "\nx\n" + long("d ", 1500), 6002},
		"long, with long ends": {same + "\n1\n2\n" + same, same + "\n2\n3\n" + same, 2},
	} {
		got := layout.Diff(c.before, c.after)
		if len(got) != c.want || slices.ContainsFunc(got, func(l string) bool { return l[0] != '-' && l[0] != '+' }) {
			t.Errorf("%s: %d lines differ, want %d", name, len(got), c.want)
		}
	}
}
