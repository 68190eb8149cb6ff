package e2e

import (
	"strings"
	"testing"
)

// TestLiveEvents: in a browser with scripts, the live page of events shows what happens as it happens, without loading
// itself again, through compression; the stream ends when the server is to stop, which waits for every answer.
func TestLiveEvents(t *testing.T) {
	t.Parallel()
	s := startEdited(t, "", func(caddyfile string) string {
		caddyfile = strings.Replace(caddyfile, "\n\t\tidentity {", "\n\t\tidentity {\n\t\t\tadmin "+person+" {\n\t\t\t\tlevel 1\n\t\t\t}", 1)
		return strings.Replace(caddyfile, "\n\tgatehouse\n", "\n\tencode gzip zstd\n\tgatehouse\n", 1)
	})
	b := s.browse(t)
	b.open(s.Issuer + "/admin/events?live=1")
	b.signIn(person, s.Password)
	b.open(s.Issuer + "/admin/events?live=1")
	eval[bool](b, "window.same = true")
	if out, err := s.gatehouse("", "gatehouse", "person", "add", "late-comer", "--address", s.Admin, "--no-password"); err != nil {
		t.Fatalf("person add: %v\n%s", err, out)
	}
	b.until(`window.same && document.querySelector("tbody tr").textContent.includes("Person created")`)
	if first := b.text("tbody tr time"); strings.Contains(first, "T") && strings.Contains(first, "Z") {
		t.Errorf("the time of a new row is not in words: %s", first)
	}
	if rows := eval[int](b, `document.querySelectorAll("tbody tr").length`); rows > 50 {
		t.Errorf("%d rows, want at most 50", rows)
	}
}
