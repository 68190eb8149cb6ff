package archtest

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// joined runs scripts/changelog.sh in a directory with these files, and returns the changelog and what it printed.
func joined(t *testing.T, files map[string]string, args ...string) (string, string, error) {
	t.Helper()
	dir := t.TempDir()
	files["scripts/changelog.sh"] = text(t, "scripts/changelog.sh")
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", //nolint:gosec // ours
		append([]string{filepath.Join(dir, "scripts/changelog.sh")}, args...)...)
	out, failed := cmd.CombinedOutput()
	raw, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if rest, err := filepath.Glob(filepath.Join(dir, "changes/*.md")); err != nil || failed == nil && len(rest) > 0 {
		t.Errorf("the fragments %q are still there (%v)", rest, err)
	}
	return string(raw), string(out), failed
}

var releaseDate = regexp.MustCompile(`(?m)^(## 0\.2), \d{4}-\d\d-\d\d$`)

const oldChanges = "# Changelog\n\n## Unreleased\n\n### Added\n\nGateway:\n\n- A.\n\n### Fixed\n\n- B.\n\n## 0.1\n\n### Added\n\n- All.\n"

func TestChangelog(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fragments map[string]string
		args      []string
		want      string // from the section Unreleased on, or what the script says
		fails     bool
	}{
		"items go below their headings": {
			map[string]string{"a": "### Fixed\n\n- C,\n  on two lines.\n", "b": "### Added\n- D.\n### Security\n\n- E.\n"},
			nil,
			"## Unreleased\n\n### Added\n\nGateway:\n\n- A.\n- D.\n\n### Fixed\n\n- B.\n- C,\n  on two lines.\n\n### Security\n\n- E.\n\n## 0.1\n\n### Added\n\n- All.\n", false,
		},
		"a release": {
			map[string]string{"a": "### Fixed\n- C.\n"},
			[]string{"0.2"},
			"## Unreleased\n\n## 0.2, TODAY\n\n### Added\n\nGateway:\n\n- A.\n\n### Fixed\n\n- B.\n- C.\n\n## 0.1\n\n### Added\n\n- All.\n", false,
		},
		"nothing to join":         {nil, nil, strings.TrimPrefix(oldChanges, "# Changelog\n\n"), false},
		"an item without heading": {map[string]string{"a": "- C.\n"}, nil, "changes/a.md:1: ", true},
		"an unknown heading":      {map[string]string{"a": "### Repaired\n- C.\n"}, nil, "changes/a.md:1: ", true},
		"a paragraph":             {map[string]string{"a": "### Fixed\n- C.\nD.\n"}, nil, "changes/a.md:3: ", true},
		"no item":                 {map[string]string{"a": "### Fixed\n"}, nil, "changes/a.md: no list item", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"CHANGELOG.md": oldChanges}
			for f, content := range tt.fragments {
				files["changes/"+f+".md"] = content
			}
			got, out, err := joined(t, files, tt.args...)
			if tt.fails {
				if err == nil || !strings.HasPrefix(out, tt.want) || got != oldChanges {
					t.Errorf("changelog.sh = %v, %q, and the changelog is\n%s\nwant the error %q and nothing changed", err, out, got, tt.want)
				}
				return
			}
			got = releaseDate.ReplaceAllString(got, "$1, TODAY")
			if want := "# Changelog\n\n" + tt.want; err != nil || got != want {
				t.Errorf("changelog.sh = %v, %s, and the changelog is\n%s\nwant\n%s", err, out, got, want)
			}
		})
	}
}

// TestFragments: what waits in changes/ can be joined into the changelog.
func TestFragments(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	fragments := map[string]string{"CHANGELOG.md": text(t, "CHANGELOG.md")}
	for _, f := range all {
		if path.Dir(f) == "changes" {
			fragments[f] = text(t, f)
		}
	}
	if _, out, err := joined(t, fragments); err != nil {
		t.Errorf("changelog.sh: %v: %s", err, out)
	}
}
