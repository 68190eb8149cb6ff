//go:build !linux

package badgerstore

import "os"

// syncsWAL is off, so Badger syncs: here it is uncertain whether a descriptor of the file syncs writes through a memory
// map.
const syncsWAL = false

func datasync(f *os.File) error { return f.Sync() }
