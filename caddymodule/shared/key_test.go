package shared

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// directory is a storage in a directory, with its key next to it.
type directory struct{ path string }

func (d *directory) Place() string { return "directory " + d.path }

func (d *directory) Options() string { return "" }

func (d *directory) Open(ctx context.Context, log *zap.Logger) (storage.Store, error) {
	return badgerstore.Open(ctx, badgerstore.Options{Dir: d.path, MinFree: 1 << 20, Log: log})
}

func (d *directory) KeyFile() (path string, needed bool) {
	_, err := os.Stat(d.path)
	return d.path + ".key", err == nil
}

// TestNewStoreBesideItsKey: a store that is made where there must have been one before is a warning, since its
// directory may have been removed or its disk not be mounted.
func TestNewStoreBesideItsKey(t *testing.T) {
	t.Parallel()
	watched, logs := observer.New(zap.WarnLevel)
	b := &directory{path: filepath.Join(t.TempDir(), "store")}
	if warnOfNewStore(b, false, zap.New(watched)); logs.Len() != 0 {
		t.Errorf("the first start warns: %v", logs.All())
	}
	if warnOfNewStore(b, true, zap.New(watched)); logs.Len() != 1 {
		t.Errorf("%d warnings of an empty directory with encryption_key, want one", logs.Len())
	}
	logs.TakeAll()
	if _, err := storedKey(b, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	if warnOfNewStore(b, false, zap.New(watched)); logs.Len() != 1 {
		t.Errorf("%d warnings of an empty directory beside a key, want one", logs.Len())
	}
	s, err := b.Open(t.Context(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // of a test
	for _, given := range []bool{false, true} {
		if warnOfNewStore(b, given, zap.New(watched)); logs.Len() != 1 {
			t.Errorf("%d warnings with the store there, want none more", logs.Len())
		}
	}
}
