package servertest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/keys/keystest"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// plant puts the shared signing keys where the server will open its store, unless there is one: making an RSA key takes
// longer than most tests. A storage of the test's own choice makes its keys by itself.
func (s *Server) plant() {
	s.T.Helper()
	dir := filepath.Join(s.Dir, "store")
	if _, err := os.Stat(dir + ".key"); err == nil || s.Fresh || s.Key != "" || s.Storage != "storage badger "+dir {
		return
	}
	files, err := plantedFiles()
	if err == nil {
		err = os.WriteFile(dir+".key", []byte(TestKey), 0o600)
	}
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	for name, content := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
		}
	}
	if err != nil {
		s.T.Fatalf("plant signing keys: %v", err)
	}
}

// plantedFiles are the files of a store with signing keys only.
var plantedFiles = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "gatehouse-planted-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, err := badgerstore.Open(context.Background(), badgerstore.Options{Dir: dir, SweepEvery: -1})
	if err != nil {
		return nil, err
	}
	if err := plantKeys(store); err != nil {
		_ = store.Close()
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if e.Name() == "RESERVE" { // large, and the store makes another
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
})

// plantKeys puts the shared signing keys, sealed by TestKey, into an open store.
func plantKeys(store storage.Store) error {
	key, err := shared.ParseKey(TestKey)
	if err != nil {
		return err
	}
	ring, err := secret.NewKeyring(key)
	if err != nil {
		return err
	}
	return keystest.Plant(store, ring, time.Now)
}
