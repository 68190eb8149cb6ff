//go:build linux || darwin || freebsd || dragonfly

package badgerstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// freeSpace returns the bytes that a process without privileges may still use on the file system of dir.
func freeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint64(max(int64(st.Bavail), 0)) * uint64(st.Bsize), nil //nolint:unconvert // the types differ between systems
}

// lockDir reserves the directory for this process until the file is closed.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		owner := readPID(f)
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			if owner != 0 && owner != os.Getpid() {
				return nil, fmt.Errorf("%w (process %d)", errInUse, owner)
			}
			return nil, errInUse
		}
		return nil, fmt.Errorf("lock the directory: %w", err)
	}
	writePID(f)
	return f, nil
}

// linked returns an error when a file that is open has no name any more.
func linked(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Nlink == 0 {
		return fmt.Errorf("%w: %s is gone", ErrRemoved, filepath.Base(f.Name()))
	}
	return nil
}

// readPID returns the process that has the lock, as it wrote into the file. 0: unknown.
func readPID(f *os.File) int {
	raw := make([]byte, 20)
	n, _ := f.ReadAt(raw, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// writePID notes this process for the message to others. The lock holds without it, so that an error does no harm.
func writePID(f *os.File) {
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
}

// syncDir makes created, renamed and removed names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
