// Package breaker is a circuit breaker: while a server does not answer, callers get an error at once, and the server is
// left alone for a moment.
package breaker

import (
	"sync"
	"time"
)

const (
	trips   = 5               // failures in a row before the server counts as down
	downFor = 5 * time.Second // how long it is left alone then
)

// Breaker counts the failures of one server. The zero value is ready. It is safe for concurrent use.
type Breaker struct {
	// Changed, if not nil, is called when the breaker opens or closes, one call at a time. It must not call the breaker.
	Changed func(open bool)

	mu    sync.Mutex // guards all below
	fails int        // in a row
	until time.Time  // time of the next attempt
}

// Allow reports whether to ask. After the pause one asks for all; the others are refused until it has an answer.
func (b *Breaker) Allow(now time.Time) bool {
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

// Done says how a request has ended.
func (b *Breaker) Done(now time.Time, answered bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case answered:
		b.close()
		return
	case b.fails < trips:
		if b.fails++; b.fails < trips {
			return
		}
		b.changed(true)
	}
	b.until = now.Add(downFor) // also when the attempt after a pause has failed
}

// Forget closes the breaker: no one will ask again.
func (b *Breaker) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.close()
}

func (b *Breaker) close() {
	open := b.fails >= trips
	b.fails = 0
	if open {
		b.changed(false)
	}
}

func (b *Breaker) changed(open bool) {
	if b.Changed != nil {
		b.Changed(open)
	}
}
