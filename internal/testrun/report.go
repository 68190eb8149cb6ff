package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// report collects what the steps say. Several lanes write to it at the same time.
type report struct {
	mu       sync.Mutex // guards all below
	out      io.Writer
	steps    []took
	packages []took
	tests    []took
	failures []string
	passed   int
	failed   int
}

type took struct {
	name      string
	wall, cpu time.Duration
}

func (r *report) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

func (r *report) step(name string, wall, cpu time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, took{name, wall, cpu})
	verdict := "done"
	if !ok {
		verdict = "FAILED"
	}
	fmt.Fprintf(r.out, "%s: %s after %s, processor %s\n", name, verdict, wall.Round(time.Second), cpu.Round(time.Second))
}

// fail notes what has failed, and its first error.
func (r *report) fail(what, output string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
	r.failures = append(r.failures, what+"\n"+firstError(output))
}

func (r *report) test(step, pkg, name string, seconds float64, passed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if passed {
		r.passed++
	}
	if !strings.Contains(name, "/") { // subtests are part of theirs
		r.tests = append(r.tests, took{name: step + ": " + pkg + " " + name, wall: duration(seconds)})
	}
}

func (r *report) pkg(step, name string, seconds float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.packages = append(r.packages, took{name: step + ": " + name, wall: duration(seconds)})
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// summary prints the tables and what has failed, and reports whether nothing has.
func (r *report) summary(wall time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slowest("packages", r.packages)
	r.slowest("tests", r.tests)
	fmt.Fprintf(r.out, "\n%-12s %8s %10s\n", "step", "wall", "processor")
	var cpu time.Duration
	for _, s := range r.steps {
		cpu += s.cpu
		fmt.Fprintf(r.out, "%-12s %8s %10s\n", s.name, s.wall.Round(time.Second), s.cpu.Round(time.Second))
	}
	fmt.Fprintf(r.out, "%-12s %8s %10s\n", "all", wall.Round(time.Second), cpu.Round(time.Second))
	if len(r.failures) > 0 {
		fmt.Fprintf(r.out, "\nWhat failed:\n\n%s\n", strings.Join(r.failures, "\n"))
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed\n", r.passed, r.failed)
	return len(r.failures) == 0
}

func (r *report) slowest(what string, list []took) {
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b took) int { return cmp.Compare(b.wall, a.wall) })
	fmt.Fprintf(r.out, "\nthe slowest %s\n", what)
	for _, t := range list[:min(10, len(list))] {
		fmt.Fprintf(r.out, "%7.1fs  %s\n", t.wall.Seconds(), t.name)
	}
}

// errorLine is a line in which a test, the compiler or the runtime says what is wrong.
var errorLine = regexp.MustCompile(`^\s+[\w.-]+\.go:\d+: |^[\w./-]+\.go:\d+(:\d+)?: |^panic: |^WARNING: DATA RACE|^fatal error: |^FAIL\s`)

// firstError returns the lines of an output that begin at its first error, or its last lines if it has none.
func firstError(output string) string {
	const most = 12
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	from := slices.IndexFunc(lines, errorLine.MatchString)
	if from < 0 {
		from = max(0, len(lines)-most)
	}
	var b strings.Builder
	for _, line := range lines[from:min(len(lines), from+most)] {
		if len(line) > 400 {
			line = line[:400] + "…"
		}
		b.WriteString("    " + line + "\n")
	}
	return b.String()
}
