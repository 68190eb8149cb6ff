package storage

import (
	"context"
	"slices"
	"sync"
)

type trailKey struct{}

// maxTrail bounds the keys of a Trail.
const maxTrail = 16

// Trail is which keys the Views of a request have read. What a View has looked at an Update often decides about, so an
// engine for which each read is a round trip reads it along with what the Update asks for first. It is keys and no
// values: what counts is what the Update reads.
type Trail struct {
	mu   sync.Mutex // guards keys
	keys [][]byte
}

// WithTrail returns a context whose transactions share a Trail.
func WithTrail(ctx context.Context) context.Context {
	return context.WithValue(ctx, trailKey{}, new(Trail))
}

// TrailOf returns the Trail of a context, or nil, which remembers nothing.
func TrailOf(ctx context.Context) *Trail {
	t, _ := ctx.Value(trailKey{}).(*Trail)
	return t
}

// Note adds keys. Those that are too many it forgets.
func (t *Trail) Note(keys ...[]byte) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		same := func(o []byte) bool { return string(o) == string(k) }
		if len(t.keys) < maxTrail && !slices.ContainsFunc(t.keys, same) {
			t.keys = append(t.keys, slices.Clone(k))
		}
	}
}

// Keys returns the keys, which must not be changed.
func (t *Trail) Keys() [][]byte {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clip(t.keys)
}
