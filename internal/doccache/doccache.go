// Package doccache keeps documents whose addresses strangers name. Each is fetched by one caller at a time, a few are
// at once, and a few in a minute for each caller, so no one can make us call others at will.
package doccache

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"
)

const (
	failureKept = 30 * time.Second
	perMinute   = 10      // fetches that one caller can cause
	maxCallers  = 1 << 14 // that are counted
	atOnce      = 16      // fetches at a time
)

// ErrBusy says that a document is not fetched, since too many are.
var ErrBusy = errors.New("too many documents are fetched")

// Cache has documents by what they are called. It is safe for concurrent use.
type Cache[T any] struct {
	most int
	now  func() time.Time

	mu      sync.Mutex // guards all below; it is not held while a document is fetched
	known   map[string]*entry[T]
	failed  map[string]failure
	running map[string]chan struct{} // closed when the fetch is done
	minute  time.Time
	callers map[string]int // fetches of this minute
}

type entry[T any] struct {
	value       T
	until, used time.Time
}

type failure struct {
	err   error
	until time.Time
}

// New returns a cache of so many documents. The one that no one has used for longest gives way to another.
func New[T any](most int, now func() time.Time) *Cache[T] {
	return &Cache[T]{
		most: most, now: now, known: map[string]*entry[T]{}, failed: map[string]failure{}, running: map[string]chan struct{}{},
		callers: map[string]int{},
	}
}

// Find returns a document. It is fetched for a caller when it is not known, or past the time until which it was to be
// good. With an error, the value is the last one that was fetched, or the zero value.
func (c *Cache[T]) Find(
	ctx context.Context, name, caller string, fetch func(context.Context) (value T, until time.Time, err error),
) (value T, err error) {
	for {
		c.mu.Lock()
		now := c.now()
		if have := c.known[name]; have != nil {
			if value = have.value; have.until.After(now) {
				have.used = now
				c.mu.Unlock()
				return value, nil
			}
		}
		if f, bad := c.failed[name]; bad && f.until.After(now) {
			c.mu.Unlock()
			return value, f.err
		}
		if busy := c.running[name]; busy != nil {
			c.mu.Unlock()
			select {
			case <-busy:
				continue
			case <-ctx.Done():
				return value, ctx.Err()
			}
		}
		if !c.admit(caller, now) {
			c.mu.Unlock()
			return value, ErrBusy
		}
		done := make(chan struct{})
		c.running[name] = done
		c.mu.Unlock()
		fetched, until, err := fetch(context.WithoutCancel(ctx))
		c.mu.Lock()
		delete(c.running, name)
		if c.keep(name, fetched, until, err); err == nil {
			value = fetched
		}
		c.mu.Unlock()
		close(done)
		return value, err
	}
}

// admit counts one more fetch that a caller causes. mu is held.
func (c *Cache[T]) admit(caller string, now time.Time) bool {
	if minute := now.Truncate(time.Minute); !minute.Equal(c.minute) || len(c.callers) >= maxCallers {
		c.minute = minute
		clear(c.callers)
	}
	if c.callers[caller] >= perMinute || len(c.running) >= atOnce {
		return false
	}
	c.callers[caller]++
	return true
}

// keep remembers a document, or for a short time the failure. mu is held.
func (c *Cache[T]) keep(name string, value T, until time.Time, err error) {
	now := c.now()
	if err != nil {
		if len(c.failed) >= c.most {
			clear(c.failed)
		}
		c.failed[name] = failure{err, now.Add(failureKept)}
		return
	}
	delete(c.failed, name)
	if c.known[name] == nil && len(c.known) >= c.most {
		oldest := ""
		for other, k := range c.known {
			if oldest == "" || k.used.Before(c.known[oldest].used) {
				oldest = other
			}
		}
		delete(c.known, oldest)
	}
	c.known[name] = &entry[T]{value, until, now}
}

// Known returns a document that is remembered, however old it is.
func (c *Cache[T]) Known(name string) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.known[name]
	if have == nil {
		return value, false
	}
	have.used = c.now()
	return have.value, true
}

// All yields what is remembered. The cache must not be used meanwhile.
func (c *Cache[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, k := range c.known {
			if !yield(k.value) {
				return
			}
		}
	}
}
