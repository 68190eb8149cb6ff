package transfer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteFile writes a file that must not exist yet, mode 0600, complete and synced, or none.
func WriteFile(path string, write func(io.Writer) error) (n int64, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, fmt.Errorf("%s exists already", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // linked below, or not needed
	out := &counting{to: f}
	err = write(out)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, fmt.Errorf("the backup broke off: %w", err)
	}
	return out.n, os.Link(f.Name(), path) // unlike Rename, it never replaces
}

// counting counts what is written.
type counting struct {
	to io.Writer
	n  int64
}

// Write implements io.Writer.
func (c *counting) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// CheckFile reads a backup to its end and returns how many records it has. An error says that it is not whole.
func CheckFile(path string) (records int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	r, err := NewReader(f)
	for err == nil {
		if _, err = r.Next(); err == nil {
			records++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return records, err
}
