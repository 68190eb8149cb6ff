package postgres_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// TestNodes: operators see who uses a storage, and a server whose clock is wrong says so.
func TestNodes(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	servertest.Eventually(t, "a storage of its own has one server, which does everything", func() bool {
		out := s.Run("", "nodes")
		return strings.Contains(out, "this one") && strings.Contains(out, "1 server") &&
			strings.Contains(out, "events, keys, lists, reseal, statistics")
	})
	s.Stop()

	dir := filepath.Join(t.TempDir(), "table")
	s.Storage, s.Key = "storage table "+dir, "encryption_key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	servertest.TableClocks.Store(dir, 6*time.Second)
	if err := s.Load(); err == nil || !strings.Contains(err.Error(), "the clock of this machine differs too much") ||
		!strings.Contains(err.Error(), "behind") {
		t.Errorf("load with a wrong clock = %v", err)
	}
	s.Stop()
	servertest.TableClocks.Delete(dir)
	s.MustLoad()
	found, ok := servertest.Tables.Load(dir)
	if !ok {
		t.Fatal("the storage was never opened")
	}
	table := found.(*servertest.TableStore)
	other, err := cluster.Join(t.Context(), table, cluster.Options{Host: "elsewhere", Version: "v9"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		other.Run(ctx)
	}()
	servertest.Eventually(t, "one server seals the events, renews the keys and looks at what is sealed", func() bool {
		return strings.Contains(s.Run("", "nodes"), "events, keys, lists, reseal, statistics")
	})
	list := servertest.Decode[[]cluster.Info](t, s.Run("", "nodes", "--json"))
	if len(list) != 2 || !list[0].This || !list[0].Alive || list[1].Host != "elsewhere" || list[1].Version != "v9" || len(list[1].Roles) != 0 {
		t.Errorf("nodes = %+v, want this one and the other one", list)
	}
	stop()
	<-left
	if list := servertest.Decode[[]cluster.Info](t, s.Run("", "nodes", "--json")); len(list) != 1 {
		t.Errorf("nodes after the other one has ended = %+v", list)
	}

	if out := s.Run("", "upgrade", "finish"); !strings.Contains(out, "nothing to do: the records have format 2") {
		t.Errorf("upgrade finish = %s", out)
	}

	table.Ahead.Store(int64(-6 * time.Second))
	servertest.Eventually(t, "a wrong clock is noticed", func() bool {
		resp, body := s.Get("/healthz")
		return resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(body, "clock: it differs too much from that of the storage")
	})
	table.Ahead.Store(0)
	servertest.Eventually(t, "a clock that was set is noticed", func() bool {
		resp, _ := s.Get("/healthz")
		return resp.StatusCode == http.StatusOK
	})
	s.Stop()
	if out, err := servertest.Run(t, "", "storage", "copy", dir, filepath.Join(t.TempDir(), "to")); err != nil {
		t.Errorf("storage copy after the end = %s, %v", out, err)
	}
}

// TestCopyOfAStorageInUse: a server that shares the storage is noticed.
func TestCopyOfAStorageInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "table")
	s := servertest.NewServer(t)
	s.Storage, s.Key = "storage table "+dir, "encryption_key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	s.MustLoad()
	found, ok := servertest.Tables.Load(dir)
	if !ok {
		t.Fatal("the storage was never opened")
	}
	if _, err := cluster.Join(t.Context(), found.(*servertest.TableStore), cluster.Options{Host: "elsewhere"}); err != nil { // and is killed
		t.Fatal(err)
	}
	s.Stop()
	to := filepath.Join(t.TempDir(), "to")
	if out, err := servertest.Run(t, "", "storage", "copy", "table:"+dir, to); err == nil ||
		!strings.Contains(err.Error(), "a server on elsewhere uses this storage") {
		t.Errorf("storage copy = %s, %v, want that it is in use", out, err)
	}
	servertest.TableClocks.Store(dir, time.Minute)
	if out, err := servertest.Run(t, "", "storage", "copy", "table:"+dir, to); err != nil {
		t.Errorf("storage copy a minute later = %s, %v", out, err)
	}
}

// TestPausedNodeSealsNothing: what the work of the role `events` would write after its term is refused.
func TestPausedNodeSealsNothing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	s, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // in memory
	rec := &audit.Recorder{Now: clock, Random: rand.Reader}
	made, err := rec.New(audit.Type{Type: "server.TestEvent", Name: "Test"}, audit.Self)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx storage.Tx) error { return rec.Append(tx, made) }); err != nil {
		t.Fatal(err)
	}
	keeper := audit.NewKeeper(s, clock, zap.NewNop())
	storagetest.RefusedWhenOver(t, s, keeper.Seal)
	defer keeper.Use(audit.Settings{Retention: audit.Retention{Kept: time.Hour}})()
	now = now.Add(2 * time.Hour)
	storagetest.RefusedWhenOver(t, s, func(ctx context.Context) error {
		_, err := keeper.Collect(ctx)
		return err
	})
}
