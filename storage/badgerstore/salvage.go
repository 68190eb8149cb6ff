package badgerstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// rewriteLogs writes what the logs hold once more and syncs it. After a sync that failed, Linux counts pages as clean
// that are not on the disk: they can be read, also by the next process, until they are evicted. Only writing them again
// makes them durable.
func rewriteLogs(dir string, last diskState, sync func(*os.File) error) error {
	for name, end := range last.logs {
		if end == 0 {
			continue
		}
		if err := rewrite(filepath.Join(dir, name), end, sync); err != nil && !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("write %s again: %w", name, err)
		}
	}
	return nil
}

func rewrite(path string, size int64, sync func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	content := make([]byte, size)
	if _, err := io.ReadFull(f, content); err != nil {
		return err
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	return sync(f)
}

// trimLogs cuts the logs after their last commit and removes those without one, as Badger does when it may write. It
// needs no space.
func trimLogs(dir string, last diskState) error {
	for name, end := range last.logs {
		path := filepath.Join(dir, name)
		if end == 0 {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		if err := os.Truncate(path, end); err != nil {
			return err
		}
	}
	return nil
}
