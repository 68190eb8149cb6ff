package main

import (
	"os"
	"path/filepath"
)

// modules are the directories with a go.mod.
var modules = []string{".", "e2e", "faults", "bench", "release"}

// raced are the packages that `make test` runs with the race detector: their goroutines share memory, and they do not
// need Caddy, whose compilation for the detector takes minutes. `make nightly` runs all packages with it.
var raced = []string{
	"./storage/...", "./internal/audit/...", "./internal/outbox", "./internal/recheck", "./internal/depcache",
	"./internal/cluster", "./internal/secret/...",
	"./internal/stats", "./internal/periodic", "./internal/breaker", "./internal/ratelimit", "./internal/recentlog",
	"./authz/token", "./authz/keys", "./authz/dpop", "./authz/apppassword", "./idp/ldap",
}

// withoutRaces matches tests of one goroutine, or of a separate program, that take most of the time of these packages:
// they damage files, count what is read, compute foreign hashes, or run the suite of the engines against another
// PostgreSQL. `make test` runs them without the race detector, and `make nightly` with it.
const withoutRaces = "^Test(SearchOfManyNodes|SearchOfAPersonBehindManyOthers|SearchGoesOn|SearchByLists|SealKeepsTimesExactly|" +
	"CrashedDirectoryOpens|HoleInTheLogs|BitFlips|TruncatedFiles|RotationWithoutDescriptors|LostTail|LogsThatTablesHoldAlready|LogsWithoutAByte|" +
	"Kill|StoreWithinWhatOthersHave|StoreBehindAPooler|SameAsOfAnotherImplementation|SigningInAgainAndAgainCostsTheSame|" +
	"ForeignHashes|HostileUsernamesAtOpenLDAP)$"

// steps are the steps of the targets of the Makefile.
var steps = []step{
	{"build", []command{
		{dir: ".", env: compile, args: []string{"go", "build", "-o", "bin/gatehouse", "./cmd/gatehouse"}},
		{dir: ".", env: compile, args: []string{"go", "build", "-o", "bin/testidp", "./internal/testidp"}},
	}},
	{"format", []command{{dir: ".", args: []string{".bin/format", "-d"}}}},
	{"lint", each(modules, "go", "vet", "-vettool="+abs(".bin/lint"), "./...")},
	{"rules", []command{test(".", "./internal/archtest", "./internal/build")}},
	{"unit", []command{test(".", "-timeout=25m", "./..."), test("tools", "./..."), test("release", "./...")}},
	{"unit-race", []command{
		test(".", "-timeout=25m", unraced), test(".", append([]string{"-timeout=15m", "-run=" + withoutRaces}, raced...)...),
		test(".", append([]string{"-race", "-timeout=15m", "-skip=" + withoutRaces}, raced...)...),
		test("tools", "./..."), test("release", "./..."),
	}},
	{"race-all", []command{test(".", "-race", "-timeout=40m", "./...")}},
	{"supply", []command{test(".", "-count=1", "-tags=nobadger,nomysql,nopgx,supply", "-timeout=20m", "./internal/build")}},
	{"dist", []command{served("release", "-count=1", "-tags=dist", "-timeout=120m", "-run=^Test(SameBytesElsewhere|VerifyCommands|ArchivesRun|Packages|ImageRuns)$", ".")}},
	{"site", []command{{dir: ".", args: []string{"make", "docs"}}, served("e2e", "-count=1", "-tags=site", "-run=^TestSite$", ".")}},
	{"apps", []command{served("e2e", "-count=1", "-tags=apps", "-timeout=40m", "-run=^Test(OAuth2Proxy|Gitea)$", ".")}},
	{"chart", []command{test("packaging/charttest", "./...")}},
	{"e2e", []command{served("e2e", "-count=1", "-timeout=40m", "-parallel=6", unbroken, "./...")}},
	{"e2e-all", []command{served("e2e", "-count=1", "-timeout=40m", "-parallel=6", "./...")}},
	{"faults", []command{served("faults", "-count=1", "-short", "-timeout=25m", "./...")}},
	{"bench", []command{served("bench", "-count=1", "-timeout=10m", "./...")}},
	{"golangci", each(modules, abs(".bin/golangci-lint"), "run", "--config", abs(".golangci.yml"), "./...")},
}

// compile is the environment of the compiler: a fifth of its time goes into collecting garbage that fits into memory.
var compile = []string{"GOGC=400"}

// niceness is the niceness of commands that only compute.
const niceness = 10

func names() (list []string) {
	for _, s := range steps {
		list = append(list, s.name)
	}
	return list
}

// test is `go test` without vet, which is part of the step lint.
func test(dir string, args ...string) command {
	return command{dir: dir, env: compile, args: append([]string{"go", "test", "-vet=off"}, args...), nice: niceness}
}

// served is test for modules whose tests start servers, which must neither inherit the environment of the compiler nor
// wait for it.
func served(dir string, args ...string) command {
	c := test(dir, args...)
	c.env, c.nice = nil, 0
	return c
}

func each(dirs []string, args ...string) (list []command) {
	for _, dir := range dirs {
		list = append(list, command{dir: dir, env: compile, args: args, nice: niceness})
	}
	return list
}

func abs(name string) string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return filepath.Join(dir, name)
}
