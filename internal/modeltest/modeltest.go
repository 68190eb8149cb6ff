// Package modeltest says how often tests repeat what they do at random. A change is tested with a part of it, and the
// whole is for each night.
package modeltest

import (
	"flag"
	"os"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// Variable is the environment variable for the number of runs of each model. Default: 25, with the race detector 10.
const Variable = "GATEHOUSE_MODELS"

// checks is the flag of rapid for the number of runs. It applies to the whole process.
const checks = "rapid.checks"

var setUp sync.Once

// Check is rapid.Check for a model. The flag -rapid.checks has no effect on it.
func Check(t *testing.T, model func(*rapid.T)) {
	t.Helper()
	n, err := strconv.Atoi(runs(os.Getenv(Variable)))
	if err != nil || n < 1 {
		t.Fatalf("%s=%q, want a number of runs", Variable, os.Getenv(Variable))
	}
	setUp.Do(func() { err = flag.Set(checks, strconv.Itoa(n)) })
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, model)
}

func runs(asked string) string {
	switch {
	case asked != "":
		return asked
	case race:
		return "10"
	}
	return "25"
}

// Rounds returns full if Variable is set, as `make nightly` does, and few otherwise.
func Rounds(few, full int) int {
	if os.Getenv(Variable) != "" {
		return full
	}
	return few
}
