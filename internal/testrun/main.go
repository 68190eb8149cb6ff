// Command testrun runs steps of `make check`, `make test` and `make nightly` and prints what each of them took.
//
//	testrun build,format e2e,lint,bench faults unit-race
//
// The steps of an argument run one after the other. All of the first one must pass before the others begin, which run
// side by side. What starts servers, and waits for them, has the processor before what only computes. Tests are read by
// their JSON events: a test that is skipped fails, and everything that failed is printed at the end once more, with its
// first error, after the ten slowest packages and tests.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: testrun STEP[,STEP…] [STEP[,STEP…]…], the first argument alone, the others side by side; steps:",
			strings.Join(names(), " "))
		os.Exit(2)
	}
	var lanes [][]step
	for _, arg := range os.Args[1:] {
		lanes = append(lanes, find(strings.Split(arg, ",")))
	}
	begun := time.Now()
	r := &report{out: os.Stdout}
	if runAll(r, lanes[0]) {
		var wait sync.WaitGroup
		for _, lane := range lanes[1:] {
			wait.Go(func() { runAll(r, lane) })
		}
		wait.Wait()
	}
	if !r.summary(time.Since(begun)) {
		os.Exit(1)
	}
}

// runAll runs steps one after the other, also after one that fails, and reports whether all have passed.
func runAll(r *report, lane []step) bool {
	ok := true
	for _, s := range lane {
		ok = s.run(r) && ok
	}
	return ok
}

// find returns the steps of these names.
func find(wanted []string) (list []step) {
	for _, name := range wanted {
		i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
		if i < 0 {
			fmt.Fprintf(os.Stderr, "testrun: there is no step %q; the steps are %s\n", name, strings.Join(names(), " "))
			os.Exit(2)
		}
		list = append(list, steps[i])
	}
	return list
}
