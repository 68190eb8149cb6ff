package shared

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// sharedStore is a store that several processes share, with a fault.
type sharedStore struct {
	storage.Store

	fault error
}

func (s *sharedStore) Clock(context.Context) (time.Time, error) {
	return time.Unix(1_800_000_000, 0), nil
}

func (s *sharedStore) Check(context.Context) error { return s.fault }

// TestReasonOfASilentNode: a node that was not heard of for long says what is wrong with its storage, if that says it.
func TestReasonOfASilentNode(t *testing.T) {
	t.Parallel()
	memory, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = memory.Close() })
	store := &sharedStore{Store: memory}
	now := time.Unix(1_800_000_000, 0)
	node, err := cluster.Join(t.Context(), store, cluster.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), node, store); err != nil {
		t.Errorf("Check = %v, want nil", err)
	}
	now = now.Add(time.Minute)
	for name, tc := range map[string]struct{ fault, want error }{
		"the storage gives no reason":   {nil, cluster.ErrSilent},
		"acknowledged writes were lost": {fmt.Errorf("%w: some", storage.ErrLost), storage.ErrLost},
	} {
		store.fault = tc.fault
		if err := Check(t.Context(), node, store); !errors.Is(err, tc.want) {
			t.Errorf("%s: Check = %v, want %v", name, err, tc.want)
		}
	}
}
