//go:build !linux

package badgerstore

import "os"

// syncsWAL is off, so Badger syncs: here it is uncertain whether a descriptor of the file syncs writes through a memory
// map.
const syncsWAL = false

func datasync(f *os.File) error { return f.Sync() }

// anchor returns dir: no path follows a directory that is renamed.
func anchor(_ *dirLock, dir string) string { return dir }

// allocate does nothing here: only the watermark keeps logs from a full disk.
func allocate(string) {}

// makeLog makes none here: Badger does.
func makeLog(string) error { return nil }

// reserve cannot set blocks aside here.
func reserve(*os.File, int64) (ok bool, err error) { return false, nil }
