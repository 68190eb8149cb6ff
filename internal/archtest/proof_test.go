package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProof: scripts/proof.sh writes a report of each command of its list, with what it printed, and ends with an error
// if one fails.
func TestProof(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"scripts/proof.sh":  text(t, "scripts/proof.sh"),
		"scripts/proof.txt": "# a list\ngood\tWhat holds\techo '--- PASS: a'; echo '--- PASS: b'\nbad\tWhat does not\techo broken; exit 3\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, "scripts"), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(names ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{filepath.Join(dir, "scripts/proof.sh")}, names...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	report := func(name string) string {
		found, err := filepath.Glob(filepath.Join(dir, "docs/reports/*-"+name+".md"))
		if err != nil || len(found) != 1 {
			return ""
		}
		raw, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if out, err := run("good"); err != nil || report("bad") != "" {
		t.Errorf("proof.sh good = %v, and a report of the other one %q\n%s", err, report("bad"), out)
	}
	for _, want := range []string{"# What holds, ", "| passed in ", "2 tests passed, 0 failed", "2 lines, SHA-256 `"} {
		if !strings.Contains(report("good"), want) {
			t.Errorf("the report lacks %q:\n%s", want, report("good"))
		}
	}
	if out, err := run(); err == nil || !strings.Contains(report("bad"), "failed, exit 3") || !strings.Contains(report("bad"), "broken") {
		t.Errorf("proof.sh = %v, want an error and a report of it:\n%s%s", err, out, report("bad"))
	}
	if out, err := run("other"); err == nil || !strings.Contains(out, "other is not in ") {
		t.Errorf("proof.sh other = %v: %s", err, out)
	}
}
