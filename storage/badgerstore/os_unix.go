//go:build linux || darwin || freebsd || dragonfly

package badgerstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

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

// allocated is the space that a file takes on the disk.
func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512 // POSIX leaves the unit open; it is this one on every system here
	}
	return info.Size()
}

// locksForBadger says that lockDir takes Badger's lock, too.
const locksForBadger = true

// dirLock reserves a directory for this process: by our file, and by the lock that programs which know Badger alone ask
// for.
type dirLock struct{ file, dir *os.File }

// lockDir reserves the directory until release.
func lockDir(dir string) (*dirLock, error) {
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
	lock := &dirLock{file: f}
	if lock.dir, err = os.Open(dir); err == nil {
		err = unix.Flock(int(lock.dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, errors.Join(errInUse, lock.release())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock the directory: %w", err), lock.release())
	}
	return lock, nil
}

// release ends the reservation. It unlocks rather than just close the files: a process that this one is starting
// meanwhile has copies of both, which keep a lock until that process runs its own program.
func (l *dirLock) release() (err error) {
	for _, f := range []*os.File{l.dir, l.file} {
		if f != nil {
			err = errors.Join(err, unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
		}
	}
	return err
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

// writePID notes this process for the message to others. The lock holds without it, so an error does no harm.
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
