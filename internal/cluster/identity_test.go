package cluster_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

func memory(t *testing.T) storage.Store {
	t.Helper()
	s, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = time.Now }) // collects nothing: clocks of tests are in the past
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return s
}

// TestIdentify: servers that start on a new storage at the same time agree on its id, and it stays.
func TestIdentify(t *testing.T) {
	t.Parallel()
	s := memory(t)
	ids := make([]string, 20)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			var err error
			if ids[i], err = cluster.Identify(t.Context(), s, time.Now, rand.Reader); err != nil {
				t.Errorf("Identify = %v", err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if len(id) != 32 || id != ids[0] {
			t.Fatalf("ids = %q, want one", ids)
		}
	}
	if other, err := cluster.Identify(t.Context(), memory(t), time.Now, rand.Reader); err != nil || other == ids[0] {
		t.Errorf("Identify of another storage = %q, %v", other, err)
	}
	if _, err := cluster.Identify(t.Context(), memory(t), time.Now, strings.NewReader("short")); err == nil {
		t.Error("Identify without randomness = nil, want an error")
	}
}

// TestNewerVersion: what a newer version has marked as its own is left alone.
func TestNewerVersion(t *testing.T) {
	t.Parallel()
	s := memory(t)
	table := storage.NewTable[map[int]any]("cluster_identity")
	err := s.Update(t.Context(), func(tx storage.Tx) error {
		return table.Put(tx, "store", map[int]any{1: "0123", 3: 99, 4: "unknown"}, time.Time{})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Identify(t.Context(), s, time.Now, rand.Reader); !errors.Is(err, cluster.ErrNewer) {
		t.Errorf("Identify = %v, want %v", err, cluster.ErrNewer)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Identify(context.Background(), s, time.Now, rand.Reader); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Identify without a store = %v, want %v", err, storage.ErrUnavailable)
	}
}
