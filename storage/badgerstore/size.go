package badgerstore

import (
	"errors"
	"io/fs"
	"os"
)

// SizeOnDisk returns the space that the files of a store's directory take, the reserve included. Badger makes files
// larger than what is in them, so their blocks count.
func SizeOnDisk(dir string) (size int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return 0, err
		}
		if info.Mode().IsRegular() {
			size += allocated(info)
		}
	}
	return size, nil
}
