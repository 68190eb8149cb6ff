package shared

import (
	"net/netip"
	"testing"
	"time"
)

func TestBeginPace(t *testing.T) {
	t.Parallel()
	now := time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)
	p := newBeginPace(func() time.Time { return now })
	count := func(address string, size int) (n int) {
		for p.take(netip.MustParseAddr(address), size) {
			n++
		}
		return n
	}
	for _, step := range []struct {
		name, address string
		after         time.Duration
		size, want    int
	}{
		{"a network", "203.0.113.9", 0, 0, beginLimits.Burst},
		{"the same, mapped", "::ffff:203.0.113.9", 0, 1, 0},
		{"its neighbour", "203.0.113.10", 0, 1 << 10, beginLimits.Burst},
		{"a second later", "203.0.113.9", time.Second, 1, beginLimits.PerSecond},
		{"large ones, a second later", "203.0.113.9", time.Second, 20 << 10, beginLimits.PerSecond / 20},
		{"a clock that went back", "203.0.113.9", -time.Hour, 1, 0},
		{"IPv6", "2001:db8:1:2::3", 0, 1, beginLimits.Burst},
		{"another subnet of the same customer", "2001:db8:1:3::4", 0, 1, 0},
		{"another customer", "2001:db8:2::1", 0, 32<<10 - 1, beginLimits.Burst / 32},
	} {
		now = now.Add(step.after)
		if got := count(step.address, step.size); got != step.want {
			t.Errorf("%s: %d were admitted, want %d", step.name, got, step.want)
		}
	}
	if beginLimits.Keys == 0 {
		t.Error("networks are remembered without bound: strangers have as many as they like")
	}
}
