package badgerstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
}

// openWAL finds the log that Badger writes next. Call it after Badger has opened the directory and before anything is
// written.
func openWAL(dir string, sync func(*os.File) error) (*wal, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return nil, err
	}
	w := &wal{dir: dir, sync: sync}
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
	w.file, err = os.Open(w.path(w.fid))
	return w, err
}

func (w *wal) path(fid int) string { return filepath.Join(w.dir, fmt.Sprintf("%05d.mem", fid)) }

// written returns the log with the last commit, which is the newest one. A commit never spans two logs, and Badger may
// have begun this log for it.
func (w *wal) written() (*os.File, error) {
	if w == nil {
		return nil, nil //nolint:nilnil // nothing to sync
	}
	for {
		f, err := os.Open(w.path(w.fid + 1))
		if errors.Is(err, fs.ErrNotExist) {
			return w.file, nil
		}
		if err != nil {
			return nil, err
		}
		w.file, w.fid = f, w.fid+1
	}
}
