package shared

import "testing"

func TestCollectorPercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live uint64 // MiB
		want int
	}{{0, 700}, {8, 700}, {16, 300}, {32, 100}, {40, 60}, {50, 40}, {64, 40}, {1000, 40}} {
		if got := collectorPercent(c.live << 20); got != c.want {
			t.Errorf("collectorPercent(%d MiB) = %d, want %d", c.live, got, c.want)
		}
	}
}
