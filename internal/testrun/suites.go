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
	"strings"
	"sync"
)

// Tests with programs of others, those that look at each page in a browser, and those that the race detector reads take
// long. A suite of them runs in make test if a change touches what it is about, and always in make nightly.
//
// A change of everything touches all suites, and is to be tried in minutes too. So those whose own tests have changed
// run first, then those that most of the changed files are about for what they cost, as long as the budget lasts. The
// others are left to make nightly.
//
// A file of e2e that declares no test concerns all suites of e2e, since all may use it. If the change is not known, as
// in a clone without history, all suites run, whatever they cost. Each run prints which suites run, why, and which do
// not.

type suite struct {
	name  string
	cost  int      // seconds of processor time, that of the browser and of the other programs included
	tests []string // of e2e
	bench []string // tests of the benchmark
	raced []string // patterns of packages whose tests run with the race detector in this suite, and otherwise without
	paths []string // prefixes from the root of the repository, next to those of raced
}

// budget is the most that suites cost in make test, in seconds of processor time, and broadBudget the most for a change
// of nearly everything, for which all other tests run again too. The other tests of e2e cost 130 s.
const budget, broadBudget = 110, 60

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
	{name: "races in stores", cost: 100, raced: []string{"./storage/..."}},
	{
		name: "races in tokens and keys", cost: 90,
		raced: []string{"./authz/token", "./authz/keys", "./authz/dpop", "./authz/apppassword"},
	},
	{
		name: "races in events, queues, caches and limits", cost: 90,
		raced: []string{
			"./internal/audit/...", "./internal/outbox", "./internal/recheck", "./internal/depcache", "./internal/cluster", "./internal/secret/...",
			"./internal/stats", "./internal/periodic", "./internal/breaker", "./internal/ratelimit", "./internal/recentlog", "./idp/ldap",
		},
	},
	{name: "screens of the console in a browser", cost: 90, tests: []string{"TestConsole"}, paths: consolePaths},
	{
		name: "forms and lists of the console in a browser", cost: 30,
		tests: []string{"TestConsoleForms", "TestConsoleRows"}, paths: consolePaths,
	},
	{name: "tasks of administrators in a browser", cost: 60, tests: []string{"TestConsoleJourneys"}, paths: consolePaths},
	{name: "pages of people in a browser, in each state", cost: 70, tests: []string{"TestCrawl"}, paths: pagePaths},
	{
		name: "accounts and pages in each language", cost: 35,
		tests: []string{"TestDashboard", "TestDashboardInEveryLanguage", "TestDashboardAccounts", "TestPagesInEveryLanguage"},
		paths: pagePaths,
	},
	{
		name: "codes by mail and text message", cost: 50,
		tests: []string{"TestMail", "TestSMSStepUp", "TestForgotByText", "TestSeveralAddresses"},
		paths: []string{
			"identity/account/", "identity/challenge/", "identity/mfa/", "identity/notify/", "identity/recovery/", "identity/webflow/",
			"internal/outbox/", "internal/web/",
		},
	},
	{
		name: "sign-in by another device", cost: 50,
		tests: []string{"TestAnotherDevice", "TestQRSignIn", "TestPushStepUp", "TestPIN"},
		paths: []string{"identity/mfa/", "identity/qrlogin/", "identity/challenge/", "identity/webflow/", "authz/device/", "internal/web/"},
	},
	{
		name: "addresses, frames and tabs that a browser keeps", cost: 30,
		tests: []string{"TestFragment", "TestFrames", "TestTabs", "TestKeptForm", "TestDeadEnds"},
		paths: []string{"caddymodule/protect/", "authz/savedforms/", "authz/sitesession/", "identity/webflow/", "internal/web/"},
	},
	{
		name: "sign-up, organisations and access requests", cost: 40,
		tests: []string{"TestSignUp", "TestRegistration", "TestOrganisation", "TestRequestAccess"},
		paths: []string{
			"identity/access/", "identity/activation/", "identity/invitation/", "identity/signup/", "identity/webflow/", "internal/web/",
		},
	},
	{
		name: "guides of operators", cost: 25,
		tests: []string{"TestOperationGuide", "TestPostQuantumGuide", "TestTransactionTokensGuide", "TestPicturesOfConsole"},
		paths: []string{"caddymodule/cli/", "admin/backup/", "authz/transaction/", "internal/jwa/", "docs/operation.md", "docs/post-quantum.md"},
	},
	{
		name: "sessions bound to a device", cost: 10,
		tests: []string{"TestDeviceBoundSessions", "TestDeviceBoundBehindAnotherProxy"},
		paths: []string{"internal/dbsc/", "authz/sitesession/", "identity/session/", "caddymodule/protect/"},
	},
	{
		name: "SAML providers: SimpleSAMLphp and samlp", cost: 25,
		tests: []string{"TestSAML", "TestSAMLGuide", "TestSAMLP", "TestSAMLReplay"},
		paths: []string{
			"caddymodule/provider/", "idp/", "identity/federation/", "identity/keystore/", "internal/jwa/", "internal/outbound/",
			"scripts/simplesamlphp.sh", "docs/saml.md",
		},
	},
	{
		name: "SAML applications: mod_auth_mellon", cost: 15,
		tests: []string{"TestMellon"},
		paths: []string{
			"idp/saml/", "identity/serviceprovider/", "caddymodule/serviceprovider/", "identity/keystore/", "internal/jwa/",
			"docs/saml-service-providers.md",
		},
	},
	{
		name: "OpenID providers: oidc-provider", cost: 20,
		tests: []string{"TestOIDCProvider", "TestOIDCProviderDown"},
		paths: []string{"caddymodule/provider/", "idp/", "identity/federation/", "internal/breaker/", "internal/outbound/", "internal/jwa/"},
	},
	{
		name: "presets of providers", cost: 20,
		tests: []string{"TestPresets"},
		paths: []string{"caddymodule/provider/", "idp/", "identity/federation/", "internal/testidp/", "internal/outbound/", "internal/jwa/"},
	},
	{
		name: "Kerberos: MIT's KDC", cost: 10,
		tests: []string{"TestKerberosGuide", "TestKerberosMethod"},
		paths: []string{"caddymodule/provider/", "idp/", "identity/federation/", "internal/keytab/", "docs/kerberos.md"},
	},
	{
		name: "directories: OpenLDAP", cost: 10,
		tests: []string{"TestLDAPGuide"},
		paths: []string{"caddymodule/provider/", "idp/", "identity/federation/", "docs/ldap.md"},
	},
	{
		name: "gateways: nginx, HAProxy, Envoy, Traefik", cost: 15,
		tests: []string{"TestGateways", "TestDoctorAtNginx"},
		paths: []string{
			"caddymodule/envoyauthz/", "caddymodule/forwardauth/", "caddymodule/protect/", "admin/doctor/", "authz/sitesession/",
			"internal/alias/", "internal/decisionlog/", "docs/gateways.md", "docs/envoy.md",
		},
	},
	{
		name: "MCP: the SDK and the suites of others", cost: 15,
		tests: []string{"TestMCPClients", "TestMCPSuites"},
		paths: []string{"authz/", "admin/mcpcheck/", "caddymodule/mcp/", "caddymodule/protect/", "docs/mcp.md"},
	},
	{
		name: "client libraries and the guides of docs/start", cost: 20,
		tests: []string{
			"TestClientLibraries", "TestGoStart", "TestExpressStart", "TestExpressTokenStart", "TestNextStart", "TestDjangoStart", "TestSpringStart",
			"TestAllauthStart", "TestStartPrograms",
		},
		paths: []string{"authz/", "docs/start/"},
	},
	{
		name: "clusters: PostgreSQL, PgBouncer, HAProxy", cost: 10,
		tests: []string{"TestMakeCluster", "TestClusterGuide"},
		paths: []string{
			"storage/", "caddymodule/postgres/", "internal/cluster/", "internal/recheck/", "scripts/cluster.sh",
			"Caddyfile.example", "docs/cluster.md",
		},
	},
	{name: "rows of the benchmark", cost: 45, bench: []string{"TestEveryRowIsMeasured"}, paths: []string{"bench/"}},
}

