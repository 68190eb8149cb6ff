// Package newest holds what the newest of several configurations wants, for what outlives each of them.
package newest

import "sync"

// Of has the values of configurations that overlap, as they do in a reload. The zero value has none. It is safe for
// concurrent use.
type Of[T any] struct {
	mu   sync.Mutex
	list []*entry[T] // the oldest first
}

type entry[T any] struct {
	value    T
	released bool
}

// Use puts a value into effect until it is released or a newer one is there. After a release the value before it
// applies again, as when a new configuration fails to start. The very last one stays: it serves what is still to be
// written when everything closes.
func (o *Of[T]) Use(value T) (release func()) {
	mine := &entry[T]{value: value}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, mine)
	o.tidy()
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		mine.released = true
		o.tidy()
	}
}

// tidy removes what is released, except for the newest if nothing else is left.
func (o *Of[T]) tidy() {
	var used []*entry[T]
	for _, e := range o.list {
		if !e.released {
			used = append(used, e)
		}
	}
	if len(used) == 0 {
		used = o.list[len(o.list)-1:]
	}
	o.list = used
}

// Load returns the value in effect, which is the zero value before the first Use.
func (o *Of[T]) Load() (value T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) > 0 {
		value = o.list[len(o.list)-1].value
	}
	return value
}
