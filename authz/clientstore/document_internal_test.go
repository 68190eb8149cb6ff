package clientstore

import (
	"context"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/cimd"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// asked is a store that counts the Readings that are taken.
type asked struct {
	*badgerstore.Store

	readings int
}

func (s *asked) Track(ctx context.Context, fn func(storage.Tx) error) (*storage.Reading, error) {
	s.readings++
	return s.Store.Track(ctx, fn)
}

// sharedStore is one that other processes write to as well, so no Reading is worth taking.
type sharedStore struct{ *asked }

func (sharedStore) Clock(context.Context) (time.Time, error) { return time.Time{}, nil }

// A request of a client with a metadata document does not ask a store in vain that other processes write to.
func TestNoReadingOfASharedStore(t *testing.T) {
	t.Parallel()
	disk, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	own := &asked{Store: disk}
	for name, c := range map[string]struct {
		store storage.Store
		want  int
	}{"our own": {own, 1}, "shared": {sharedStore{own}, 0}} {
		own.readings = 0
		var d readyDocuments
		if err := d.keep(t.Context(), c.store, "https://app.example/client.json", readyDocument{doc: new(cimd.Document)}); err != nil {
			t.Error(err)
		}
		if own.readings != c.want || len(d.of) != c.want {
			t.Errorf("%s: %d readings, %d clients are ready, want %d", name, own.readings, len(d.of), c.want)
		}
	}
}