// selection is the choice of suites of a run.
type selection struct {
	skipped []string // tests of e2e and of the benchmark
	raced   []string // patterns of packages
}

// unbroken returns the arguments of go test that leave out what the change cannot break in e2e or the benchmark.
func unbroken() ([]string, error) {
	if skipped := selected().skipped; len(skipped) > 0 {
		return []string{"-skip=^(" + strings.Join(skipped, "|") + ")$", "./..."}, nil
	}
	return []string{"./..."}, nil
}

// raced returns the arguments of go test for the tests that the race detector reads.
func raced() ([]string, error) {
	packages := selected().raced
	if len(packages) == 0 {
		return nil, nil
	}
	var tests []string
	for _, names := range withoutRaces {
		tests = append(tests, names...)
	}
	slices.Sort(tests)
	return append([]string{"-skip=^Test(" + strings.Join(tests, "|") + ")$"}, packages...), nil
}

// besideRaces returns those for the tests of the same packages that it does not read.
func besideRaces() (args []string, err error) {
	packages, err := racedPackages()
	if err != nil {
		return nil, err
	}
	var tests []string
	for _, pkg := range packages {
		if names := withoutRaces[short(pkg)]; len(names) > 0 {
			args, tests = append(args, pkg), append(tests, names...)
		}
	}
	if len(tests) == 0 {
		return nil, nil
	}
	return append([]string{"-run=^Test(" + strings.Join(tests, "|") + ")$"}, args...), nil
}

