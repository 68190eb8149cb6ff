package ratelimit

import (
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	const burst, perSecond, keys = 400, 40, 1000
	now := time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)
	l := New[int](Limits{PerSecond: perSecond, Burst: burst, Keys: keys})
	count := func(key int) (n int) {
		for l.Allow(key, now) {
			n++
		}
		return n
	}
	for _, step := range []struct {
		name  string
		key   int
		after time.Duration
		want  int
	}{
		{"a key", 1, 0, burst},
		{"the same at once", 1, 0, 0},
		{"another", 2, 0, burst},
		{"a second later", 1, time.Second, perSecond},
		{"a clock that went back", 1, -time.Hour, 0},
		{"a day later", 1, 24 * time.Hour, burst},
	} {
		now = now.Add(step.after)
		if got := count(step.key); got != step.want {
			t.Errorf("%s: %d were allowed, want %d", step.name, got, step.want)
		}
	}
	for key := range 3 * keys {
		l.Allow(key, now)
	}
	if n := len(l.buckets); n > keys {
		t.Errorf("%d keys are remembered, want at most %d", n, keys)
	}
}

func TestLimiterKeepsEmptyBuckets(t *testing.T) {
	t.Parallel()
	now := time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)
	l := New[string](Limits{PerSecond: 1, Burst: 1, Keys: 2})
	l.Allow("full again", now.Add(-time.Hour))
	l.Allow("empty", now)
	l.Allow("new", now)
	if l.Allow("empty", now) {
		t.Error("room was made by forgetting a key whose bucket is empty, although another was full")
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]int{0: 1, time.Nanosecond: 1, time.Second: 1, time.Second + 1: 2, time.Minute: 60} {
		w := httptest.NewRecorder()
		if got := RetryAfter(w, wait); got != want || w.Header().Get("Retry-After") != strconv.Itoa(want) {
			t.Errorf("RetryAfter(%v) = %d, header %q, want %d", wait, got, w.Header().Get("Retry-After"), want)
		}
	}
}
