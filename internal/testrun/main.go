// Command testrun runs steps of `make check`, `make test` and `make nightly` and prints what each of them took.
//
//	testrun build,format e2e unit-race faults lint bench
//
// The steps of the first argument run one after the other, and all must pass before the others begin. Of those, two
// run side by side: whichever ends first makes room for the next. What starts servers, and waits for them, has the
// processor before what only computes. Tests are read by their JSON events: a test that is skipped fails, and
// everything that failed stands at the end once more, with its first error, after the ten slowest packages and tests.
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
		fmt.Fprintln(os.Stderr, "usage: testrun STEP[,STEP…] [STEP…], the first ones alone, the others two at a time; steps:",
			strings.Join(names(), " "))
		os.Exit(2)
	}
	first, others := find(strings.Split(os.Args[1], ",")), find(os.Args[2:])
	begun := time.Now()
	r := &report{out: os.Stdout}
	ok := true
	for _, s := range first {
		ok = s.run(r) && ok
	}
	if ok {
		queue := make(chan step, len(others))
		for _, s := range others {
			queue <- s
		}
		close(queue)
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				for s := range queue {
					s.run(r)
				}
			})
		}
		wait.Wait()
	}
	if !r.summary(time.Since(begun)) {
		os.Exit(1)
	}
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