// patient are packages whose tests mostly wait. They come first, while others compute.
var patient = []string{"storage/pgstore", "storage/badgerstore", "caddymodule/postgres", "caddymodule/roles", "idp/oidc", "admin/console"}

// unraced returns the packages none of whose tests the race detector reads.
func unraced() ([]string, error) {
	all, err := packagesOf("./...")
	if err != nil {
		return nil, err
	}
	without, err := racedPackages()
	all = slices.DeleteFunc(all, func(pkg string) bool { return slices.Contains(without, pkg) })
	slices.SortStableFunc(all, func(a, b string) int {
		switch first, second := slices.Contains(patient, short(a)), slices.Contains(patient, short(b)); {
		case first && !second:
			return -1
		case second && !first:
			return 1
		}
		return 0
	})
	return all, err
}

func racedPackages() ([]string, error) {
	if patterns := selected().raced; len(patterns) > 0 {
		return packagesOf(patterns...)
	}
	return nil, nil
}

func packagesOf(patterns ...string) ([]string, error) {
	cmd := exec.Command("go", append([]string{"list"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.Fields(string(out)), err
}

// selected returns the suites that the change of the tree can break, and prints which these are.
var selected = sync.OnceValue(func() (sel selection) {
	files, since, err := changes(".", os.Getenv("GATEHOUSE_BASE"))
	if err != nil {
		since, files = fmt.Sprintf("the change is not known (%v)", err), nil
	}
	declared, problem := declarations(".", files)
	if err == nil {
		err = problem
	}
	var said strings.Builder
	fmt.Fprintf(&said, "suites: %s, %d files\n", since, len(files))
	run, why := chosen(files, declared)
	if err != nil {
		run, why = suites, map[string]string{}
	}
	for _, s := range suites {
		verdict := "runs             "
		if slices.ContainsFunc(run, func(r suite) bool { return r.name == s.name }) {
			sel.raced = append(sel.raced, s.raced...)
		} else {
			verdict = "in nightly alone "
			sel.skipped = slices.Concat(sel.skipped, s.tests, s.bench)
		}
		fmt.Fprintf(&said, "  %s %s%s\n", verdict, s.name, why[s.name])
	}
	fmt.Print(said.String())
	return sel
})

// chosen returns the suites that run for a change of some files, and the reason for each suite.
func chosen(files []string, declared map[string][]string) (run []suite, why map[string]string) {
	type touched struct {
		suite

		own   bool // its tests have changed
		files int  // that changed and are not shared
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
		all = append(all, touched{s, own >= 0, len(slices.DeleteFunc(about, isShared))})
	}
	slices.SortStableFunc(all, func(a, b touched) int {
		switch {
		case a.own && !b.own:
			return -1
		case b.own && !a.own:
			return 1
		}
		return cmp.Compare(b.files*a.cost, a.files*b.cost)
	})
	left, broad := budget, slices.DeleteFunc(slices.Clone(all), func(s touched) bool { return s.files == 0 })
	if len(broad)*10 > len(suites)*9 {
		left = broadBudget
	}
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
		return len(s.tests) > 0
	}
	return isShared(file) || hasPrefix(file, s.prefixes())
}

func isShared(file string) bool { return hasPrefix(file, shared) }

func hasPrefix(file string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(file, prefix) })
}

func (s suite) prefixes() []string {
	list := slices.Clone(s.paths)
	for _, pattern := range s.raced {
		list = append(list, strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/...")+"/")
	}
	return list
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
