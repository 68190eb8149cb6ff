package identitytest

import (
	"context"
	"sync/atomic"

	"github.com/gatehouse-id/gatehouse/storage"
)

// leaver is a store under which a caller hangs up before the n-th Update.
type leaver struct {
	storage.Store
	n       int64
	leave   func()
	updates atomic.Int64
}

// Update is Store.Update of this store.
func (s *leaver) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if s.updates.Add(1) == s.n {
		s.leave()
	}
	return s.Store.Update(ctx, fn)
}

// HangUpBefore lets leave be called before the n-th Update from now, until the function that it returns is called.
func (h *Harness) HangUpBefore(n int64, leave func()) (restore func()) {
	before := h.Store.Store
	h.Store.Store = &leaver{Store: before, n: n, leave: leave}
	return func() { h.Store.Store = before }
}

// CountingStore is a store that counts its transactions.
type CountingStore struct {
	storage.Store
	Views, Updates atomic.Int64
	Viewed         func() // called after each View, unless nil
}

// View is Store.View of this store.
func (c *CountingStore) View(ctx context.Context, fn func(storage.Tx) error) error {
	c.Views.Add(1)
	err := c.Store.View(ctx, fn)
	if c.Viewed != nil {
		c.Viewed()
	}
	return err
}

// Update is Store.Update of this store.
func (c *CountingStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	c.Updates.Add(1)
	return c.Store.Update(ctx, fn)
}

// Count makes the harness use a counting store. Forms are no longer kept for repetition, since that reads the store.
func (h *Harness) Count() *CountingStore {
	c := &CountingStore{Store: h.Store.Store}
	h.Store.Store, h.shadow = c, true
	return c
}
