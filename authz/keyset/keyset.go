// Package keyset caches the public keys that other parties publish, and decides when they are fetched again.
package keyset

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	fresh = 15 * time.Minute // how long fetched keys are used without looking again
	retry = time.Minute      // the shortest time between two fetches
	stale = 24 * time.Hour   // how long they are used while nothing can be fetched
)

// Set is the keys at one address. The zero value has fetched none. It is safe for concurrent use.
type Set struct {
	mu      sync.Mutex // guards all below; it is not held while keys are fetched
	keys    []jose.JSONWebKey
	fetched time.Time // when it worked last
	tried   time.Time
	err     error         // of the last try
	busy    chan struct{} // closed when the current fetch is done; nil: no fetch runs
}

// Fetch reads the keys from where they are published. Its context does not end with the request that needs them.
type Fetch func(context.Context) ([]jose.JSONWebKey, error)

// Named returns the predicate of Find for a key id. Empty: any key.
func Named(kid string) func(jose.JSONWebKey) bool {
	return func(key jose.JSONWebKey) bool { return kid == "" || key.KeyID == kid }
}

// Find returns the keys, or the error of the last fetch. They are fetched when they are old or none of them is wanted,
// and at most once a minute, so strangers cannot make us call their owner at will.
func (s *Set) Find(ctx context.Context, now time.Time, wanted func(jose.JSONWebKey) bool, fetch Fetch) ([]jose.JSONWebKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := slices.ContainsFunc(s.keys, wanted); !known || now.Sub(s.fetched) >= fresh {
		s.refresh(ctx, now, !known, fetch)
	}
	if len(s.keys) > 0 && now.Sub(s.fetched) < stale {
		return s.keys, nil
	}
	return nil, s.err
}

// refresh fetches the keys, once at a time. A caller waits for a running fetch only when its key is missing, so a
// stranger who names an unknown key and a slow owner block no one else. mu is held before and after.
func (s *Set) refresh(ctx context.Context, now time.Time, needed bool, fetch Fetch) {
	if busy := s.busy; busy != nil {
		if !needed {
			return
		}
		s.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
		s.mu.Lock()
		return
	}
	if !s.tried.IsZero() && now.Sub(s.tried) < retry {
		return
	}
	busy := make(chan struct{})
	s.tried, s.busy = now, busy
	s.mu.Unlock()
	keys, err := fetch(context.WithoutCancel(ctx))
	s.mu.Lock()
	if s.err = err; err == nil {
		s.keys, s.fetched = keys, now
	}
	s.busy = nil
	close(busy)
}
