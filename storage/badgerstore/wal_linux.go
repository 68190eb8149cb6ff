package badgerstore

import (
	"errors"
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
