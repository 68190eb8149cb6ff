package caddymodule_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/fxamacker/cbor/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/core"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TableStorage is the guest module gatehouse.storage.table of these tests: an engine that is asked for nothing but a
// store, as one in a database is.
type TableStorage struct {
	Name string `json:"name,omitempty"`
}

func init() { caddy.RegisterModule(TableStorage{}) }

func (TableStorage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gatehouse.storage.table", New: func() caddy.Module { return new(TableStorage) }}
}

func (s *TableStorage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&s.Name) {
		return d.ArgErr()
	}
	return nil
}

func (s *TableStorage) Place() string   { return "table " + s.Name }
func (s *TableStorage) Options() string { return "" }

func (s *TableStorage) Open(ctx context.Context, log *zap.Logger) (storage.Store, error) {
	store, err := badgerstore.Open(ctx, badgerstore.Options{Dir: s.Name, Log: log})
	if err != nil {
		return nil, err
	}
	t := &tableStore{Lasting: store}
	if ahead, ok := tableClocks.Load(s.Name); ok {
		t.ahead.Store(ahead.(time.Duration).Nanoseconds())
	}
	tables.Store(s.Name, t)
	return t, nil
}

// tableStore says that several processes share it. Its clock can differ from that of the machine.
type tableStore struct {
	*badgerstore.Lasting

	ahead atomic.Int64 // nanoseconds
}

func (t *tableStore) Clock(context.Context) (time.Time, error) {
	return time.Now().Add(time.Duration(t.ahead.Load())), nil
}

var (
	tables      sync.Map // name -> *tableStore, the newest opened
	tableClocks sync.Map // name -> time.Duration, how far it is ahead when it is opened
)

var _ core.Storage = (*TableStorage)(nil)

// TestStorageCopy: a server goes on with its records in another engine, with every token that it had, and back.
func TestStorageCopy(t *testing.T) {
	s := newServer(t)
	s.mustLoad()
	s.run("the password of ann\n", "person", "add", "ann")
	token := s.token()
	file := filepath.Join(t.TempDir(), "backup")
	s.run("", "backup", file)
	store, table := filepath.Join(s.dir, "store"), filepath.Join(t.TempDir(), "table")
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := run(t, "", append([]string{"storage", "copy"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("storage copy %v = %s, %v, want an error with %q", args, out, err, want)
		}
	}
	refused("uses the directory", store, "table:"+table)
	s.stop()

	config := filepath.Join(t.TempDir(), "caddy.json")
	writeFile(t, config, string(s.json()), 0o600)
	refused("both are badger", store, config)
	refused("there is no storage in badger "+store+".none", store+".none", "table:"+table)
	refused("is a backup", store, file)
	refused("nothing:here", store, "nothing:here/there/\x00")

	out, err := run(t, "", "storage", "copy", config, "table:"+table)
	if err != nil || !strings.Contains(out, "source and target are equal") || !strings.Contains(out, "identity_person ") {
		t.Fatalf("storage copy = %s, %v", out, err)
	}
	refused("the target holds records", store, "table:"+table)
	key, err := os.ReadFile(store + ".key")
	if err != nil {
		t.Fatal(err)
	}
	s.storage, s.key = "storage table "+table, "encryption_key "+string(bytes.TrimSpace(key))
	s.mustLoad()
	if got := s.enters(token); got != http.StatusOK {
		t.Errorf("a token from before the copy: status = %d, want 200", got)
	}
	s.run("", "person", "block", "ann")
	s.stop()

	back := filepath.Join(t.TempDir(), "back")
	if out, err := run(t, "", "storage", "copy", "table:"+table, back); err != nil {
		t.Fatalf("storage copy back = %s, %v", out, err)
	}
	s.storage = "storage badger " + back
	s.mustLoad()
	if out := s.run("", "person", "list"); !strings.Contains(out, "BLOCKED") && !strings.Contains(out, "blocked") {
		t.Errorf("person list after the way back = %s", out)
	}
	s.stop()

	fromBackup := filepath.Join(t.TempDir(), "table")
	if out, err := run(t, "", "storage", "copy", file, "table:"+fromBackup, "--json"); err != nil || !strings.Contains(out, `"sha256"`) {
		t.Fatalf("storage copy of a backup = %s, %v", out, err)
	}
	s.storage = "storage table " + fromBackup
	s.mustLoad()
	if got := s.enters(token); got != http.StatusOK {
		t.Errorf("a token of the backup: status = %d, want 200", got)
	}
	s.stop()

	t.Run("restored", func(t *testing.T) {
		s.storage = "storage table " + filepath.Join(t.TempDir(), "table")
		writeFile(t, config, string(s.json()), 0o600)
		if out, err := run(t, "", "restore", file, "--config", config); err != nil || !strings.Contains(out, "Older tokens and sessions are ended") {
			t.Fatalf("restore = %s, %v", out, err)
		}
		s.mustLoad()
		if got := s.enters(token); got != http.StatusUnauthorized {
			t.Errorf("a token from before the restore: status = %d, want 401", got)
		}
		if got := s.enters(s.token()); got != http.StatusOK {
			t.Errorf("a new token: status = %d, want 200", got)
		}
		s.stop()
	})
}

// TestStartOnStrangeStorage: a server does not start on half of a copy, nor on what a newer version has written, and
// changes neither.
func TestStartOnStrangeStorage(t *testing.T) {
	for name, tc := range map[string]struct {
		table  string
		record any
		want   string
	}{
		"copy_unfinished": {"storage_copy/copy", map[int]any{1: "badger /old", 2: nil}, "run the same copy from badger /old again"},
		"newer_version":   {"cluster_identity/store", map[int]any{1: "0123", 2: nil, 3: 99}, "its records have format 99, this version reads 2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "table")
			change(t, dir, func(tx storage.Tx) error { return tx.Put([]byte(tc.table), encode(t, tc.record), time.Time{}) })
			s := newServer(t)
			s.storage, s.key = "storage table "+dir, "encryption_key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
			if err := s.load(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("load = %v, want an error with %q", err, tc.want)
			}
			s.stop()
			change(t, dir, func(tx storage.Tx) error {
				for rec, err := range tx.Scan(storage.Range{}) {
					if err != nil || string(rec.Key) != tc.table {
						t.Errorf("the refused server wrote %q, %v", rec.Key, err)
					}
				}
				return nil
			})
			if _, err := run(t, "", "storage", "copy", dir, filepath.Join(t.TempDir(), "to")); err == nil {
				t.Error("storage copy took it")
			}
		})
	}
}

// change writes into a store that no server uses.
func change(t *testing.T, dir string, fn func(storage.Tx) error) {
	t.Helper()
	s, err := badgerstore.Open(t.Context(), badgerstore.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), fn); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
