package badgerstore

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/gatehouse-id/gatehouse/storage"
)

// format is the newest form of a storage directory that this version reads. A version that writes what this one would
// misread has a higher number.
const format = 1

// mark says which form a storage directory has, and which store it is: a copy has the mark of the original, a backup
// that was restored has its own. It is in the file of the commit numbers, after them.
type mark struct {
	format uint64 // 0: there is no mark
	id     [16]byte
}

const (
	markAt    = 2 * slotStep
	markMagic = "GHSTORE\x00"
	markSize  = len(markMagic) + 8 + 16 + 8 // magic, format, id, checksum
)

func newMark() (mark, error) {
	m := mark{format: format}
	_, err := rand.Read(m.id[:])
	return m, err
}

func (m mark) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte(markMagic), m.format)
	b = append(b, m.id[:]...)
	return binary.BigEndian.AppendUint64(b, xxhash.Sum64(b))
}

func (m mark) write(f *os.File) error {
	_, err := f.WriteAt(m.encode(), markAt)
	return err
}

// readMark returns the mark in the file of the commit numbers, or the zero mark.
func readMark(f *os.File) (mark, error) {
	b := make([]byte, markSize)
	if _, err := f.ReadAt(b, markAt); err != nil && !errors.Is(err, io.EOF) {
		return mark{}, err
	}
	if bytes.Equal(b, make([]byte, markSize)) {
		return mark{}, nil
	}
	var m mark
	m.format = binary.BigEndian.Uint64(b[len(markMagic):])
	copy(m.id[:], b[len(markMagic)+8:])
	if !bytes.Equal(m.encode(), b) || m.format == 0 {
		return mark{}, lost("%s, which says which format the store has, is damaged", sideName)
	}
	return m, nil
}

// markIn returns the mark of a directory, the zero mark if it has none.
func markIn(dir string) (mark, error) {
	f, err := os.Open(filepath.Join(dir, sideName))
	if errors.Is(err, fs.ErrNotExist) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	defer f.Close()
	return readMark(f)
}

// checkFormat refuses a directory that a newer version has written. It comes before all other checks: they would take
// what they do not know for damage.
func checkFormat(dir string) error {
	m, err := markIn(dir)
	if err == nil && m.format > format {
		err = fmt.Errorf("%w (its directory has format %d, this version reads %d)", storage.ErrNewer, m.format, format)
	}
	return err
}

// wantedIn returns ErrRemoved unless a directory is that of the store with this mark.
func (m mark) wantedIn(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, sideName)); err != nil {
		return fmt.Errorf("%w: %w", ErrRemoved, err)
	}
	is, err := markIn(dir)
	if err == nil && is != m {
		err = fmt.Errorf("%w: another store is in its place", ErrRemoved)
	}
	return err
}
