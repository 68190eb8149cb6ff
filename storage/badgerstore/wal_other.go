//go:build !linux

package badgerstore

import "os"

// syncsWAL is off: it is not certain here that what was written through a memory map is synced with a descriptor of the file. Badger syncs.
const syncsWAL = false

func datasync(f *os.File) error { return f.Sync() }
