package cli_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestMovingPages runs each command of docs/moving, with the files that the page shows or those of the other tests, and
// loads each Caddyfile. Where the page shows the file of a site, the Caddyfile has what the command prints.
func TestMovingPages(t *testing.T) {
	pages, err := filepath.Glob("../../docs/moving/*.md")
	if err != nil || len(pages) != 5 {
		t.Fatalf("pages = %v, %v, want five", pages, err)
	}
	block := regexp.MustCompile("(?s)```(\\w+)\n(.*?)```\n")
	named := regexp.MustCompile("`([a-z0-9-]+\\.[a-z]+|Caddyfile)`[^`]*:\n\n$")
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			p := servertest.NewProvisioning(t)
			raw, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			var commands, caddyfiles []string
			shown := map[string]bool{}
			for _, at := range block.FindAllSubmatchIndex(raw, -1) {
				name, lang, text := named.FindSubmatch(raw[:at[0]]), string(raw[at[2]:at[3]]), string(raw[at[4]:at[5]])
				switch {
				case lang == "caddyfile":
					caddyfiles = append(caddyfiles, text)
				case lang == "sh":
					commands = append(commands, strings.Split(strings.TrimSpace(text), "\n")...)
				case name != nil:
					shown[string(name[1])] = true
					if err := os.WriteFile(filepath.Join(dir, string(name[1])), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if len(commands) == 0 {
				t.Fatal("the page has no command")
			}
			for _, c := range commands {
				printed := runMoving(t, p, dir, c)
				if shown["people.csv"] && strings.Contains(c, "people.csv") || len(shown) == 0 {
					continue
				}
				for line := range strings.SplitSeq(printed, "\n") {
					if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !strings.Contains(strings.Join(caddyfiles, ""), line) {
						t.Errorf("%s prints %q, which the Caddyfile of the page lacks", c, line)
					}
				}
			}
			if shown["people.csv"] {
				p.Run("", "person", "show", "ada")
			}
			for _, text := range caddyfiles {
				text = regexp.MustCompile(`\{env\.\w+\}`).ReplaceAllString(text, "a-secret-that-is-long-enough-for-everybody")
				if err := servertest.ValidateCaddyfile(t, text); err != nil {
					t.Errorf("%v\n%s", err, text)
				}
			}
		})
	}
}

// runMoving runs a command of a page, and returns what it prints. One person of the realm of the tests cannot come.
func runMoving(t *testing.T, p *servertest.Provisioning, dir, command string) string {
	t.Helper()
	words := strings.Fields(command)
	if len(words) < 4 || words[0] != "caddy" || words[1] != "gatehouse" {
		t.Fatalf("%q is no command of caddy gatehouse", command)
	}
	if i := slices.Index(words, ">"); i > 0 {
		words = words[:i]
	}
	args := append(words[2:], "--address", p.Admin)
	for i, w := range args {
		switch file := filepath.Join(dir, w); {
		case !strings.Contains(w, ".") && w != "Caddyfile" || w == p.Admin:
		case exists(file) || args[i-1] == "--report":
			args[i] = file
		case exists(filepath.Join("testdata", "movein", w)):
			args[i] = filepath.Join("testdata", "movein", w)
		}
	}
	out, err := servertest.Run(t, "", args...)
	if err != nil && !(strings.Contains(command, "realm.json") && strings.HasPrefix(err.Error(), "1 person")) {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
	return out
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// TestEveryMovingIsWritten: docs/moving-in.md names each kind of export.
func TestEveryMovingIsWritten(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/moving-in.md")
	if err != nil {
		t.Fatal(err)
	}
	help, err := servertest.Run(t, "", "import", "--help")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z0-9-]+)  +\S`).FindAllStringSubmatch(help, -1) {
		kinds[m[1]] = true
	}
	if len(kinds) < 8 {
		t.Fatalf("kinds = %v:\n%s", slices.Sorted(maps.Keys(kinds)), help)
	}
	for kind := range kinds {
		if kind != "csv" && kind != "jsonl" && kind != "caddy" && !strings.Contains(string(raw), "| `"+kind+"` |") {
			t.Errorf("docs/moving-in.md lacks %s", kind)
		}
	}
}
