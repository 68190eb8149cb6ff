// Package ratelimit limits how often each caller, such as an API client or a network, can do something. Each has a
// bucket of its own that refills with time, so one caller slows down no other. Its callers answer refusals, with
// RetryAfter.
package ratelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits are the bounds of one key and of the table of keys.
type Limits struct {
	PerSecond int // how fast a bucket fills
	Burst     int // how much it holds
	Keys      int // how many keys are remembered at once; 0: all, for keys that cannot be made up
}

// Limiter counts per key. The zero value is not usable.
type Limiter[K comparable] struct {
	limits Limits

	mu      sync.Mutex // guards buckets
	buckets map[K]*rate.Limiter
}

// New returns a Limiter in which every bucket is full.
func New[K comparable](l Limits) *Limiter[K] {
	return &Limiter[K]{limits: l, buckets: map[K]*rate.Limiter{}}
}

// Allow counts one more for a key. false: its bucket is empty.
func (l *Limiter[K]) Allow(key K, now time.Time) bool { return l.AllowN(key, now, 1) }

// AllowN counts n more for a key. false: its bucket holds fewer, and nothing is counted.
func (l *Limiter[K]) AllowN(key K, now time.Time, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key]
	if b == nil {
		l.makeRoom(now)
		b = rate.NewLimiter(rate.Limit(l.limits.PerSecond), l.limits.Burst)
		l.buckets[key] = b
	}
	return b.AllowN(now, n)
}

// makeRoom forgets the keys whose buckets are full again when there are too many, or all keys when none is full. mu is
// held.
func (l *Limiter[K]) makeRoom(now time.Time) {
	if l.limits.Keys == 0 || len(l.buckets) < l.limits.Keys {
		return
	}
	for key, b := range l.buckets {
		if b.TokensAt(now) >= float64(l.limits.Burst) {
			delete(l.buckets, key)
		}
	}
	if len(l.buckets) >= l.limits.Keys {
		clear(l.buckets)
	}
}
