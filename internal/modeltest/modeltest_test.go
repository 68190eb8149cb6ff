package modeltest

import (
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

func TestCheck(t *testing.T) {
	t.Setenv(Variable, "3")
	var ran atomic.Int64
	Check(t, func(*rapid.T) { ran.Add(1) })
	if got := ran.Load(); got != 3 {
		t.Errorf("Check with %s=3 ran the model %d times, want 3", Variable, got)
	}
}

func TestRounds(t *testing.T) {
	for asked, want := range map[string]int{"": 3, "100": 30} {
		t.Setenv(Variable, asked)
		if got := Rounds(3, 30); got != want {
			t.Errorf("Rounds with %s=%s = %d, want %d", Variable, asked, got, want)
		}
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	usual := "25"
	if race {
		usual = "10"
	}
	for asked, want := range map[string]string{"": usual, "7": "7"} {
		if got := runs(asked); got != want {
			t.Errorf("runs(%q) = %s, want %s", asked, got, want)
		}
	}
}
