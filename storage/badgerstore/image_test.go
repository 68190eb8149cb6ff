package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// image is the content of a storage directory. Its logs are sparse files of many MiB: zeros at their end are cut off.
type image map[string]file

type file struct {
	data []byte
	size int64
}

func load(t *testing.T, dir string) image {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	img := image{}
	for _, e := range entries {
		f, err := loadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // Badger removed it meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		img[e.Name()] = f
	}
	return img
}

// loadFile reads as far as there are no 64 KiB of zeros: nothing that tests write has as many.
func loadFile(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return file{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return file{}, err
	}
	var b []byte
	part, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := f.ReadAt(part, int64(len(b)))
		if err != nil && !errors.Is(err, io.EOF) {
			return file{}, err
		}
		if bytes.Equal(part[:n], zeros[:n]) {
			return file{bytes.TrimRight(b, "\x00"), st.Size()}, nil
		}
		b = append(b, part[:n]...)
	}
}

// write makes a directory from the image.
func (img image) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, f := range img {
		writeSparse(t, filepath.Join(dir, name), f.data, f.size)
	}
	return dir
}

// names returns the files with an ending, in order.
func (img image) names(ending string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(img)) {
		if strings.HasSuffix(name, ending) {
			names = append(names, name)
		}
	}
	return names
}

func writeSparse(t *testing.T, path string, b []byte, size int64) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, b, 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
}

// copyDir copies a storage directory as a crash would leave it, at one moment. Badger writes tables in the background,
// so copyDir reads file by file until it reads the same twice.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	same := func(a, b file) bool { return a.size == b.size && bytes.Equal(a.data, b.data) }
	for img := load(t, from); ; {
		again := load(t, from)
		if maps.EqualFunc(img, again, same) {
			return img.write(t)
		}
		img = again
	}
}

// fill writes n records of some 3 kB in commits of ten and returns them. A log takes 2,700 of them.
func fill(t *testing.T, s *Store, name string, n int) map[string]string {
	t.Helper()
	want := map[string]string{}
	for i := 0; i < n; i += 10 {
		if err := s.Update(t.Context(), func(tx storage.Tx) error {
			for j := i; j < i+10; j++ {
				k := fmt.Sprintf("%s/%06d", name, j)
				want[k] = strings.Repeat(fmt.Sprintf("%06x.", j*7919), 430)
				if err := tx.Put([]byte(k), []byte(want[k]), time.Time{}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

// readAll compares a store with the records that were acknowledged. It returns how many records are reported as
// damaged, and fails the test for each one that is missing or wrong without a report.
func readAll(t *testing.T, s *Store, want map[string]string) (damaged int) {
	t.Helper()
	missing, wrong := 0, 0
	err := s.View(t.Context(), func(tx storage.Tx) error {
		for k, v := range want {
			got, err := tx.Get([]byte(k))
			switch {
			case errors.Is(err, storage.ErrNotFound):
				missing++
			case err != nil:
				damaged++
			case string(got) != v:
				wrong++
			}
		}
		return nil
	})
	if err != nil || missing+wrong > 0 {
		t.Errorf("of %d records %d are missing and %d are wrong; %v", len(want), missing, wrong, err)
	}
	return damaged
}

func openError(t *testing.T, dir string) error {
	t.Helper()
	s, err := openDir(t.Context(), Options{Dir: dir, SweepEvery: -1})
	if err == nil {
		_ = s.Close()
		t.Errorf("Open of a damaged directory = nil, want an error")
		return errors.New("none")
	}
	return err
}

// wantRefused wants Open to refuse a directory and to leave every byte of it unchanged.
func wantRefused(t *testing.T, dir, because string) {
	t.Helper()
	before := load(t, dir)
	for range 2 { // a refusal must not repair
		if err := openError(t, dir); !strings.Contains(err.Error(), because) || !strings.Contains(err.Error(), "caddy gatehouse restore") {
			t.Errorf("Open = %v, want %q and the command that repairs", err, because)
		}
	}
	after := load(t, dir)
	delete(after, lockName)
	delete(before, lockName)
	for name, f := range before {
		if !bytes.Equal(after[name].data, f.data) || after[name].size != f.size {
			t.Errorf("Open changed %s of a directory that it refused", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("Open left %d files of %d in a directory that it refused", len(after), len(before))
	}
}

func names(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], int64(at))
	b[0] ^= 1
	_, err2 := f.WriteAt(b[:], int64(at))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
}
