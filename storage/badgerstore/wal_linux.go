package badgerstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncsWAL: what was written through a memory map is synced with any descriptor of the file.
const syncsWAL = true

// datasync makes what a file holds durable. (fdatasync(2))
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
