package main

import (
	"os"
	"path/filepath"
)

// modules are the directories with a go.mod.
var modules = []string{".", "e2e", "faults", "bench", "release"}

// withoutRaces are tests of one goroutine, or of a separate program, that take most of the time of their packages: they
// damage files, count what is read, compute foreign hashes, or run the suite of the engines against another PostgreSQL.
// Where the race detector reads the package, make test runs them without it, and make nightly with it.
var withoutRaces = map[string][]string{
	"storage/badgerstore": {
		"CrashedDirectoryOpens", "HoleInTheLogs", "BitFlips", "TruncatedFiles", "RotationWithoutDescriptors", "LostTail",
		"LogsThatTablesHoldAlready", "LogsWithoutAByte", "Kill",
	},
	"storage/pgstore": {"StoreWithinWhatOthersHave", "StoreBehindAPooler"},
	"internal/audit": {
		"SearchOfManyNodes", "SearchOfAPersonBehindManyOthers", "SearchGoesOn", "SearchByLists", "SealKeepsTimesExactly",
	},
	"internal/secret":          {"ForeignHashes"},
	"internal/secret/argon2id": {"SameAsOfAnotherImplementation"},
	"authz/token":              {"SigningInAgainAndAgainCostsTheSame"},
}

// steps are the steps of the targets of the Makefile.
var steps = []step{
	{"build", []command{
		{dir: ".", env: compile, args: []string{"go", "build", "-o", "bin/gatehouse", "./cmd/gatehouse"}},
		{dir: ".", env: compile, args: []string{"go", "build", "-o", "bin/testidp", "./internal/testidp"}},
	}},
	{"format", []command{{dir: ".", args: []string{".bin/format", "-d"}}}},
	{"lint", each(modules, "go", "vet", "-vettool="+abs(".bin/lint"), "./...")},
	{"rules", []command{test(".", "./internal/archtest", "./internal/build")}},
	{"unit", []command{test(".", "-p=3", "-timeout=25m", "./...")}},
	{"unit-race", []command{
		chosenBy(unraced, test(".", "-p=3", "-timeout=25m")), chosenBy(besideRaces, test(".", "-timeout=15m")),
		chosenBy(raced, test(".", "-race", "-p=3", "-timeout=15m")),
	}},
	{"modules", []command{test("tools", "./..."), test("release", "./...")}},
	{"race-all", []command{test(".", "-race", "-timeout=40m", "./...")}},
	{"supply", []command{test(".", "-count=1", "-tags=nobadger,nomysql,nopgx,supply", "-timeout=20m", "./internal/build")}},
	{"dist", []command{served("release", "-count=1", "-tags=dist", "-timeout=120m", "-run=^Test(SameBytesElsewhere|VerifyCommands|ArchivesRun|Packages|ImageRuns)$", ".")}},
	{"site", []command{{dir: ".", args: []string{"make", "docs"}}, served("e2e", "-count=1", "-tags=site", "-run=^TestSite$", ".")}},
	{"apps", []command{served("e2e", "-count=1", "-tags=apps", "-timeout=40m", "-run=^Test(OAuth2Proxy|Gitea)$", ".")}},
	{"chart", []command{test("packaging/charttest", "./...")}},
	{"e2e", []command{chosenBy(unbroken, served("e2e", "-count=1", "-timeout=40m", "-parallel=6"))}},
	{"e2e-all", []command{served("e2e", "-count=1", "-timeout=40m", "-parallel=6", "./...")}},
	{"faults", []command{served("faults", "-count=1", "-short", "-timeout=25m", "./...")}},
	{"bench", []command{chosenBy(unbroken, served("bench", "-count=1", "-timeout=10m"))}},
	{"bench-all", []command{served("bench", "-count=1", "-timeout=10m", "./...")}},
	{"golangci", each(modules, abs(".bin/golangci-lint"), "run", "--config", abs(".golangci.yml"), "./...")},
}

// compile is the environment of the compiler and the linter, which have no time for collecting garbage that fits into
// memory. Tests inherit the environment of the compiler, and have memory for less.
var (
	compile        = []string{"GOGC=off", "GOMEMLIMIT=1GiB"}
	compileAndTest = []string{"GOGC=400"}
)

// niceness is the niceness of commands that only compute. It is more than the 10 of the threads that hash passwords, so
// sign-ins at the servers of other tests do not wait for the compiler.
const niceness = 19

func names() (list []string) {
	for _, s := range steps {
		list = append(list, s.name)
	}
	return list
}

// test is `go test` without vet, which is part of the step lint.
func test(dir string, args ...string) command {
	return command{dir: dir, env: compileAndTest, args: append([]string{"go", "test", "-vet=off"}, args...), nice: niceness}
}

// served is test for modules whose tests start servers, which must neither inherit the environment of the compiler nor
// wait for it.
func served(dir string, args ...string) command {
	c := test(dir, args...)
	c.env, c.nice = nil, 0
	return c
}

// chosenBy is a command with arguments that depend on the change.
func chosenBy(more func() ([]string, error), c command) command {
	c.more = more
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
