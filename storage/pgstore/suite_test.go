package pgstore_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// server is shared by all tests; each store has a schema of its own.
var server *pgtest.Server

func TestMain(m *testing.M) { pgtest.Main(m, func(s *pgtest.Server) { server = s }) }

var schemas atomic.Int64

func newSchema() string { return fmt.Sprintf("Test %d", schemas.Add(1)) }

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

// stores opens stores and knows the schema and the clock of each.
type stores struct {
	url  string
	wrap func(storage.Store) storage.Store // nil: as they are

	mu   sync.Mutex // guards what follows
	of   map[storage.Store]string
	time map[storage.Store]*clock
	bare map[storage.Store]*pgstore.Store
}

func newStores(url string) *stores {
	return &stores{url: url, of: map[storage.Store]string{}, time: map[storage.Store]*clock{}, bare: map[storage.Store]*pgstore.Store{}}
}

func (h *stores) open(t *testing.T, schema string) storage.Store {
	t.Helper()
	c := &clock{at: time.Now()}
	bare, err := pgstore.Open(t.Context(), h.options(schema, c))
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	t.Cleanup(func() {
		if err := bare.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	s := storage.Store(bare)
	if h.wrap != nil {
		s = h.wrap(s)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[s], h.time[s], h.bare[s] = schema, c, bare
	return s
}

func (h *stores) options(schema string, c *clock) pgstore.Options {
	return pgstore.Options{URL: h.url, Schema: schema, Pool: 4, Now: c.now, SweepEvery: -1}
}

func (h *stores) reopen(t *testing.T, s storage.Store) storage.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	h.mu.Lock()
	schema := h.of[s]
	h.mu.Unlock()
	return h.open(t, schema)
}

func (h *stores) restore(t *testing.T, backup io.Reader) (storage.Store, error) {
	schema := newSchema()
	if err := pgstore.Restore(t.Context(), h.options(schema, &clock{at: time.Now()}), backup, nil); err != nil {
		return nil, err
	}
	return h.open(t, schema), nil
}

func (h *stores) collect(t *testing.T, s storage.Store, now time.Time) {
	t.Helper()
	h.mu.Lock()
	c, bare := h.time[s], h.bare[s]
	h.mu.Unlock()
	c.set(now)
	if _, err := bare.Sweep(context.Background()); err != nil {
		t.Errorf("Sweep = %v", err)
	}
}

func (h *stores) run(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Store { return h.open(t, newSchema()) },
		storagetest.WithReopen(h.reopen), storagetest.WithRestore(h.restore), storagetest.WithCollect(h.collect))
}

func TestStore(t *testing.T) {
	t.Parallel()
	newStores(server.URL(pgtest.Database)).run(t)
}

// TestStoreBehindAPooler: the suite through PgBouncer in transaction mode, where the next transaction of a connection
// can be on another session. Every closure runs twice, as it does after a conflict.
func TestStoreBehindAPooler(t *testing.T) {
	t.Parallel()
	h := newStores(pgtest.URLAt(server.Bouncer(t), pgtest.User, pgtest.Password, pgtest.Database))
	h.wrap = storagetest.Twice
	h.run(t)
}
