//go:build !(linux || darwin || freebsd || dragonfly)

package badgerstore

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// freeSpace is unknown here, so the watermark never refuses.
func freeSpace(string) (uint64, error) { return math.MaxUint64, nil }

// allocated is the length of a file: its blocks are unknown here.
func allocated(info fs.FileInfo) int64 { return info.Size() }

// locksForBadger is false: Badger's own lock keeps other processes out.
const locksForBadger = false

type dirLock struct{ file *os.File }

// lockDir makes the file that has the lock elsewhere.
func lockDir(dir string) (*dirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() error { return l.file.Close() }

// linked does not look: an open file cannot be removed here.
func linked(*os.File) error { return nil }

// syncDir does nothing: directories cannot be synced here.
func syncDir(string) error { return nil }
