package badgerstore_test

import (
	"context"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// clock is a clock that tests set.
type clock struct {
	mu sync.Mutex // guards at
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = t
}

// stores opens stores and knows the directory and the clock of each.
type stores struct {
	mu   sync.Mutex // guards what follows
	dir  map[storage.Store]string
	time map[storage.Store]*clock
}

func newStores() *stores {
	return &stores{dir: map[storage.Store]string{}, time: map[storage.Store]*clock{}}
}

func (h *stores) open(t *testing.T, dir string) storage.Store {
	t.Helper()
	c := &clock{at: time.Now()}
	s, err := badgerstore.Open(t.Context(), badgerstore.Options{Dir: dir, Now: c.now, SweepEvery: -1})
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	return h.keep(t, s, dir, c)
}

func (h *stores) keep(t *testing.T, s storage.Store, dir string, c *clock) storage.Store {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dir[s], h.time[s] = dir, c
	return s
}

func (h *stores) reopen(t *testing.T, s storage.Store) storage.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	h.mu.Lock()
	dir := h.dir[s]
	h.mu.Unlock()
	return h.open(t, dir)
}

func (h *stores) restore(t *testing.T, backup io.Reader) (storage.Store, error) {
	dir := filepath.Join(t.TempDir(), "restored")
	if err := badgerstore.Restore(t.Context(), badgerstore.Options{Dir: dir}, backup, nil); err != nil {
		return nil, err
	}
	return h.open(t, dir), nil
}

func (h *stores) collect(t *testing.T, s storage.Store, now time.Time) {
	t.Helper()
	h.mu.Lock()
	c := h.time[s]
	h.mu.Unlock()
	c.set(now)
	if _, err := s.(interface {
		Sweep(ctx context.Context) (int, error)
	}).Sweep(t.Context()); err != nil {
		t.Errorf("Sweep = %v", err)
	}
}

func TestStoreOnDisk(t *testing.T) {
	t.Parallel()
	h := newStores()
	storagetest.Run(t, func(t *testing.T) storage.Store { return h.open(t, t.TempDir()) },
		storagetest.WithReopen(h.reopen), storagetest.WithRestore(h.restore), storagetest.WithCollect(h.collect))
}

func TestStoreInMemory(t *testing.T) {
	t.Parallel()
	h := newStores()
	open := func(t *testing.T) storage.Store {
		c := &clock{at: time.Now()}
		s, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = c.now })
		if err != nil {
			t.Fatalf("OpenMemory = %v", err)
		}
		return h.keep(t, s, "", c)
	}
	storagetest.Run(t, open, storagetest.WithRestore(h.restore), storagetest.WithCollect(h.collect))
}
