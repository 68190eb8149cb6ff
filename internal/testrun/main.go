// Command testrun runs steps of `make check`, `make test` and `make nightly` and prints what each of them took. Steps
// are given in lanes: lanes run side by side, the steps of a lane one after the other.
//
//	testrun build lint,unit,race e2e,faults
//
// The first lane ends before the others begin. Tests are read by
// their JSON events: a test that is skipped fails, and everything that failed stands at the end once more, with its
// first error, behind the ten slowest packages and tests.
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
		fmt.Fprintln(os.Stderr, "usage: testrun STEP[,STEP…]…, the first lane alone, the others side by side; steps:", strings.Join(names(), " "))
		os.Exit(2)
	}
	var lanes [][]step
	for _, arg := range os.Args[1:] {
		var lane []step
		for name := range strings.SplitSeq(arg, ",") {
			i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
			if i < 0 {
				fmt.Fprintf(os.Stderr, "testrun: there is no step %q; the steps are %s\n", name, strings.Join(names(), " "))
				os.Exit(2)
			}
			lane = append(lane, steps[i])
		}
		lanes = append(lanes, lane)
	}
	begun := time.Now()
	r := &report{out: os.Stdout}
	if run(r, lanes[0]) {
		var wait sync.WaitGroup
		for _, lane := range lanes[1:] {
			wait.Go(func() { run(r, lane) })
		}
		wait.Wait()
	}
	if !r.summary(time.Since(begun)) {
		os.Exit(1)
	}
}

// run runs the steps of a lane, all of them even if one fails, and reports whether all went well.
func run(r *report, lane []step) bool {
	ok := true
	for _, s := range lane {
		ok = s.run(r) && ok
	}
	return ok
}
