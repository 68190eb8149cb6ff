// Command suites prints a pattern for go test -skip with the end-to-end tests that need not run for a change.
//
// Tests with programs of others, and those that look at each page in a browser, take long. A suite of them runs if a
// change touches what it is about, and always in make nightly:
//
//	go test -skip="$(go run ./suites)" .
//
// A change of everything touches all suites, and is to be tried in minutes too. So those whose own tests have changed
// run first, then those that most of the changed files are about, as long as the budget lasts. The others are left to
// make nightly.
//
// A change is what is not committed and the commits since the branch left main. On main it is the commits of the last
// 24 hours, and at least the last ten. The variable GATEHOUSE_BASE names another commit to compare with. A file of e2e
// that declares no test concerns all suites, since all may use it. If the change is not known, as in a clone without
// history, all suites run, whatever they cost. Standard error says which suites run, why, and which do not.
package main

import (
	"cmp"
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
	cost  int // seconds of processor time, that of the browser and of the other programs included
	tests []string
	paths []string // prefixes, from the root of the repository
}

// budget is the most that suites cost in make test, in seconds of processor time. The other tests cost 300 s.
const budget = 120

// shared are the prefixes that concern every suite.
var shared = []string{"Makefile", "go.mod", "go.sum", "xcaddy.json", "gatehouse.go", "cmd/", "scripts/install.sh", "caddymodule/shared/"}

// consolePaths concern what the console shows, and pagePaths the pages of people.
var (
	consolePaths = []string{
		"admin/", "identity/settings/", "internal/web/", "internal/denial/", "caddymodule/console.go", "caddymodule/inventory/",
		"docs/console.md",
	}
	pagePaths = []string{"authz/", "identity/", "internal/web/"}
)

var suites = []suite{
	{"screens of the console in a browser", 90, []string{"TestConsole"}, consolePaths},
	{"forms and lists of the console in a browser", 30, []string{"TestConsoleForms", "TestConsoleRows"}, consolePaths},
	{"tasks of administrators in a browser", 60, []string{"TestConsoleJourneys"}, consolePaths},
	{"pages of people in a browser, in each state", 70, []string{"TestCrawl"}, pagePaths},
	{
		"accounts and pages in each language", 35,
		[]string{"TestDashboard", "TestDashboardInEveryLanguage", "TestDashboardAccounts", "TestPagesInEveryLanguage"},
		pagePaths,
	},
	{
		"SAML providers: SimpleSAMLphp and samlp", 25,
		[]string{"TestSAML", "TestSAMLGuide", "TestSAMLP", "TestSAMLReplay"},
		[]string{
			"caddymodule/provider/", "idp/", "identity/federation/", "identity/keystore/", "internal/jwa/", "internal/outbound/",
			"scripts/simplesamlphp.sh", "docs/saml.md",
		},
	},
	{
		"SAML applications: mod_auth_mellon", 15,
		[]string{"TestMellon"},
		[]string{
			"idp/saml/", "identity/serviceprovider/", "caddymodule/serviceprovider/", "identity/keystore/", "internal/jwa/",
			"docs/saml-service-providers.md",
		},
	},
	{
		"OpenID providers: oidc-provider", 20,
		[]string{"TestOIDCProvider", "TestOIDCProviderDown"},
		[]string{"caddymodule/provider/", "idp/", "identity/federation/", "internal/breaker/", "internal/outbound/", "internal/jwa/"},
	},
	{
		"presets of providers", 20,
		[]string{"TestPresets"},
		[]string{"caddymodule/provider/", "idp/", "identity/federation/", "internal/testidp/", "internal/outbound/", "internal/jwa/"},
	},
	{
		"Kerberos: MIT's KDC", 10,
		[]string{"TestKerberosGuide", "TestKerberosMethod"},
		[]string{"caddymodule/provider/", "idp/", "identity/federation/", "internal/keytab/", "docs/kerberos.md"},
	},
	{
		"directories: OpenLDAP", 10,
		[]string{"TestLDAPGuide"},
		[]string{"caddymodule/provider/", "idp/", "identity/federation/", "docs/ldap.md"},
	},
	{
		"gateways: nginx, HAProxy, Envoy, Traefik", 15,
		[]string{"TestGateways", "TestDoctorAtNginx"},
		[]string{
			"caddymodule/envoyauthz/", "caddymodule/forwardauth/", "caddymodule/protect/", "admin/doctor/", "authz/sitesession/",
			"internal/alias/", "internal/decisionlog/", "docs/gateways.md", "docs/envoy.md",
		},
	},
	{
		"MCP: the SDK and the suites of others", 15,
		[]string{"TestMCPClients", "TestMCPSuites"},
		[]string{"authz/", "admin/mcpcheck/", "caddymodule/mcp/", "caddymodule/protect/", "docs/mcp.md"},
	},
	{
		"client libraries and the guides of docs/start", 20,
		[]string{
			"TestClientLibraries", "TestGoStart", "TestExpressStart", "TestExpressTokenStart", "TestNextStart", "TestDjangoStart", "TestSpringStart",
			"TestAllauthStart", "TestStartPrograms",
		},
		[]string{"authz/", "docs/start/"},
	},
	{
		"clusters: PostgreSQL, PgBouncer, HAProxy", 10,
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
	run, why := chosen(files, declared)
	if err != nil {
		run, why = suites, map[string]string{}
	}
	var left []string
	for _, s := range suites {
		verdict := "runs             "
		if !slices.ContainsFunc(run, func(r suite) bool { return r.name == s.name }) {
			verdict = "in nightly alone "
			left = append(left, s.tests...)
		}
		fmt.Fprintf(os.Stderr, "  %s %s%s\n", verdict, s.name, why[s.name])
	}
	if len(left) > 0 {
		fmt.Printf("^(%s)$\n", strings.Join(left, "|"))
	}
}

// chosen returns the suites that run for a change of some files, and the reason for each suite.
func chosen(files []string, declared map[string][]string) (run []suite, why map[string]string) {
	type touched struct {
		suite

		own   bool // its tests have changed
		files int
	}
	var all []touched
	why = map[string]string{}
	for _, s := range suites {
		about := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return !s.concerns(file, declared) })
		if len(about) == 0 {
			continue
		}
		own := slices.IndexFunc(about, func(file string) bool { return len(declared[file]) > 0 })
		why[s.name] = fmt.Sprintf(": %s", about[max(own, 0)])
		if more := len(about) - 1; more > 0 {
			why[s.name] += fmt.Sprintf(" and %d more", more)
		}
		all = append(all, touched{s, own >= 0, len(about)})
	}
	slices.SortStableFunc(all, func(a, b touched) int {
		switch {
		case a.own && !b.own:
			return -1
		case b.own && !a.own:
			return 1
		}
		return cmp.Compare(b.files, a.files)
	})
	left := budget
	for _, s := range all {
		if s.cost > left {
			why[s.name] += fmt.Sprintf(" (costs %d s, and %d are left)", s.cost, left)
			continue
		}
		left -= s.cost
		run = append(run, s.suite)
	}
	return run, why
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
