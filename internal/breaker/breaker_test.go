package breaker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/breaker"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	var told []bool
	b := breaker.Breaker{Changed: func(open bool) { told = append(told, open) }}
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ask := func(at time.Duration, want bool) {
		t.Helper()
		if got := b.Allow(now.Add(at)); got != want {
			t.Errorf("after %v: Allow = %t, want %t", at, got, want)
		}
	}
	fail := func(at time.Duration, times int) {
		for range times {
			b.Done(now.Add(at), false)
		}
	}
	fail(0, 4)
	ask(0, true)
	b.Done(now, true) // failures count in a row
	fail(0, 4)
	ask(0, true)
	fail(0, 1)
	ask(0, false)
	ask(4*time.Second, false)
	ask(5*time.Second, true) // one for all
	ask(5*time.Second, false)
	fail(6*time.Second, 1)
	ask(10*time.Second, false) // the pause begins again with the failed attempt
	ask(11*time.Second, true)
	b.Done(now.Add(11*time.Second), true)
	ask(11*time.Second, true)
	fail(20*time.Second, 5)
	ask(0, true) // the clock was set back
	b.Forget()
	b.Forget()
	if want := []bool{true, false, true, false}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
