package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"
)

// sideName is the file with the number of the last acknowledged commit, next to Badger's own files.
const sideName = "COMMITS"

// sideFile has two slots, written in turn, so a slot torn by a power loss loses one number only. It is not synced:
// after a power loss it may name an older commit than Badger has, never a newer one.
type sideFile struct {
	f    *os.File
	path string      // where the operator sees it
	st   os.FileInfo // of f
	mark mark
}

const (
	slotSize = 16  // seq and its checksum
	slotStep = 512 // apart, so no sector holds both
)

func slot(seq uint64) []byte {
	var b [slotSize]byte
	binary.BigEndian.PutUint64(b[:], seq)
	binary.BigEndian.PutUint64(b[8:], xxhash.Sum64(b[:8]))
	return b[:]
}

// openSideFile opens the file in dir, which is called name, or makes one that says seq.
func openSideFile(dir, name string, seq uint64) (_ *sideFile, err error) {
	s := &sideFile{path: filepath.Join(name, sideName)}
	if s.f, err = os.OpenFile(filepath.Join(dir, sideName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if s.mark, err = readMark(s.f); err == nil && s.mark == (mark{}) { // it is new, or the process ended while it was made
		if s.mark, err = newMark(); err == nil {
			err = errors.Join(s.write(seq), s.mark.write(s.f), s.f.Sync(), syncDir(dir))
		}
	}
	if err == nil {
		s.st, err = s.f.Stat()
	}
	if err != nil {
		return nil, errors.Join(err, s.f.Close())
	}
	return s, nil
}

// present returns an error when another file, or none, is where this one was.
func (s *sideFile) present() error {
	st, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(st, s.st) {
		return fmt.Errorf("%w: %s is not the file that was opened", ErrRemoved, sideName)
	}
	return err
}

func (s *sideFile) write(seq uint64) error {
	if s == nil {
		return nil // in memory
	}
	if _, err := s.f.WriteAt(slot(seq), int64(seq%2)*slotStep); err != nil {
		return fmt.Errorf("write the commit number: %w", err)
	}
	return nil
}

func (s *sideFile) close() error { return errors.Join(s.f.Sync(), s.f.Close()) }

// checkSideFile refuses a directory whose side file names a commit that is missing.
func checkSideFile(dir string, last diskState) error {
	f, err := os.Open(filepath.Join(dir, sideName))
	if errors.Is(err, fs.ErrNotExist) {
		if last.seq == 0 {
			return nil
		}
		return lost("%s is missing, which holds the number of the last commit", sideName)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := readMark(f)
	if err != nil {
		return err
	}
	if m == (mark{}) && last.seq > 0 {
		return lost("%s does not say which format the store has", sideName)
	}
	var seq uint64
	intact := 0
	for i := range int64(2) {
		var b [slotSize]byte
		if _, err := f.ReadAt(b[:], i*slotStep); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n := binary.BigEndian.Uint64(b[:]); string(slot(n)) == string(b[:]) {
			intact++
			seq = max(seq, n)
		}
	}
	switch {
	case intact == 0 && last.seq == 0:
		return nil // a power loss while the store was made
	case intact == 0:
		return lost("%s, which holds the number of the last commit, is damaged", sideName)
	case seq > last.seq:
		return lost("commit %d was answered, but the last one found is %d", seq, last.seq)
	}
	return nil
}
