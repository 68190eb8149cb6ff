package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSuites: every test of a suite exists, and every prefix is that of a file.
func TestSuites(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("../../e2e/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range sources {
		sources[i] = "e2e/" + filepath.Base(name)
	}
	declared, err := declarations("../..", sources)
	if err != nil {
		t.Fatal(err)
	}
	tests := slices.Concat(slices.Collect(maps.Values(declared))...)
	benchmark, err := os.ReadFile("../../bench/bench_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		for _, name := range s.tests {
			if !slices.Contains(tests, name) {
				t.Errorf("suite %q: there is no test %s", s.name, name)
			}
		}
		for _, name := range s.bench {
			if !strings.Contains(string(benchmark), "\nfunc "+name+"(t ") {
				t.Errorf("suite %q: there is no test %s", s.name, name)
			}
		}
		for _, prefix := range slices.Concat(shared, s.prefixes()) {
			if _, err := os.Stat(filepath.Join("../..", prefix)); err != nil {
				t.Errorf("suite %q: %v", s.name, err)
			}
		}
	}
}

// TestWithoutRaces: every test that the race detector is not to read exists.
func TestWithoutRaces(t *testing.T) {
	t.Parallel()
	for pkg, names := range withoutRaces {
		var source strings.Builder
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(raw)
		}
		for _, name := range names {
			if !strings.Contains(source.String(), "\nfunc Test"+name+"(t ") {
				t.Errorf("%s has no test Test%s", pkg, name)
			}
		}
	}
}

// repository is a git repository with a branch main of n commits, the first of which are old.
func repository(t *testing.T, old, fresh int) (dir string, commit func(date, file string)) {
	t.Helper()
	dir = t.TempDir()
	run := func(date string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a",
			"GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		if date != "" {
			cmd.Env = append(cmd.Env, "GIT_COMMITTER_DATE="+date, "GIT_AUTHOR_DATE="+date)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	commit = func(date, file string) {
		t.Helper()
		name := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if date == "never" {
			return
		}
		run("", "add", ".")
		run(date, "commit", "-q", "-m", file)
	}
	run("", "init", "-q", "-b", "main")
	for i := range old {
		commit("2020-01-01T00:00:00Z", fmt.Sprintf("old/%d", i))
	}
	for i := range fresh {
		commit("", fmt.Sprintf("fresh/%d", i))
	}
	return dir, commit
}

func TestChanges(t *testing.T) {
	t.Parallel()
	git := func(t *testing.T, dir string, args ...string) string {
		t.Helper()
		out, err := git(dir, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	files := func(kind string, from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprintf("%s/%d", kind, i))
		}
		return out
	}
	for _, tt := range []struct {
		name       string
		old, fresh int
		base       string
		then       func(t *testing.T, dir string, commit func(date, file string))
		want       []string
	}{
		{name: "main, of which little is new", old: 15, fresh: 2, want: slices.Concat(files("old", 7, 15), files("fresh", 0, 2))},
		{name: "main, of which much is new", old: 5, fresh: 12, want: files("fresh", 0, 12)},
		{name: "main with few commits", old: 3, want: files("old", 0, 3)},
		{
			name: "a branch", old: 15, fresh: 1,
			then: func(t *testing.T, dir string, commit func(date, file string)) {
				git(t, dir, "switch", "-q", "-c", "feature")
				commit("2020-01-02T00:00:00Z", "idp/saml/assertion.go")
			},
			want: []string{"idp/saml/assertion.go"},
		},
		{
			name: "what is not committed", old: 1, base: "HEAD",
			then: func(_ *testing.T, _ string, commit func(date, file string)) {
				commit("never", "old/0")
				commit("never", "idp/new.go")
			},
			want: []string{"idp/new.go"},
		},
		{
			name: "a name", old: 15, base: "feature~1",
			then: func(t *testing.T, dir string, commit func(date, file string)) {
				git(t, dir, "switch", "-q", "-c", "feature")
				commit("", "one")
				commit("", "two")
			},
			want: []string{"two"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, commit := repository(t, tt.old, tt.fresh)
			if tt.then != nil {
				tt.then(t, dir, commit)
			}
			got, since, err := changes(dir, tt.base)
			slices.Sort(tt.want)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("changes = %q, %v (%s), want %q", got, err, since, tt.want)
			}
		})
	}
	t.Run("a clone without history", func(t *testing.T) {
		t.Parallel()
		dir, _ := repository(t, 3, 0)
		clone := t.TempDir()
		git(t, clone, "clone", "-q", "--depth=1", "file://"+dir, ".")
		if got, since, err := changes(clone, ""); err == nil {
			t.Errorf("changes = %q (%s), want an error", got, since)
		}
	})
	t.Run("no repository", func(t *testing.T) {
		t.Parallel()
		if got, since, err := changes(t.TempDir(), ""); err == nil {
			t.Errorf("changes = %q (%s), want an error", got, since)
		}
	})
}

