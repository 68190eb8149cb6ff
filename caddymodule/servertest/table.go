package servertest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/fxamacker/cbor/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TableStorage is the guest module gatehouse.storage.table of these tests: an engine that is asked for nothing but a
// store, as one in a database is.
type TableStorage struct {
	Name string `json:"name,omitempty"`
}

func init() { caddy.RegisterModule(TableStorage{}) }

// CaddyModule returns the module.
func (TableStorage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gatehouse.storage.table", New: func() caddy.Module { return new(TableStorage) }}
}

// UnmarshalCaddyfile reads the directory of the store.
func (s *TableStorage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&s.Name) {
		return d.ArgErr()
	}
	return nil
}

// Place implements shared.Storage.
func (s *TableStorage) Place() string { return "table " + s.Name }

// Options implements shared.Storage.
func (s *TableStorage) Options() string { return "" }

// Open implements shared.Storage.
func (s *TableStorage) Open(ctx context.Context, log *zap.Logger) (storage.Store, error) {
	store, err := badgerstore.Open(ctx, badgerstore.Options{Dir: s.Name, Log: log})
	if err != nil {
		return nil, err
	}
	t := &TableStore{Lasting: store}
	if ahead, ok := TableClocks.Load(s.Name); ok {
		t.Ahead.Store(ahead.(time.Duration).Nanoseconds())
	}
	Tables.Store(s.Name, t)
	return t, nil
}

// TableStore says that several processes share it. Its clock can differ from that of the machine.
type TableStore struct {
	*badgerstore.Lasting

	Ahead atomic.Int64 // nanoseconds
}

// Clock implements storage.Clocked.
func (t *TableStore) Clock(context.Context) (time.Time, error) {
	return time.Now().Add(time.Duration(t.Ahead.Load())), nil
}

// The stores of this process, by the directories that tests name.
var (
	Tables      sync.Map // name -> *TableStore, the newest opened
	TableClocks sync.Map // name -> time.Duration, how far it is ahead when it is opened
)

var _ shared.Storage = (*TableStorage)(nil)

// Encode returns the record of a value.
func Encode(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
