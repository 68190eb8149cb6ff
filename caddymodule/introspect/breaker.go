package introspect

import (
	"sync"
	"time"
)

const (
	trips   = 5               // failures in a row before the server counts as down
	downFor = 5 * time.Second // how long it is left alone then
)

// breaker stops questions to a server that does not answer: requests are refused at once instead of waiting.
type breaker struct {
	changed func(open bool)

	mu    sync.Mutex // guards all below
	fails int        // in a row
	until time.Time  // time of the next attempt
}

// allow tells whether to ask. After the pause one asks for all; the others are refused until it has an answer.
func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails < trips {
		return true
	}
	if now.Before(b.until) && b.until.Sub(now) <= downFor { // a clock that was set back opens it
		return false
	}
	b.until = now.Add(downFor)
	return true
}

func (b *breaker) done(now time.Time, answered bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case answered && b.fails >= trips:
		b.changed(false)
		fallthrough
	case answered:
		b.fails = 0
		return
	case b.fails >= trips: // the attempt failed too
		b.until = now.Add(downFor)
		return
	}
	if b.fails++; b.fails == trips {
		b.until = now.Add(downFor)
		b.changed(true)
	}
}

// forget closes the breaker for the metrics: the configuration has gone.
func (b *breaker) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails >= trips {
		b.fails = 0
		b.changed(false)
	}
}
