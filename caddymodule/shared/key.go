package shared

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Storage is a guest module of the namespace gatehouse.storage. It names a store in Provision and opens it when the app
// starts, not before: a configuration is also provisioned to be validated while a server runs.
type Storage interface {
	// Place names what is opened, such as a directory. All configurations of one process with the same place share one
	// opened store.
	Place() string
	// Options are the other options, as text. A reload with the same place and other options is refused.
	Options() string
	// Open opens the store. The caller closes it.
	Open(ctx context.Context, log *zap.Logger) (storage.Store, error)
}

// KeyFiler is a Storage that has a place for an encryption key. With any other storage, encryption_key is required.
type KeyFiler interface {
	// KeyFile returns the path of the key file, and whether the store exists already: then its key must exist too.
	KeyFile() (path string, needed bool)
}

// CheckKeys refuses a storage that has no place for a key, without one.
func CheckKeys(s Storage, keys [][]byte) error {
	if _, ok := s.(KeyFiler); ok || len(keys) > 0 {
		return nil
	}
	return errors.New("encryption_key is required with this storage: add `encryption_key {env.GATEHOUSE_KEY}`; `openssl rand -base64 32` makes one")
}

// warnOfNewStore warns of a store that will be made where there may have been one before, as its key file says or that
// its key is given: the directory may have been removed, or its disk not mounted.
func warnOfNewStore(s Storage, given bool, log *zap.Logger) {
	kf, ok := s.(KeyFiler)
	if !ok {
		return // the engine says it
	}
	path, exists := kf.KeyFile()
	if exists {
		return
	}
	if _, err := os.Stat(path); err == nil {
		log.Warn("there is no storage, but the key of one: a new, empty storage is made. Was its directory removed, or is its disk not mounted?",
			zap.String("storage", s.Place()), zap.String("key", path))
	} else if given {
		log.Warn("there is no storage, but encryption_key is set: a new, empty storage is made. If this is not the first start, was its directory removed, or is its disk not mounted?",
			zap.String("storage", s.Place()))
	}
}

// storedKey returns the key that lies next to the store. It makes one when the store is new too.
func storedKey(s Storage, log *zap.Logger) ([]byte, error) {
	kf, ok := s.(KeyFiler)
	if !ok {
		return nil, CheckKeys(s, nil)
	}
	path, needed := kf.KeyFile()
	key, err := readKeyFile(path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
		return nil, notWritable(s, path, err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if needed {
		return nil, fmt.Errorf("the storage exists, and its key %s is missing: put the file back, or give the key as encryption_key", path)
	}
	key = make([]byte, secret.KeySize)
	if _, err := io.ReadFull(rand.Reader, key); err != nil {
		return nil, err
	}
	if err := writeKeyFile(path, key); err != nil {
		return nil, notWritable(s, path, err)
	}
	log.Info("made an encryption key: keep a copy of it apart from the backups", zap.String("file", path))
	return readKeyFile(path)
}

// notWritable is the error of a storage whose directory cannot be made or used.
func notWritable(s Storage, path string, err error) error {
	return fmt.Errorf("storage %s: its key cannot be read or made in %s by this user: make that a directory that is writable, or name another with `storage`: %w",
		s.Place(), filepath.Dir(path), err)
}

func readKeyFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("encryption key %s can be read by others: chmod 600 it", path)
	}
	raw, err := os.ReadFile(path) //nolint:gosec // the operator's own path
	if err != nil {
		return nil, err
	}
	key, err := ParseKey(strings.TrimSpace(string(raw)))
	if err != nil {
		return nil, fmt.Errorf("encryption key %s: %w", path, err)
	}
	return key, nil
}

// writeKeyFile writes a complete and synced file, or nothing. An existing file stays.
func writeKeyFile(path string, key []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // linked below, or not needed
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(key) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir) //nolint:gosec // the operator's own path
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ParseKey reads an encryption key in base64.
func ParseKey(s string) ([]byte, error) {
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if key, err := enc.DecodeString(s); err == nil {
			if len(key) != secret.KeySize {
				return nil, fmt.Errorf("has %d bytes, want %d: `openssl rand -base64 32` makes one", len(key), secret.KeySize)
			}
			return key, nil
		}
	}
	return nil, fmt.Errorf("want %d bytes in base64: `openssl rand -base64 32` makes one", secret.KeySize)
}