func TestConcerns(t *testing.T) {
	t.Parallel()
	s := suite{tests: []string{"TestSAML"}, paths: []string{"idp/saml/", "docs/saml.md"}}
	declared := map[string][]string{"e2e/saml_test.go": {"TestSAML"}, "e2e/pin_test.go": {"TestPIN", "TestNewPIN"}}
	for file, want := range map[string]bool{
		"README.md": false, "identity/person/name.go": false, "idp/samlx.go": false, "docs/idp/saml/": false,
		"idp/saml/assertion.go": true, "docs/saml.md": true, "e2e/saml_test.go": true, "e2e/pin_test.go": false,
		"e2e/browser_test.go": true, "go.sum": true,
	} {
		if got := s.concerns(file, declared); got != want {
			t.Errorf("concerns(%s) = %t, want %t", file, got, want)
		}
	}
}

// TestChosen: suites whose tests have changed run, then those that most files are about for their cost, as long as the
// budget lasts.
func TestChosen(t *testing.T) {
	t.Parallel()
	declared := map[string][]string{"e2e/crawl_test.go": {"TestCrawl"}}
	const screens, forms, tasks, crawl = "screens of the console in a browser", "forms and lists of the console in a browser",
		"tasks of administrators in a browser", "pages of people in a browser, in each state"
	for _, tt := range []struct {
		name  string
		files []string
		want  []string
	}{
		{"nothing", nil, nil},
		{"a document of no suite", []string{"README.md"}, nil},
		{"one provider", []string{"docs/kerberos.md"}, []string{"Kerberos: MIT's KDC"}},
		{"the console", []string{"admin/console/form.go"}, []string{forms, tasks}},
		{"tests of a suite", []string{"admin/console/form.go", "e2e/crawl_test.go"}, []string{crawl, forms}},
		{"mostly storage", []string{"go.mod", "storage/tx.go", "storage/key.go"}, []string{"clusters: PostgreSQL, PgBouncer, HAProxy", "races in stores"}},
	} {
		run, why := chosen(tt.files, declared)
		spent := 0
		for _, s := range run {
			spent += s.cost
		}
		names := []string{}
		for _, s := range run {
			names = append(names, s.name)
		}
		if spent > budget || !slices.Equal(names[:min(len(names), len(tt.want))], tt.want) || len(tt.want) == 0 && len(names) > 0 {
			t.Errorf("%s: %d s, %q run, want at most %d s and first %q", tt.name, spent, names, budget, tt.want)
		}
		for _, s := range run {
			if why[s.name] == "" {
				t.Errorf("%s: %s runs for no reason", tt.name, s.name)
			}
		}
	}
	everything := []string{"go.mod"}
	for _, s := range suites {
		everything = append(everything, s.paths...)
		for _, pattern := range s.raced {
			everything = append(everything, strings.Trim(pattern, "./")+"/x.go")
		}
	}
	spent := 0
	run, _ := chosen(everything, declared)
	for _, s := range run {
		spent += s.cost
	}
	if spent > broadBudget || spent == 0 {
		t.Errorf("everything: %d s, want at most %d s", spent, broadBudget)
	}
	if _, why := chosen([]string{"admin/console/form.go"}, declared); !strings.Contains(why[screens], "costs 90 s, and 20 are left") {
		t.Errorf("the reason of %q is %q", screens, why[screens])
	}
}
