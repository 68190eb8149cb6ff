package badgerstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The process may run out of file descriptors when Badger begins a log. It does so rarely, so the writer can wait.
const (
	openTries = 100
	openWait  = 50 * time.Millisecond
)

// wal syncs the log that Badger writes ahead of its tables: one file for each table in memory, the newest with the
// highest number. Badger's own sync (SyncWrites) would flush the disk twice for each commit, for this log and for the
// value log, which is not used here, and would hold up the next commit meanwhile. A nil *wal syncs nothing: in memory,
// and where Badger syncs itself.
type wal struct {
	dir  string
	fid  int
	file *os.File // the newest; it stays readable after Badger has removed it
	sync func(*os.File) error

	open    func(name string) (*os.File, error) // os.Open; tests replace it
	wait    func(time.Duration)                 // between attempts to open a log
	folder  *os.File                            // dir, for the sync of its entries
	reserve *os.File                            // a descriptor to give up when there is no other. nil: given up
}

// openWAL finds the log that Badger writes next. Call it after Badger has opened the directory and before anything is
// written.
func openWAL(dir string, sync func(*os.File) error) (*wal, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return nil, err
	}
	w := &wal{dir: dir, sync: sync, open: os.Open, wait: time.Sleep}
	for _, name := range names {
		var fid int
		if _, err := fmt.Sscanf(filepath.Base(name), "%05d.mem", &fid); err != nil {
			return nil, fmt.Errorf("a log with another name than Badger gives: %s", filepath.Base(name))
		}
		w.fid = max(w.fid, fid)
	}
	if len(names) == 0 {
		return nil, errors.New("badger has opened no log")
	}
	for _, f := range []struct {
		to   **os.File
		name string
	}{{&w.file, w.path(w.fid)}, {&w.folder, dir}, {&w.reserve, dir}} {
		if *f.to, err = os.Open(f.name); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func (w *wal) close() {
	if w == nil {
		return
	}
	for _, f := range []*os.File{w.file, w.folder, w.reserve} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (w *wal) path(fid int) string { return filepath.Join(w.dir, fmt.Sprintf("%05d.mem", fid)) }

// written returns the log with the last commit, which is the newest one. A commit never spans two logs, and Badger may
// have begun this log for it. Nothing is opened while there is no newer log: a process that has run out of descriptors
// goes on committing.
func (w *wal) written() (*os.File, error) {
	if w == nil {
		return nil, nil //nolint:nilnil // nothing to sync
	}
	for {
		next := w.path(w.fid + 1)
		if _, err := os.Lstat(next); errors.Is(err, fs.ErrNotExist) {
			return w.file, nil
		} else if err != nil {
			return nil, err
		}
		f, err := w.begin(next)
		if err != nil {
			return nil, err
		}
		w.file, w.fid = f, w.fid+1
	}
}

// begin opens a log that Badger has begun and makes its directory entry durable, so that no answer rests on a log that
// a power loss makes disappear.
func (w *wal) begin(name string) (*os.File, error) {
	f, err := w.open(name)
	for range openTries {
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
			break
		}
		if w.reserve != nil {
			_ = w.reserve.Close()
			w.reserve = nil
		} else {
			w.wait(openWait)
		}
		f, err = w.open(name)
	}
	if err != nil {
		return nil, err
	}
	if err := w.folder.Sync(); err != nil {
		_ = f.Close()
		return nil, err
	}
	if w.reserve == nil {
		w.reserve, _ = w.open(w.dir) // nil again while there are no descriptors
	}
	return f, nil
}
