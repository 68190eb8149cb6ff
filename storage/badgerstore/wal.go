package badgerstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// The process may run out of file descriptors when Badger begins a log. It does so rarely, so the writer can wait.
const (
	openTries = 100
	openWait  = 50 * time.Millisecond
)

// spares is the number of descriptors that are kept for a new log: Badger needs one for it and one for the table that
// it makes of the log before, we need one to sync it, and one more may be taken by others meanwhile.
const spares = 4

// nodeSize is more than Badger's table in memory takes for a record besides key and value.
const nodeSize = 128

// wal syncs the log that Badger writes ahead of its tables: one file for each table in memory, the newest with the
// highest number. Badger's own sync (SyncWrites) would flush the disk twice for each commit, for this log and for the
// value log, which is not used here, and would hold up the next commit meanwhile. A nil *wal syncs nothing: in memory,
// and where Badger syncs itself.
type wal struct {
	dir  string
	fid  int
	file *os.File // the newest; it stays readable after Badger has removed it
	sync func(*os.File) error

	open   func(name string) (*os.File, error) // os.Open; tests replace it
	wait   func(time.Duration)                 // between attempts to open a log
	make   func(name string) error             // makes the file of a log; tests replace it
	folder *os.File                            // dir, for the sync of its entries
	spare  []*os.File                          // descriptors to give up when a log begins
	filled int64                               // bytes in Badger's table in memory, never less than it counts itself
}

// openWAL finds the log that Badger writes next. Call it after Badger has opened the directory and before anything is
// written.
func openWAL(dir string, sync func(*os.File) error) (*wal, error) {
	names, err := logFiles(dir)
	if err != nil {
		return nil, err
	}
	w := &wal{dir: dir, sync: sync, open: os.Open, wait: time.Sleep, make: makeLog}
	for _, name := range names {
		var fid int
		if _, err := fmt.Sscanf(name, "%05d.mem", &fid); err != nil {
			return nil, fmt.Errorf("a log with another name than Badger gives: %s", name)
		}
		w.fid = max(w.fid, fid)
	}
	if len(names) == 0 {
		return nil, errors.New("badger has opened no log")
	}
	for _, f := range []struct {
		to   **os.File
		name string
	}{{&w.file, w.path(w.fid)}, {&w.folder, dir}} {
		if *f.to, err = os.Open(f.name); err != nil {
			w.close()
			return nil, err
		}
	}
	allocate(w.file.Name())
	return w, w.keep()
}

func (w *wal) close() {
	if w == nil {
		return
	}
	w.yield()
	for _, f := range []*os.File{w.file, w.folder} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (w *wal) path(fid int) string { return filepath.Join(w.dir, fmt.Sprintf("%05d.mem", fid)) }

// ready makes sure of descriptors and of the next log's blocks before closures run, if their batch may make Badger
// begin another log: Badger would be of no use after it could not open one, and a process that writes to a log
// without blocks on a full disk dies of SIGBUS. It waits for descriptors for a while. On an error nothing has been
// written.
func (w *wal) ready() error {
	if w == nil || w.filled+2*spareBatch < memTableSize {
		return nil
	}
	err := w.keep()
	for n := 0; noDescriptors(err) && n < openTries; n++ {
		w.wait(openWait)
		err = w.keep()
	}
	if err != nil {
		return fmt.Errorf("%w: a new log needs file descriptors: %w", storage.ErrUnavailable, err)
	}
	err = w.make(w.path(w.fid + 1))
	switch {
	case err == nil, errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: a new log needs %d MiB: %w", storage.ErrFull, logSize>>20, err)
	}
	return fmt.Errorf("%w: make a new log: %w", storage.ErrUnavailable, err)
}

// logSize is the size that Badger gives to a new log.
const logSize = 2 * memTableSize

// spareBatch is more than the size of a batch in bytes.
const spareBatch = 2 << 20

// commit runs a commit of Badger that adds size bytes in so many records. Descriptors are free meanwhile if it may
// begin another log.
func (w *wal) commit(size int64, records int, run func() error) error {
	if w == nil {
		return run()
	}
	full := w.filled >= memTableSize
	if full {
		w.yield()
	}
	w.filled += size + int64(records)*nodeSize
	err := run()
	if full {
		_ = w.keep() // begin or ready tries again
	}
	return err
}

// keep takes the spare descriptors that are missing.
func (w *wal) keep() error {
	for len(w.spare) < spares {
		f, err := w.open(w.dir)
		if err != nil {
			return err
		}
		w.spare = append(w.spare, f)
	}
	return nil
}

// yield gives the spare descriptors up.
func (w *wal) yield() {
	for _, f := range w.spare {
		_ = f.Close()
	}
	w.spare = w.spare[:0]
}

// written returns the log with the last commit, which is the newest one. A commit never spans two logs, and Badger may
// have begun this log for it. Nothing is opened while there is no newer log: a process that has run out of descriptors
// goes on committing.
func (w *wal) written() (*os.File, error) {
	if w == nil {
		return nil, nil //nolint:nilnil // nothing to sync
	}
	for {
		next := w.path(w.fid + 1)
		if st, err := os.Lstat(next); errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() == 0 { // ready has made it
			return w.file, linked(w.file)
		} else if err != nil {
			return nil, err
		}
		f, err := w.begin(next)
		if err != nil {
			return nil, err
		}
		w.file, w.fid, w.filled = f, w.fid+1, spareBatch // the batch that is in it already
	}
}

// begin opens a log that Badger has begun and makes its directory entry durable, so no answer rests on a log that a
// power loss makes disappear.
func (w *wal) begin(name string) (*os.File, error) {
	f, err := w.open(name)
	for range openTries {
		if !noDescriptors(err) {
			break
		}
		if len(w.spare) > 0 {
			w.yield()
		} else {
			w.wait(openWait)
		}
		f, err = w.open(name)
	}
	if err != nil {
		return nil, err
	}
	allocate(name)
	if err := w.folder.Sync(); err != nil {
		_ = f.Close()
		return nil, err
	}
	_ = w.keep() // ready tries again when they are needed
	return f, nil
}

func noDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
