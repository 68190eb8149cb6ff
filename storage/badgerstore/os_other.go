//go:build !(linux || darwin || freebsd || dragonfly)

package badgerstore

import (
	"math"
	"os"
	"path/filepath"
)

// freeSpace is unknown here, so the watermark never refuses.
func freeSpace(string) (uint64, error) { return math.MaxUint64, nil }

// lockDir relies on Badger's own lock to keep other processes out.
func lockDir(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
}

// linked does not look: an open file cannot be removed here.
func linked(*os.File) error { return nil }

// syncDir does nothing: directories cannot be synced here.
func syncDir(string) error { return nil }
