package authztest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// LookupStore counts the questions that reach the store and what is written, and lets something happen in the midst of
// the next question.
type LookupStore struct {
	*badgerstore.Store

	Lookups, Updates atomic.Int64
	During           atomic.Pointer[func()]
}

// Update counts the transaction.
func (s *LookupStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	s.Updates.Add(1)
	return s.Store.Update(ctx, fn)
}

// Track counts the transaction.
func (s *LookupStore) Track(ctx context.Context, fn func(storage.Tx) error) (*storage.Reading, error) {
	s.Lookups.Add(1)
	reading, err := s.Store.Track(ctx, fn)
	if during := s.During.Swap(nil); during != nil {
		(*during)()
	}
	return reading, err
}

// WithLookups is a harness whose store is a lookupStore.
func WithLookups(t *testing.T, opts ...Option) (*Harness, *LookupStore) {
	t.Helper()
	clock := NewClock()
	disk, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = clock.Now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &LookupStore{Store: disk}
	return New(t, append(opts, WithStore(s))...), s
}

// Asks asks n times about a token and returns how many of the questions reached the store.
func (s *LookupStore) Asks(t *testing.T, h *Harness, token string, n int) int64 {
	t.Helper()
	before := s.Lookups.Load()
	for range n {
		if in, err := h.Server().Introspect(t.Context(), token); err != nil || !in.Active {
			t.Errorf("Introspect = %+v, %v, want active", in, err)
		}
	}
	return s.Lookups.Load() - before
}
