//go:build supply

package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// binary builds a custom Caddy in a temporary module that requires ours, as xcaddy does. It builds once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(tempDir, "caddy")
	return bin, build(filepath.Join(root, "xcaddy.json"), bin, "", "")
})

var tempDir string

func TestMain(m *testing.M) {
	var err error
	if tempDir, err = os.MkdirTemp("", "gatehouse-build-test-"); err != nil {
		panic(err)
	}
	status := m.Run()
	if status == 0 {
		if err := writeStamp(); err != nil {
			panic(err)
		}
	}
	os.RemoveAll(tempDir)
	os.Exit(status)
}

// writeStamp notes that the tests have passed for these dependencies.
func writeStamp() error {
	sum, err := stamp()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, stampFile), []byte(sum), 0o644)
}

func built(t *testing.T) string {
	t.Helper()
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
	out, err = exec.CommandContext(t.Context(), built(t), "gatehouse", "version", "--json").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"gatehouse":"`+newest(t)+`"`) {
		t.Errorf("gatehouse version = %s, %v, want the version in xcaddy.json", out, err)
	}
}

// The supply chain: the modules of the binary are compared with what was decided. The tests read the binary that users
// get.

// vulnerabilities is the database that govulncheck asks.
const vulnerabilities = "vuln.go.dev:443"

// waived lists findings in code that is never called here, each with its reason. (id -> reason)
var waived = map[string]string{}

// atLeast lists the first versions without a known weakness. A module that is not linked needs no such version.
var atLeast = map[string]string{
	"github.com/russellhaering/goxmldsig": "v1.6.1", // signature bypass and quadratic memory before
	"github.com/beevik/etree":             "v1.8.1", // deep nesting
	"github.com/jackc/pgx/v5":             "v5.9.2",
}

const goAtLeast = "go1.26.6"

// numbersOf returns the numeric parts of a version, for comparison.
func numbersOf(version string) (out []int) {
	for _, s := range regexp.MustCompile(`\d+`).FindAllString(strings.SplitN(version, "-", 2)[0], -1) {
		n, err := strconv.Atoi(s)
		if err == nil {
			out = append(out, n)
		}
	}
	return out
}

func older(a, b string) bool { return slices.Compare(numbersOf(a), numbersOf(b)) < 0 }

func TestSupplyChain(t *testing.T) {
	t.Parallel()
	t.Run("attack 291: versions with known weaknesses", func(t *testing.T) {
		t.Parallel()
		info, err := buildinfo.ReadFile(built(t))
		if err != nil {
			t.Fatal(err)
		}
		if older(info.GoVersion, goAtLeast) {
			t.Errorf("built by %s, want at least %s", info.GoVersion, goAtLeast)
		}
		for _, d := range info.Deps {
			if least := atLeast[d.Path]; least != "" && older(d.Version, least) {
				t.Errorf("%s is linked at %s, want at least %s", d.Path, d.Version, least)
			}
		}
		checkVulnerabilities(t, built(t))
	})
	t.Run("attack 292: modules that are not what they were, replaced or not checked", func(t *testing.T) {
		t.Parallel()
		goCommand(t, nil, "mod", "verify")
		goCommand(t, nil, "list", "-mod=readonly", "./...")
		var mod struct {
			Replace []any
			Exclude []any
		}
		if err := json.Unmarshal(goCommand(t, nil, "mod", "edit", "-json"), &mod); err != nil {
			t.Fatal(err)
		}
		if len(mod.Replace)+len(mod.Exclude) > 0 {
			t.Errorf("go.mod replaces %v and excludes %v, want neither", mod.Replace, mod.Exclude)
		}
		var env map[string]string
		if err := json.Unmarshal(goCommand(t, nil, "env", "-json", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOINSECURE"), &env); err != nil {
			t.Fatal(err)
		}
		for name, v := range env {
			if name == "GOSUMDB" && (v == "" || v == "off") || name != "GOSUMDB" && v != "" {
				t.Errorf("%s=%q: sums of modules are not checked", name, v)
			}
		}
		for _, name := range []string{"Makefile", "scripts/install.sh", "xcaddy.json"} {
			for _, word := range []string{"GOSUMDB", "GONOSUMDB", "GONOSUMCHECK", "GOPRIVATE", "GOINSECURE", "-insecure", "GOFLAGS=-mod"} {
				if strings.Contains(text(t, name), word) {
					t.Errorf("%s sets %s", name, word)
				}
			}
		}
	})
	t.Run("attack 294: a bill of materials that leaves something out", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "bom.json")
		if err := writeBOM(built(t), file); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b bom
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&b); err != nil {
			t.Fatal(err)
		}
		got, refs := []string{}, map[string]bool{}
		for _, c := range b.Components {
			if c.Name != "stdlib" {
				got = append(got, c.Name+" "+c.Version)
			}
			if c.Version == "" || c.Type != "library" || refs[c.Ref] || !strings.HasPrefix(c.PURL, "pkg:golang/") {
				t.Errorf("component %+v is incomplete or there twice", c)
			}
			refs[c.Ref] = true
		}
		var want []string
		for line := range strings.Lines(string(goCommand(t, nil, "version", "-m", built(t)))) {
			if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" {
				want = append(want, f[1]+" "+f[2])
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if len(want) < 50 || !slices.Equal(got, want) {
			t.Errorf("the bill has %d modules, the binary %d", len(got), len(want))
		}
		if b.Format != "CycloneDX" || !strings.HasPrefix(b.SerialNumber, "urn:uuid:") || b.Components[0].Version < "go1" {
			t.Errorf("head of the bill: %s %s %s", b.Format, b.SerialNumber, b.Components[0].Version)
		}
		if bytes.Contains(raw, []byte(root)) || bytes.Contains(raw, []byte(os.TempDir())) {
			t.Error("the bill names directories of this machine")
		}
	})
	t.Run("attack 296: modules and storage libraries that nobody expects", testModules)
	t.Run("attack 298: crypto libraries written for loops of an older language", testLanguage)
	t.Run("attack 299: data races", func(t *testing.T) {
		t.Parallel()
		if makefile := text(t, "Makefile"); !strings.Contains(makefile, " race-all ") || !strings.Contains(makefile, " unit-race ") {
			t.Error("make nightly does not run everything under the race detector, or make test not what shares memory")
		}
		if !strings.Contains(text(t, ".ci/run"), "make test") {
			t.Error(".ci/run does not run make test, which runs make check")
		}
	})
}

// ourModules are the Caddy modules that this tree adds to the standard ones.
var ourModules = []string{
	"admin.api.gatehouse", "caddy.listeners.gatehouse", "gatehouse", "gatehouse.idp.apple", "gatehouse.idp.azure_ad_b2c",
	"gatehouse.idp.discord", "gatehouse.idp.facebook", "gatehouse.idp.github", "gatehouse.idp.google", "gatehouse.idp.header",
	"gatehouse.idp.itsme", "gatehouse.idp.kerberos", "gatehouse.idp.ldap", "gatehouse.idp.linkedin", "gatehouse.idp.microsoft",
	"gatehouse.idp.oauth2", "gatehouse.idp.oidc", "gatehouse.idp.saml", "gatehouse.idp.twitter", "gatehouse.mail.smtp",
	"gatehouse.push.webhook", "gatehouse.sms.webhook", "gatehouse.storage.badger", "gatehouse.storage.postgres", "gatehouse_visitor",
	"http.handlers.gatehouse", "http.handlers.protect",
}

func testModules(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), built(t), "list-modules", "--skip-standard").CombinedOutput()
	if err != nil {
		t.Fatalf("list-modules: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.Contains(line, "modules:") && !slices.Contains(ourModules, line) {
			t.Errorf("module %s is in the binary: name it here if it is wanted", line)
		}
	}
	info, err := buildinfo.ReadFile(built(t))
	if err != nil {
		t.Fatal(err)
	}
	// Badger and pgx are ours. Caddy's acme_server brings bbolt along; the build tags leave its other engines out.
	engines := regexp.MustCompile(`badger|bolt|sqlite|mysql|pgx|pebble|leveldb|lib/pq|rocksdb|boltdb-go|redis`)
	for _, d := range info.Deps {
		if engines.MatchString(d.Path) &&
			!slices.Contains([]string{"github.com/dgraph-io/badger/v4", "github.com/jackc/pgx/v5", "go.etcd.io/bbolt"}, d.Path) {
			t.Errorf("storage library %s %s is linked", d.Path, d.Version)
		}
	}
}

// cryptoPath lists path prefixes of the modules that sign, verify or decide which key to trust.
var cryptoPath = []string{
	"github.com/russellhaering/", "github.com/beevik/etree", "github.com/crewjam/saml", "github.com/go-jose/", "github.com/coreos/go-oidc",
	"golang.org/x/crypto", "golang.org/x/oauth2", "golang.org/x/net", "github.com/caddyserver/", "github.com/go-webauthn/",
	"github.com/fxamacker/cbor", "github.com/jonboulle/clockwork",
}

// readLoops lists modules written for an older Go in which the compiler reports loops that keep the address of their
// variable. Each has the result of reading those loops.
var readLoops = map[string]string{
	"github.com/go-jose/go-jose/v3": "linked by Caddy's acme_server alone; its three loops use the address within the round",
}

// testLanguage: before Go 1.22 a loop had one variable for all its rounds, which has let signatures of other elements
// pass.
func testLanguage(t *testing.T) {
	t.Parallel()
	if cfg := text(t, ".golangci.yml"); !strings.Contains(cfg, "- copyloopvar") || !strings.Contains(cfg, "- govet") {
		t.Error("the linter does not look at loop variables")
	}
	if !strings.Contains(text(t, "tools/lint/analyzers.go"), "loopclosure.Analyzer") {
		t.Error("make check does not look at loop variables")
	}
	info, err := buildinfo.ReadFile(built(t))
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, d := range info.Deps {
		if d.Replace == nil && slices.ContainsFunc(cryptoPath, func(p string) bool { return strings.HasPrefix(d.Path, p) }) {
			args = append(args, d.Path+"@"+d.Version)
		}
	}
	if len(args) < 5 {
		t.Fatalf("only %d modules of cryptoPath found: the list is stale", len(args))
	}
	out := goCommand(t, nil, append([]string{"list", "-m", "-f", "{{.Path}} {{.GoVersion}}"}, args...)...)
	for line := range strings.Lines(string(out)) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if version != "" && !older(version, "1.22") || readLoops[path] != "" {
			continue
		}
		// The compiler reports the loops that would behave differently in the newer language.
		cmd := exec.CommandContext(t.Context(), "go", "build", "-gcflags="+path+"/...=-d=loopvar=2", path+"/...")
		cmd.Dir = root
		report, err := cmd.CombinedOutput()
		if err != nil || bytes.Contains(report, []byte("per-iteration")) {
			t.Errorf("%s is written for go %s: read these loops and add the result to readLoops, or use a newer version (%v)\n%s",
				path, version, err, report)
		}
	}
}

// goCommand runs the go command at the root of the tree and returns its output.
func goCommand(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return out
}

// checkVulnerabilities looks the binary up in the Go vulnerability database. When the database cannot be reached, the
// test log says so.
func checkVulnerabilities(t *testing.T, bin string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", vulnerabilities, 3*time.Second)
	if err != nil {
		t.Logf("NOT CHECKED against the vulnerability database: %v", err)
		return
	}
	conn.Close()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "govulncheck", "-mode=binary", "-format=json", bin)
	cmd.Dir = filepath.Join(root, "tools")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("govulncheck: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(out))
	for d.More() {
		var message struct {
			Finding *struct {
				OSV          string
				FixedVersion string `json:"fixed_version"`
				Trace        []struct{ Module, Version, Function string }
			}
		}
		if err := d.Decode(&message); err != nil {
			t.Fatal(err)
		}
		if f := message.Finding; f != nil && waived[f.OSV] == "" && len(f.Trace) > 0 {
			t.Errorf("%s: %s %s %s, fixed in %s", f.OSV, f.Trace[0].Module, f.Trace[0].Version, f.Trace[0].Function, f.FixedVersion)
		}
	}
}
