package caddymodule_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	_ "github.com/gatehouse-id/gatehouse/caddymodule" // every table
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// kinds are tables of which each stored version has records.
var kinds = strings.Fields(`
	authz_app_password authz_client authz_consent authz_grant authz_key authz_refresh
	backup_schedule config_key_pair config_own_key config_unit event_chain event_log
	identity_access_request identity_by_email identity_group identity_group_member identity_password identity_person identity_profile
	identity_session identity_sessions identity_step_up identity_value logo logo_file`)

// TestStoredRecords reads each record that an earlier version has written, in a directory and in a database, as a
// record of now, which must have lost nothing of it.
func TestStoredRecords(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../e2e/testdata/stored-v*.gz")
	if err != nil || len(names) < 2 {
		t.Fatalf("stored versions = %q, %v", names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			packed, err := os.Open(name) //nolint:gosec // of this tree
			if err != nil {
				t.Fatal(err)
			}
			defer packed.Close()
			z, err := gzip.NewReader(packed)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, ".sql.gz") {
				readBack(t, storedDatabase(t, z))
				return
			}
			readBack(t, storedDirectory(t, z))
		})
	}
}

func storedDatabase(t *testing.T, z io.Reader) storage.Store {
	t.Helper()
	statements, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	server, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	server.Exec(t, pgtest.Database, string(statements))
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: server.URL(pgtest.Database), SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func storedDirectory(t *testing.T, z io.Reader) storage.Store {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		raw, err := io.ReadAll(r)
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, filepath.Base(h.Name)), raw, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := badgerstore.Open(t.Context(), badgerstore.Options{Dir: dir, SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// holds reports whether a record has all that an earlier form of it has.
func holds(t *testing.T, now, before []byte) bool {
	t.Helper()
	plain, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode() // as package storage reads
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(plain.Unmarshal(now, &a), plain.Unmarshal(before, &b)); err != nil {
		t.Fatal(err)
	}
	members, ok := b.(map[any]any)
	if !ok {
		return reflect.DeepEqual(a, b)
	}
	has, ok := a.(map[any]any)
	for name, value := range members {
		if !ok || !reflect.DeepEqual(has[name], value) {
			return false
		}
	}
	return true
}

// readBack reads all records of all tables.
func readBack(t *testing.T, s storage.Store) {
	t.Helper()
	recode := map[string][]func([]byte) ([]byte, error){}
	for _, table := range storage.Tables() {
		recode[table.Name] = append(recode[table.Name], table.Recode)
	}
	found := map[string]int{}
	err := s.View(t.Context(), func(tx storage.Tx) error {
		clear(found)
		for r, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			table, _, _ := strings.Cut(string(r.Key), "/")
			found[table]++
			whole := false
			for _, recode := range recode[table] {
				again, err := recode(r.Value)
				whole = whole || err == nil && holds(t, again, r.Value)
			}
			if !whole {
				t.Errorf("a record of %s cannot be read, or loses something: %x", table, r.Value)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		if found[kind] == 0 {
			t.Errorf("no record of %s is there", kind)
		}
	}
	t.Logf("records: %v", found)
}
