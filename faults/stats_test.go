package faults

import (
	"testing"
	"time"
)

func TestAUC(t *testing.T) {
	t.Parallel()
	low := []time.Duration{1, 2, 3, 4}
	for _, c := range []struct {
		name string
		a, b []time.Duration
		want float64
	}{
		{"the same", low, low, 0.5},
		{"apart", low, []time.Duration{5, 6, 7}, 1},
		{"apart the other way", []time.Duration{5, 6, 7}, low, 1},
		{"half", []time.Duration{1, 4}, []time.Duration{2, 3}, 0.5},
	} {
		if got := AUC(c.a, c.b); got != c.want {
			t.Errorf("%s: AUC = %v, want %v", c.name, got, c.want)
		}
	}
}
