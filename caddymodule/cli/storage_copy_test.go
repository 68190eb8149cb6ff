package cli_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestStorageCopy: a server goes on with its records in another engine, with every token that it had, and back.
func TestStorageCopy(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	s.Run("the password of ann\n", "person", "add", "ann")
	token := s.Token()
	file := filepath.Join(t.TempDir(), "backup")
	s.Run("", "backup", file)
	store, table := filepath.Join(s.Dir, "store"), filepath.Join(t.TempDir(), "table")
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := servertest.Run(t, "", append([]string{"storage", "copy"}, args...)...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("storage copy %v = %s, %v, want an error with %q", args, out, err, want)
		}
	}
	refused("uses the directory", store, "table:"+table)
	s.Stop()

	config := filepath.Join(t.TempDir(), "caddy.json")
	servertest.WriteFile(t, config, string(s.JSON()), 0o600)
	refused("both are badger", store, config)
	refused("there is no storage in badger "+store+".none", store+".none", "table:"+table)
	refused("is a backup", store, file)
	refused("nothing:here", store, "nothing:here/there/\x00")

	out, err := servertest.Run(t, "", "storage", "copy", config, "table:"+table)
	if err != nil || !strings.Contains(out, "source and target are equal") || !strings.Contains(out, "identity_person ") {
		t.Fatalf("storage copy = %s, %v", out, err)
	}
	refused("the target holds records", store, "table:"+table)
	key, err := os.ReadFile(store + ".key")
	if err != nil {
		t.Fatal(err)
	}
	s.Storage, s.Key = "storage table "+table, "encryption_key "+string(bytes.TrimSpace(key))
	s.MustLoad()
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("a token from before the copy: status = %d, want 200", got)
	}
	s.Run("", "person", "block", "ann")
	s.Stop()

	back := filepath.Join(t.TempDir(), "back")
	if out, err := servertest.Run(t, "", "storage", "copy", "table:"+table, back); err != nil {
		t.Fatalf("storage copy back = %s, %v", out, err)
	}
	s.Storage = "storage badger " + back
	s.MustLoad()
	if out := s.Run("", "person", "list"); !strings.Contains(out, "BLOCKED") && !strings.Contains(out, "blocked") {
		t.Errorf("person list after the way back = %s", out)
	}
	s.Stop()

	fromBackup := filepath.Join(t.TempDir(), "table")
	if out, err := servertest.Run(t, "", "storage", "copy", file, "table:"+fromBackup, "--json"); err != nil ||
		!strings.Contains(out, `"sha256"`) {
		t.Fatalf("storage copy of a backup = %s, %v", out, err)
	}
	s.Storage = "storage table " + fromBackup
	s.MustLoad()
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("a token of the backup: status = %d, want 200", got)
	}
	s.Stop()

	t.Run("restored", func(t *testing.T) {
		s.Storage = "storage table " + filepath.Join(t.TempDir(), "table")
		servertest.WriteFile(t, config, string(s.JSON()), 0o600)
		if out, err := servertest.Run(t, "", "restore", file, "--config", config); err != nil ||
			!strings.Contains(out, "Older tokens and sessions are ended") {
			t.Fatalf("restore = %s, %v", out, err)
		}
		s.MustLoad()
		if got := s.Enters(token); got != http.StatusUnauthorized {
			t.Errorf("a token from before the restore: status = %d, want 401", got)
		}
		if got := s.Enters(s.Token()); got != http.StatusOK {
			t.Errorf("a new token: status = %d, want 200", got)
		}
		s.Stop()
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
			change(t, dir, func(tx storage.Tx) error {
				return tx.Put([]byte(tc.table), servertest.Encode(t, tc.record), time.Time{})
			})
			s := servertest.NewServer(t)
			s.Storage, s.Key = "storage table "+dir, "encryption_key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
			if err := s.Load(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("load = %v, want an error with %q", err, tc.want)
			}
			s.Stop()
			change(t, dir, func(tx storage.Tx) error {
				for rec, err := range tx.Scan(storage.Range{}) {
					if err != nil || string(rec.Key) != tc.table {
						t.Errorf("the refused server wrote %q, %v", rec.Key, err)
					}
				}
				return nil
			})
			if _, err := servertest.Run(t, "", "storage", "copy", dir, filepath.Join(t.TempDir(), "to")); err == nil {
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
