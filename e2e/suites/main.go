// Command suites prints a pattern for go test -skip with the end-to-end tests that need not run for a change.
//
// Tests with programs of others, and those that look at each page in a browser, take long. Each suite of them runs if a
// change touches what it is about, and always in make nightly:
//
//	go test -skip="$(go run ./suites)" .
//
// A change is what is not committed and the commits since the branch left main. On main it is the commits of the last
// 24 hours, and at least the last ten. The variable GATEHOUSE_BASE names another commit to compare with. If the change
// is not known, as in a clone without history, all suites run. So they do if a file of e2e has changed that declares no
// test, since all may use it. Standard error says which suites run, why, and which do not.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// suite is a set of tests that a change of certain files can break.
type suite struct {
	name  string
	tests []string
	paths []string // prefixes, from the root of the repository
}

// shared are the prefixes that concern every suite.
var shared = []string{"Makefile", "go.mod", "go.sum", "xcaddy.json", "gatehouse.go", "cmd/", "scripts/install.sh", "caddymodule/shared/"}

var suites = []suite{
	{
		"screens of the console in a browser",
		[]string{"TestConsole", "TestConsoleForms", "TestConsoleRows", "TestConsoleJourneys"},
		[]string{
			"admin/", "identity/settings/", "internal/web/", "internal/denial/", "caddymodule/console.go", "caddymodule/inventory/",
			"docs/console.md",
		},
	},
	{
		"pages of people in a browser, in each state and language",
		[]string{"TestCrawl", "TestDashboard", "TestDashboardInEveryLanguage", "TestDashboardAccounts", "TestPagesInEveryLanguage"},
		[]string{"authz/", "identity/", "internal/web/"},
	},
	{
		"SAML providers: SimpleSAMLphp and samlp",
		[]string{"TestSAML", "TestSAMLGuide", "TestSAMLP", "TestSAMLReplay"},
		[]string{
			"caddymodule/provider/", "idp/", "identity/federation/", "identity/keystore/", "internal/jwa/", "internal/outbound/",
			"scripts/simplesamlphp.sh", "docs/saml.md",
		},
	},
	{
		"SAML applications: mod_auth_mellon",
		[]string{"TestMellon"},
		[]string{
			"idp/saml/", "identity/serviceprovider/", "caddymodule/serviceprovider/", "identity/keystore/", "internal/jwa/",
			"docs/saml-service-providers.md",
		},
	},
	{
		"OpenID providers: oidc-provider",
		[]string{"TestOIDCProvider", "TestOIDCProviderDown"},
		[]string{"caddymodule/provider/", "idp/", "identity/federation/", "internal/breaker/", "internal/outbound/", "internal/jwa/"},
	},
	{
		"presets of providers",
		[]string{"TestPresets"},
		[]string{"caddymodule/provider/", "idp/", "identity/federation/", "internal/testidp/", "internal/outbound/", "internal/jwa/"},
	},
	{
		"Kerberos: MIT's KDC",
		[]string{"TestKerberosGuide", "TestKerberosMethod"},
		[]string{"caddymodule/provider/", "idp/", "identity/federation/", "internal/keytab/", "docs/kerberos.md"},
	},
	{
		"directories: OpenLDAP",
		[]string{"TestLDAPGuide"},
		[]string{"caddymodule/provider/", "idp/", "identity/federation/", "docs/ldap.md"},
	},
	{
		"gateways: nginx, HAProxy, Envoy, Traefik",
		[]string{"TestGateways", "TestDoctorAtNginx"},
		[]string{
			"caddymodule/envoyauthz/", "caddymodule/forwardauth/", "caddymodule/protect/", "admin/doctor/", "authz/sitesession/",
			"internal/alias/", "internal/decisionlog/", "docs/gateways.md", "docs/envoy.md",
		},
	},
	{
		"MCP: the SDK and the suites of others",
		[]string{"TestMCPClients", "TestMCPSuites"},
		[]string{"authz/", "admin/mcpcheck/", "caddymodule/mcp/", "caddymodule/protect/", "docs/mcp.md"},
	},
	{
		"client libraries and the guides of docs/start",
		[]string{
			"TestClientLibraries", "TestGoStart", "TestExpressStart", "TestExpressTokenStart", "TestNextStart", "TestDjangoStart", "TestSpringStart",
			"TestAllauthStart", "TestStartPrograms",
		},
		[]string{"authz/", "docs/start/"},
	},
	{
		"clusters: PostgreSQL, PgBouncer, HAProxy",
		[]string{"TestMakeCluster", "TestClusterGuide"},
		[]string{
			"storage/", "caddymodule/postgres/", "internal/cluster/", "internal/recheck/", "scripts/cluster.sh",
			"Caddyfile.example", "docs/cluster.md",
		},
	},
}

