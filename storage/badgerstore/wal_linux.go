package badgerstore

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncsWAL: writes through a memory map can be synced with any descriptor of the file.
const syncsWAL = true

// datasync makes the content of a file durable. (fdatasync(2))
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// anchor returns a path to the locked directory that leads there even when dir was renamed or replaced, or another file
// system was mounted over it. It returns dir where there is no /proc.
func anchor(l *dirLock, dir string) string {
	path := fmt.Sprintf("/proc/self/fd/%d", l.dir.Fd())
	is, err := l.dir.Stat()
	if err != nil {
		return dir
	}
	if st, err := os.Stat(path); err != nil || !os.SameFile(st, is) {
		return dir
	}
	return path
}

// allocate gives a log that Badger has made its blocks, so writing to it through the memory map never meets a full
// disk. It does what it can: without blocks there is still the watermark.
func allocate(log string) {
	f, err := os.OpenFile(log, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > 0 {
		_ = unix.Fallocate(int(f.Fd()), 0, 0, st.Size())
	}
}

// makeLog makes the file of a log that Badger will begin, with the blocks for it and still of no length: so Badger
// takes it for a new one, and its first write through the memory map has its blocks. It makes none where the file
// system cannot set blocks aside.
func makeLog(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, logSize)
	unable := errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(name))
	}
	if unable {
		return nil
	}
	return err
}

// reserve gives a file blocks for size bytes. ok is false where the file system cannot.
func reserve(f *os.File, size int64) (ok bool, err error) {
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return false, nil
	}
	return err == nil, err
}
