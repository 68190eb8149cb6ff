package caddymodule

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/cli"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	_ "github.com/gatehouse-id/gatehouse/caddymodule/postgres" // a storage module
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

func init() {
	caddy.RegisterModule(BadgerStorage{})
}

// storageNamespace holds the storage engines. Another package can add one.
const storageNamespace = "gatehouse.storage"

// BadgerStorage keeps the records in a directory of this machine, for one process. A write is durable once it has
// returned.
type BadgerStorage struct {
	// The directory; it is created with mode 0700. Default: gatehouse in Caddy's data directory.
	Path string `json:"path,omitempty"`
	// The free space below which nothing is written and writes are answered 503, since a full disk would end the
	// process. Half as much is kept in a file of the directory. Default: 128MiB.
	MinFree string `json:"min_free,omitempty"`

	minFree uint64
}

// CaddyModule implements caddy.Module.
func (BadgerStorage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: storageNamespace + ".badger", New: func() caddy.Module { return new(BadgerStorage) }}
}

// UnmarshalCaddyfile reads
//
//	storage badger [<path>] {
//		min_free <size>
//	}
func (b *BadgerStorage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		b.Path = d.Val()
	}
	if d.NextArg() {
		return d.Errf("storage badger: unexpected argument %q", d.Val())
	}
	return caddyfileutil.ReadBlock(d, "storage badger", &reference.Badger,
		caddyfileutil.Subdirectives{"min_free": caddyfileutil.Value(&b.MinFree, checkSize)})
}

// Provision resolves the options; it opens nothing.
func (b *BadgerStorage) Provision(caddy.Context) error {
	r := caddyfileutil.NewResolver(caddy.NewReplacer())
	path := r.Plain("path", b.Path, nil)
	if s, ok := r.Text("min_free", b.MinFree, checkSize); ok {
		b.minFree, _ = parseSize(s)
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("storage badger: %w", err)
	}
	if path == "" {
		path = filepath.Join(caddy.AppDataDir(), "gatehouse")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("storage badger: %w", err)
	}
	b.Path = abs
	return nil
}

// Place implements Storage.
func (b *BadgerStorage) Place() string { return "badger " + b.Path }

// Options implements Storage.
func (b *BadgerStorage) Options() string { return fmt.Sprintf("min_free %d", b.minFree) }

// Watermark is the free space in bytes below which nothing is written.
func (b *BadgerStorage) Watermark() uint64 {
	return badgerstore.Options{MinFree: b.minFree}.Watermark()
}

// Size is the space that the directory takes on the disk.
func (b *BadgerStorage) Size() (int64, error) { return badgerstore.SizeOnDisk(b.Path) }

// Open implements shared.Storage.
func (b *BadgerStorage) Open(ctx context.Context, log *zap.Logger) (storage.Store, error) {
	return badgerstore.Open(ctx, badgerstore.Options{Dir: b.Path, MinFree: b.minFree, Log: log})
}

// KeyFile implements shared.KeyFiler. The file lies next to the directory, not inside: a copy of the directory alone
// opens nothing.
func (b *BadgerStorage) KeyFile() (string, bool) {
	_, err := os.Stat(filepath.Join(b.Path, "MANIFEST"))
	return b.Path + ".key", err == nil
}

// Restore implements Restorer.
func (b *BadgerStorage) Restore(ctx context.Context, r io.Reader, after func(storage.Tx) error) error {
	return b.RestoreTo(ctx, b.Path, r, after)
}

// RestoreTo fills an empty directory elsewhere from a backup.
func (b *BadgerStorage) RestoreTo(ctx context.Context, dir string, r io.Reader, after func(storage.Tx) error) error {
	return badgerstore.Restore(ctx, badgerstore.Options{Dir: dir, MinFree: b.minFree}, r, after)
}

var (
	_ caddy.Provisioner     = (*BadgerStorage)(nil)
	_ caddyfile.Unmarshaler = (*BadgerStorage)(nil)
	_ shared.Storage        = (*BadgerStorage)(nil)
	_ shared.KeyFiler       = (*BadgerStorage)(nil)
	_ cli.Restorer          = (*BadgerStorage)(nil)
)
