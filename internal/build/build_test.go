package main

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

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
	var ours string
	for _, p := range b.Plugins {
		if p.Package == module {
			ours = p.Version
		}
	}
	if want := newest(t); ours != want {
		t.Errorf("xcaddy.json has %s in version %q, the newest in CHANGELOG.md is %s", module, ours, want)
	}
	if !strings.Contains(text(t, "Makefile"), "export GOFLAGS := "+b.BuildFlags+"\n") {
		t.Errorf("xcaddy.json builds with %q, the Makefile with different flags", b.BuildFlags)
	}
}

// newest returns the newest version in CHANGELOG.md.
func newest(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^## \[?(v?[0-9.]+)`).FindStringSubmatch(text(t, "CHANGELOG.md"))
	if m == nil {
		t.Fatal("CHANGELOG.md has no version")
	}
	return "v" + strings.TrimPrefix(m[1], "v")
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

// stamped are the files that the supply chain depends on. The tests with the build tag supply take minutes, so they run
// when one of these files has changed: `make supply` runs them and writes the sum into supply.sum.
var stamped = []string{
	"go.mod", "go.sum", "xcaddy.json", "internal/build/main.go", "internal/build/sbom.go",
	"internal/build/supply_test.go",
}

const stampFile = "internal/build/supply.sum"

func stamp() (string, error) {
	sum := sha256.New()
	for _, name := range stamped {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %x\n", name, sha256.Sum256(raw))
	}
	return hex.EncodeToString(sum.Sum(nil)) + "\n", nil
}

// TestReleaseVersion: a release has its version and names no directory of the machine that built it.
func TestReleaseVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ release, want string }{
		"a build": {"", "github.com/gatehouse-id/gatehouse " + newest(t) + "\n"}, "a release": {"v1.2.3", "github.com/gatehouse-id/gatehouse v1.2.3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := read(filepath.Join(root, "xcaddy.json"))
			if err != nil {
				t.Fatal(err)
			}
			tree, err := filepath.Abs(root)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := b.link(dir, tree, c.release); err != nil {
				t.Fatal(err)
			}
			if err := lay(dir, tree, b); err != nil {
				t.Fatal(err)
			}
			mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(mod), c.want) || strings.Contains(string(mod), tree) {
				t.Errorf("go.mod = %s, want %q and not the directory %s", mod, c.want, tree)
			}
			if _, err := os.Stat(filepath.Join(dir, "replaced0", "gatehouse.go")); err != nil {
				t.Errorf("the replacement does not lead to the tree: %v", err)
			}
		})
	}
}
