package main

import (
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const root = "../.."

// binary builds a custom Caddy in a temporary module that requires ours, as xcaddy does. It builds once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(tempDir, "caddy")
	return bin, build(filepath.Join(root, "xcaddy.json"), bin, "gatehouse.pgo")
})

var tempDir string

func TestMain(m *testing.M) {
	var err error
	if tempDir, err = os.MkdirTemp("", "gatehouse-build-test-"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(tempDir)
	os.Exit(status)
}

func built(t *testing.T) string {
	t.Helper()
	touch(t)
	bin, err := binary()
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return bin
}

// TestBuild asks the binary for its modules.
func TestBuild(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), built(t), "list-modules").CombinedOutput()
	if err != nil {
		t.Fatalf("list-modules: %v\n%s", err, out)
	}
	got := "\n" + string(out) + "\n"
	for _, want := range []string{
		"gatehouse", "http.handlers.gatehouse", "http.handlers.protect", "gatehouse.storage.badger", "http.handlers.reverse_proxy",
	} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("list-modules lacks %s", want)
		}
	}
}

// touch looks at every directory of the module. The go command reuses a cached test result until something that the
// test itself opened has changed, and it does not see what the build opens.
func touch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		skipped := strings.HasPrefix(d.Name(), ".") && p != root || slices.Contains([]string{"bin", "data", "docs", "e2e", "faults", "bench"}, d.Name())
		if err == nil && d.IsDir() && skipped {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFile compares xcaddy.json with go.mod and the Makefile: a version or flag in two places must be the same in both.
func TestFile(t *testing.T) {
	t.Parallel()
	b, err := read(filepath.Join(root, "xcaddy.json"))
	if err != nil {
		t.Fatal(err)
	}
	mod := text(t, "go.mod")
	if want := caddyModule + " " + b.CaddyVersion + "\n"; !strings.Contains(mod, want) {
		t.Errorf("go.mod requires a different Caddy version than xcaddy.json (%s)", b.CaddyVersion)
	}
	module := strings.Fields(mod)[1]
	var ours bool
	for _, p := range b.Plugins {
		ours = ours || p.Package == module
	}
	if !ours {
		t.Errorf("xcaddy.json does not name %s", module)
	}
	if !strings.Contains(text(t, "Makefile"), "export GOFLAGS := "+b.BuildFlags+"\n") {
		t.Errorf("xcaddy.json builds with %q, the Makefile with different flags", b.BuildFlags)
	}
}

// TestProfile: the profile that guides the build is one of our server, and says nothing of the machine where it was
// taken.
func TestProfile(t *testing.T) {
	t.Parallel()
	z, err := gzip.NewReader(strings.NewReader(text(t, "internal/build/gatehouse.pgo")))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/authz.(*Server)", "/caddymodule/protect.(*Protect)", "/storage/badgerstore."} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the profile does not know %s", want)
		}
	}
	if path := regexp.MustCompile(`/(home|r[o]ot|tmp|usr)/`).Find(raw); path != nil {
		t.Errorf("the profile names a path below %s", path)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"unknown word": `{"caddy": "v2"}`,
		"no JSON":      `caddy_version: v2`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "xcaddy.json")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := read(file); err == nil {
				t.Errorf("read(%s) accepted it", content)
			}
		})
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
