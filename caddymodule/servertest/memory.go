package servertest

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// Memory is a store that a test can break, block and watch. It also shows that a storage engine can be added from
// another package. It is no storage.Tracker, so each question reaches it.
type Memory struct {
	untracked
	Full   atomic.Bool
	Panics atomic.Bool // in Views of requests
	Fail   atomic.Pointer[error]
	Gate   atomic.Pointer[chan struct{}] // Views of requests wait for it
	Inside chan struct{}                 // told when a View waits
	Views  atomic.Int64                  // of requests
	Closed chan struct{}

	Reopened func(failure error)
}

// untracked are the methods of a store but for Track.
type untracked interface {
	storage.Store
	storage.Backuper
	storage.Checker
	Stats() badgerstore.Stats
}

// View implements storage.Store.
func (m *Memory) View(ctx context.Context, fn func(storage.Tx) error) error {
	if ctx.Value(http.ServerContextKey) != nil {
		m.Views.Add(1)
		if g := m.Gate.Load(); g != nil {
			m.Inside <- struct{}{}
			<-*g
		}
		if m.Panics.Load() { // no one catches the panic of a worker
			panic("the store is broken")
		}
	}
	if err := m.Fail.Load(); err != nil {
		return *err
	}
	return m.untracked.View(ctx, fn)
}

// Update implements storage.Store.
func (m *Memory) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if m.Full.Load() {
		return storage.ErrFull
	}
	return m.untracked.Update(ctx, fn)
}

// Check implements storage.Checker.
func (m *Memory) Check(ctx context.Context) error {
	if m.Full.Load() {
		return storage.ErrFull
	}
	if err := m.Fail.Load(); err != nil {
		return *err
	}
	return m.untracked.Check(ctx)
}

// OnReopen keeps the function to call after a reopening, for a test to call.
func (m *Memory) OnReopen(tell func(error)) { m.Reopened = tell }

// Close implements storage.Store.
func (m *Memory) Close() error {
	defer close(m.Closed)
	return m.untracked.Close()
}

var memories sync.Map // name -> *Memory, the newest opened

// MemoryOf returns the newest store of this name.
func MemoryOf(t *testing.T, name string) *Memory {
	t.Helper()
	m, ok := memories.Load(name)
	if !ok {
		t.Fatalf("store %s was never opened", name)
	}
	return m.(*Memory)
}

// MemoryStorage is the guest module gatehouse.storage.memory of these tests.
type MemoryStorage struct {
	Name string `json:"name,omitempty"`
}

func init() { caddy.RegisterModule(MemoryStorage{}) }

// CaddyModule returns the module.
func (MemoryStorage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gatehouse.storage.memory", New: func() caddy.Module { return new(MemoryStorage) }}
}

// UnmarshalCaddyfile reads the name of the store.
func (m *MemoryStorage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&m.Name) {
		return d.ArgErr()
	}
	return nil
}

// Place implements shared.Storage.
func (m *MemoryStorage) Place() string { return "memory " + m.Name }

// Options implements shared.Storage.
func (m *MemoryStorage) Options() string { return "" }

// Open implements shared.Storage.
func (m *MemoryStorage) Open(context.Context, *zap.Logger) (storage.Store, error) {
	s, err := badgerstore.OpenMemory()
	if err != nil {
		return nil, err
	}
	if err := plantKeys(s); err != nil {
		return nil, err
	}
	out := &Memory{untracked: s, Closed: make(chan struct{}), Inside: make(chan struct{}, 64)}
	memories.Store(m.Name, out)
	return out, nil
}

var _ shared.Storage = (*MemoryStorage)(nil)
