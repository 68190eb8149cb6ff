package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// standIn makes all results of a version from programs that are made up.
func standIn(t *testing.T, version string) *release {
	t.Helper()
	return standInOf(t, "..", version)
}

// standInOf is standIn for a tree.
func standInOf(t *testing.T, root, version string) *release {
	t.Helper()
	r := &release{
		root: root, out: filepath.Join(t.TempDir(), "dist"), version: version,
		commit: strings.Repeat("a", 40), time: time.Unix(1_800_000_000, 0).UTC(),
		targets: []string{"linux/amd64", "linux/arm64", "windows/amd64"},
	}
	if here := runtime.GOOS + "/" + runtime.GOARCH; !slices.Contains(r.targets, here) {
		r.targets = append(r.targets, here)
	}
	if err := r.check(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	var binaries []binary
	for _, target := range r.targets {
		binaries = append(binaries, binary{target: target, path: write(strings.ReplaceAll(target, "/", "_"), "program for "+target+version)})
	}
	docs := append(r.texts(), file{name: "man/caddy-run.8", path: write("caddy-run.8", ".TH Caddy 8\n")})
	for shell := range shells {
		docs = append(docs, file{name: "completions/caddy." + shell, path: write("caddy."+shell, shell)})
	}
	slices.SortFunc(docs, func(a, b file) int { return strings.Compare(a.name, b.name) })
	if err := r.assemble(binaries, docs, testKey(t)); err != nil {
		t.Fatal(err)
	}
	return r
}

// testKey reads a key of this test, without a password: scrypt takes seconds.
func testKey(t *testing.T) signer {
	t.Helper()
	sign, err := readKey(filepath.Join("testdata", "minisign.key"), "")
	if err != nil {
		t.Fatal(err)
	}
	return sign
}

// TestSameBytes makes a release twice, the second time of a tree that was checked out elsewhere, at another time.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	for _, dir := range []string{"packaging", "docs/grafana", "docs/prometheus"} {
		if err := os.CopyFS(filepath.Join(tree, dir), os.DirFS("../"+dir)); err != nil {
			t.Fatal(err)
		}
	}
	for _, source := range []string{"../go.sum", "../release/go.sum", "../CHANGELOG.md", "../LICENSE", "../README.md"} {
		raw, err := os.ReadFile(source)
		copied, long := filepath.Join(tree, strings.TrimPrefix(source, "../")), time.Unix(1_500_000_000, 0)
		made := os.MkdirAll(filepath.Dir(copied), 0o700)
		if err := errors.Join(err, made, os.WriteFile(copied, raw, 0o600), os.Chtimes(copied, long, long)); err != nil {
			t.Fatal(err)
		}
	}
	first, second := standIn(t, "v1.2.3"), standInOf(t, tree, "v1.2.3")
	a, err := first.results()
	b, err2 := second.results()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, f := range a {
		names = append(names, f.name)
		// a signature has a random part in neither of its forms: it is the same, too
		if i >= len(b) || b[i] != f {
			t.Errorf("%s differs between two runs", f.name)
		}
	}
	for _, want := range []string{
		"SHA256SUMS", "SHA256SUMS.minisig", "gatehouse_1.2.3.intoto.json", "gatehouse_1.2.3_deployment.tar.gz", "gatehouse_1.2.3_linux_amd64.apk", "gatehouse_1.2.3_linux_amd64.deb",
		"gatehouse_1.2.3_linux_amd64.rpm", "gatehouse_1.2.3_linux_amd64.tar.gz", "gatehouse_1.2.3_linux_arm64.apk",
		"gatehouse_1.2.3_linux_arm64.deb", "gatehouse_1.2.3_linux_arm64.rpm", "gatehouse_1.2.3_linux_arm64.tar.gz",
		"gatehouse_1.2.3_oci.tar", "gatehouse_1.2.3_windows_amd64.zip",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("results = %v, which lack %s", names, want)
		}
	}
	if here, err := os.Hostname(); err == nil && len(here) > 5 {
		for _, f := range a {
			if raw, err := os.ReadFile(first.path(f.name)); err != nil || strings.Contains(string(raw), here) {
				t.Errorf("%s names this machine (%v)", f.name, err)
			}
		}
	}
}