func main() {
	files, since, err := changes("..", os.Getenv("GATEHOUSE_BASE"))
	if err != nil {
		since, files = fmt.Sprintf("the change is not known (%v)", err), nil
	}
	declared, problem := declarations("..", files)
	if err == nil {
		err = problem
	}
	fmt.Fprintf(os.Stderr, "suites: %s, %d files\n", since, len(files))
	var left []string
	for _, s := range suites {
		switch file := s.touched(files, declared); {
		case err != nil:
			fmt.Fprintf(os.Stderr, "  runs              %s\n", s.name)
		case file != "":
			fmt.Fprintf(os.Stderr, "  runs              %s: %s changed\n", s.name, file)
		default:
			fmt.Fprintf(os.Stderr, "  in nightly alone  %s\n", s.name)
			left = append(left, s.tests...)
		}
	}
	if len(left) > 0 {
		fmt.Printf("^(%s)$\n", strings.Join(left, "|"))
	}
}

// touched returns the first of the changed files that concerns the suite, or "".
func (s suite) touched(files []string, declared map[string][]string) string {
	for _, file := range files {
		if s.concerns(file, declared) {
			return file
		}
	}
	return ""
}

func (s suite) concerns(file string, declared map[string][]string) bool {
	if tests := declared[file]; len(tests) > 0 {
		return slices.ContainsFunc(tests, func(name string) bool { return slices.Contains(s.tests, name) })
	}
	if strings.HasPrefix(file, "e2e/") {
		return !strings.HasPrefix(file, "e2e/suites/")
	}
	return slices.ContainsFunc(slices.Concat(shared, s.paths), func(prefix string) bool { return strings.HasPrefix(file, prefix) })
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t `)

// declarations returns the tests of each of these files of e2e that declares some.
func declarations(root string, files []string) (map[string][]string, error) {
	declared := map[string][]string{}
	for _, file := range files {
		if path.Dir(file) != "e2e" || !strings.HasSuffix(file, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(root, file))
		if errors.Is(err, os.ErrNotExist) {
			continue // what used it has changed too
		}
		if err != nil {
			return nil, err
		}
		for _, m := range testFunction.FindAllSubmatch(raw, -1) {
			declared[file] = append(declared[file], string(m[1]))
		}
	}
	return declared, nil
}

// leastCommits is the minimum number of commits of main that are looked at.
const leastCommits = 10

// changes returns the files of the change in a work tree, and where the change begins.
func changes(dir, base string) (files []string, since string, err error) {
	shallow, err := git(dir, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return nil, "", err
	}
	if shallow != "false" {
		return nil, "", errors.New("a clone without history")
	}
	commits, since := []string{base + "..HEAD"}, "the commits since "+base
	if base == "" {
		if commits, since, err = recent(dir); err != nil {
			return nil, "", err
		}
	}
	named, err := git(dir, slices.Concat([]string{"log", "--name-only", "--no-renames", "--diff-merges=first-parent", "--format="},
		commits)...)
	if err != nil {
		return nil, "", err
	}
	status, err := git(dir, "status", "--porcelain", "--no-renames", "--untracked-files=all")
	if err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(status) {
		named += "\n" + strings.TrimSpace(line[min(2, len(line)):])
	}
	files = strings.Fields(named)
	slices.Sort(files)
	return slices.Compact(files), since, nil
}

// recent returns the arguments of git log for the commits of the change.
func recent(dir string) (args []string, since string, err error) {
	for _, main := range []string{"origin/main", "main"} {
		at, err := git(dir, "merge-base", "HEAD", main)
		if err != nil {
			continue // there is no such branch
		}
		if head, err := git(dir, "rev-parse", "HEAD"); err == nil && at != head {
			return []string{at + "..HEAD"}, "the commits since " + main, nil
		}
	}
	count, err := git(dir, "rev-list", "--count", "--since=24.hours", "HEAD")
	if err != nil {
		return nil, "", err
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return nil, "", err
	}
	n = max(n, leastCommits)
	return []string{"-n", strconv.Itoa(n)}, fmt.Sprintf("the last %d commits", n), nil
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "core.quotepath=off"}, args...)...)
	cmd.Dir = filepath.Clean(dir)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}