// TestDeployment: the chart and the Compose files of a release have what they refer to.
func TestDeployment(t *testing.T) {
	t.Parallel()
	r := standIn(t, "v1.2.3")
	out, err := exec.CommandContext(t.Context(), "tar", "-tzf", r.path("gatehouse_1.2.3_deployment.tar.gz")).Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(strings.ReplaceAll(string(out), "gatehouse_1.2.3_deployment/", ""))
	for _, want := range []string{
		"chart/Chart.yaml", "chart/values.yaml", "chart/templates/NOTES.txt", "compose.yaml", "compose.caddyfile",
		"compose.postgres.yaml", "compose.postgres.caddyfile", "compose.application.yaml", "compose.application.caddyfile",
		"grafana/gatehouse.json", "prometheus/alerts.yml",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("the archive has %v, which lack %s", names, want)
		}
	}
	if i := slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, "test") }); i >= 0 {
		t.Errorf("the archive has the test %s", names[i])
	}
}

// TestChecksums follows docs/versions.md: sha256sum finds a changed file, and the signature a changed list.
func TestChecksums(t *testing.T) {
	t.Parallel()
	r := standIn(t, "v1.2.3")
	sha256sum := func() error {
		cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", sumsFile)
		cmd.Dir = r.out
		return cmd.Run()
	}
	if err := sha256sum(); err != nil {
		t.Errorf("sha256sum --check of a release: %v", err)
	}
	key, err := minisign.PublicKeyFromFile(filepath.Join("testdata", "minisign.pub"))
	sums, err2 := os.ReadFile(r.path(sumsFile))
	signature, err3 := os.ReadFile(r.path(sumsFile + ".minisig"))
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	if !minisign.Verify(key, sums, signature) {
		t.Error("the signature of a release is refused")
	}
	if !strings.Contains(string(signature), "trusted comment: gatehouse v1.2.3, commit "+r.commit) {
		t.Errorf("the signature does not name version and commit:\n%s", signature)
	}
	if minisign.Verify(key, append(sums, '\n'), signature) {
		t.Error("the signature of another list is accepted")
	}
	if err := os.WriteFile(r.path("gatehouse_1.2.3_linux_amd64.deb"), []byte("another package"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sha256sum(); err == nil {
		t.Error("sha256sum --check accepts another package")
	}
}

// TestProvenance: the statement is about every artefact, with its checksum, and names the commit.
func TestProvenance(t *testing.T) {
	t.Parallel()
	r := standIn(t, "v1.2.3")
	raw, err := os.ReadFile(r.path("gatehouse_1.2.3.intoto.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s statement
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	about := map[string]string{}
	for _, f := range s.Subject {
		about[f.Name] = f.Digest["sha256"]
	}
	results, err := r.results()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range results {
		if !strings.HasPrefix(f.name, sumsFile) && !strings.HasSuffix(f.name, ".intoto.json") && about[f.name] != f.sum {
			t.Errorf("subject %s = %q, want %s", f.name, about[f.name], f.sum)
		}
	}
	if d := s.Predicate.BuildDefinition.ResolvedDependencies; d[0].Digest["gitCommit"] != r.commit || len(d) != 3 {
		t.Errorf("dependencies = %v, want the commit and two go.sum", d)
	}
}

// TestArchives: each archive has the program, the licence, manual pages and completions in one directory.
func TestArchives(t *testing.T) {
	t.Parallel()
	r := standIn(t, "v1.2.3")
	unpacked := map[string]map[string]string{}
	f, err := os.Open(r.path("gatehouse_1.2.3_linux_amd64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	unpacked["tar"] = readTar(t, z)
	archive, err := zip.OpenReader(r.path("gatehouse_1.2.3_windows_amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	unpacked["zip"] = map[string]string{}
	for _, f := range archive.File {
		unpacked["zip"][f.Name] = f.Mode().String()
	}
	for format, want := range map[string]map[string]string{
		"tar": {"caddy": "-rwxr-xr-x", "LICENSE": "-rw-r--r--", "man/caddy-run.8": "-rw-r--r--", "completions/caddy.fish": "-rw-r--r--"},
		"zip": {"caddy.exe": "-rwxr-xr-x", "LICENSE": "-rw-r--r--", "completions/caddy.powershell": "-rw-r--r--"},
	} {
		base := map[string]string{"tar": "gatehouse_1.2.3_linux_amd64/", "zip": "gatehouse_1.2.3_windows_amd64/"}[format]
		for name, mode := range want {
			if got := unpacked[format][base+name]; got != mode {
				t.Errorf("%s: mode of %s = %q, want %s", format, name, got, mode)
			}
		}
	}
}

// readTar returns the mode of each file.
func readTar(t *testing.T, from io.Reader) map[string]string {
	t.Helper()
	modes := map[string]string{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return modes
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[h.Name] = h.FileInfo().Mode().String()
	}
}

// TestDebianPackage reads the package with dpkg: owners and modes, the Caddyfile as a file that upgrades keep, and no
// file of the data.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	r := standIn(t, "v1.2.3-rc.1")
	deb := r.path("gatehouse_1.2.3-rc.1_linux_amd64.deb")
	list := dpkg(t, "--contents", deb)
	for _, want := range []string{
		`-rwxr-xr-x root/root +\d+ .* \./usr/bin/caddy\n`, `-rw-r----- root/caddy +\d+ .* \./etc/caddy/Caddyfile\n`,
		`drwxr-x--- root/caddy +0 .* \./etc/caddy/\n`, `-rw-r--r-- root/root +\d+ .* \./usr/lib/systemd/system/caddy.service\n`,
		`\./usr/share/man/man8/caddy-run.8\n`, `\./usr/share/bash-completion/completions/caddy\n`,
	} {
		if !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("dpkg-deb --contents lacks %s:\n%s", want, list)
		}
	}
	if strings.Contains(list, "/var/lib/gatehouse") {
		t.Errorf("the package owns the data, which its removal would delete:\n%s", list)
	}
	control := t.TempDir()
	dpkg(t, "--control", deb, control)
	for name, want := range map[string]string{
		"conffiles": "/etc/caddy/Caddyfile\n", "control": "Version: 1.2.3~rc.1-1\n", "preinst": "useradd --system", "prerm": "disable --now",
	} {
		if got, err := os.ReadFile(filepath.Join(control, name)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s = %q, %v, want %q", name, got, err, want)
		}
	}
}

// TestPreRemove: scripts of a package stop the service at a removal, and not at an upgrade.
func TestPreRemove(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arg   string
		stops bool
	}{
		"dpkg upgrades": {"upgrade", false}, "rpm upgrades": {"1", false}, "dpkg removes": {"remove", true}, "rpm removes": {"0", true},
		"apk removes": {"1.2.3", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile("../packaging/preremove.sh")
			if err != nil {
				t.Fatal(err)
			}
			// a machine whose systemd runs, and says what it is asked
			text := strings.Replace(string(script), "/run/systemd/system", "/", 1)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", "systemctl() { echo \"$@\"; }\n"+text, "prerm", c.arg)
			out, err := cmd.CombinedOutput()
			if got := string(out) == "disable --now caddy.service\n"; err != nil || got != c.stops {
				t.Errorf("prerm %s: %q, %v, want a stop: %t", c.arg, out, err, c.stops)
			}
		})
	}
}

func dpkg(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "dpkg-deb", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("dpkg-deb %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestImage: the layout is valid, has an image for each Linux platform, and runs as a user that is not root.
func TestImage(t *testing.T) {
	t.Parallel()
	r := standIn(t, "v1.2.3")
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", r.path("gatehouse_1.2.3_oci.tar"), "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := outer.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("the layout = %+v, %v, want one index", top, err)
	}
	index, err := outer.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the index is invalid: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		c := config.Config
		if c.User != "65532:65532" || c.Labels["org.opencontainers.image.revision"] != r.commit || len(c.Healthcheck.Test) == 0 ||
			config.Architecture != m.Platform.Architecture {
			t.Errorf("%s: config = %+v", m.Platform, config)
		}
		files := map[string]string{}
		var certificates int
		for tr := tar.NewReader(mutate.Extract(img)); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(tr)
			if err != nil {
				t.Fatal(err)
			}
			files[strings.TrimSuffix(h.Name, "/")] = fmt.Sprintf("%s %d", h.FileInfo().Mode(), h.Uid)
			switch h.Name {
			case "usr/bin/caddy":
				if want := "program for " + m.Platform.String() + "v1.2.3"; string(raw) != want {
					t.Errorf("the program = %q, want %q", raw, want)
				}
			case "etc/ssl/certs/ca-certificates.crt":
				for b, rest := pem.Decode(raw); b != nil; b, rest = pem.Decode(rest) {
					certificates++
				}
			}
		}
		want := map[string]string{
			"usr/bin/caddy": "-rwxr-xr-x 0", "data": "drwxrwxrwx 65532", "tmp": "dtrwxrwxrwx 0", "etc/caddy": "drwxr-xr-x 0",
			"etc/passwd": "-rw-r--r-- 0", "etc/ssl/certs/ca-certificates.crt": "-rw-r--r-- 0",
		}
		if !maps.Equal(files, want) || certificates < 100 {
			t.Errorf("%s: files = %v with %d authorities, want %v with more than 100", m.Platform, files, certificates, want)
		}
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms = %v, want %v", platforms, want)
	}
}

// TestUnit measures the unit file as systemd does: 0 is shut off, 10 is open.
func TestUnit(t *testing.T) {
	t.Parallel()
	args := []string{"security", "--offline=true", "--threshold=20", "../packaging/caddy.service"}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v, want at most 2.0\n%s", err, out)
	}
}

// TestUnitReloadsFiles: the units of the package and of the guide reload with --force. Otherwise Caddy skips a
// Caddyfile that is as before, and a key file that was replaced is not read.
func TestUnitReloadsFiles(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../packaging/caddy.service", "../docs/operation.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^ExecReload=\S+ reload .*--force$`).Match(text) {
			t.Errorf("the unit of %s reloads without --force", file)
		}
	}
}

// TestRefusedReleases: what could not become a release is refused before anything is built.
func TestRefusedReleases(t *testing.T) {
	t.Parallel()
	here := runtime.GOOS + "/" + runtime.GOARCH
	for name, c := range map[string]struct {
		version, want string
		targets       []string
		full          bool
	}{
		"no version":               {"", "is not a semantic version", []string{here}, false},
		"a version without v":      {"1.2.3", "is not a semantic version", []string{here}, false},
		"a version with a path":    {"v1.2.3-../x", "is not a semantic version", []string{here}, false},
		"an unknown platform":      {"v1.2.3", "is unknown or there twice", []string{here, "plan9/amd64"}, false},
		"a platform twice":         {"v1.2.3", "is unknown or there twice", []string{here, here}, false},
		"none for this machine":    {"v1.2.3", "lacks " + here, []string{"windows/arm64"}, false},
		"files of another release": {"v1.2.3", "is not empty", []string{here}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &release{root: "..", out: t.TempDir(), version: c.version, targets: c.targets}
			if c.full {
				if err := os.WriteFile(r.path("gatehouse_1.2.2_linux_amd64.deb"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("check() = %v, want %q", err, c.want)
			}
		})
	}
}

// TestKeyWithPassword reads a key as minisign -G writes it.
func TestKeyWithPassword(t *testing.T) {
	t.Parallel()
	name := filepath.Join("testdata", "minisign-password.key")
	if _, err := readKey(name, ""); err == nil || !strings.Contains(err.Error(), "MINISIGN_PASSWORD") {
		t.Errorf("readKey() without a password = %v, want an error that names MINISIGN_PASSWORD", err)
	}
	sign, err := readKey(name, "only for tests")
	if err != nil {
		t.Fatal(err)
	}
	key, err := minisign.PublicKeyFromFile(filepath.Join("testdata", "minisign.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if !minisign.Verify(key, []byte("list"), sign([]byte("list"), "comment")) {
		t.Error("the signature of a key with a password is refused")
	}
}
