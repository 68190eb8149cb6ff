package pwned

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // see breach.go
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

const (
	hexLength = 2 * sha1.Size
	// maxLine is the length in bytes of a line of hashes: digits, a colon, a count.
	maxLine = 80
	// maxPasswords is the size in bytes of a file of passwords: it is kept in memory as hashes.
	maxPasswords = 64 << 20
	samples      = 256 // places of a file at which its order is checked
)

// list is a file. Sorted hashes are searched on disk, since all known ones take tens of gigabytes; a list of passwords
// is kept in memory as hashes.
type list struct {
	file   *os.File
	size   int64
	hashes [][sha1.Size]byte
}

// openList opens a file: sorted SHA-1 hashes in hexadecimal, each perhaps with a colon and a count, or passwords, one a
// line.
func openList(name string) (out *list, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	l := &list{file: f}
	defer func() {
		if err != nil {
			out, err = nil, errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if l.size = info.Size(); l.size == 0 || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is empty or not a file", name)
	}
	if _, _, err := l.lineAt(0); err == nil {
		return l, l.sorted()
	}
	if l.size > maxPasswords {
		return nil, fmt.Errorf("%s holds no hashes, and is too large for a list of passwords (64 MiB)", name)
	}
	return l, l.load()
}

func (l *list) close() error { return l.file.Close() }

// load reads a list of passwords.
func (l *list) load() error {
	lines := bufio.NewScanner(io.NewSectionReader(l.file, 0, l.size))
	for lines.Scan() {
		if line := bytes.TrimRight(lines.Bytes(), "\r"); len(line) > 0 {
			l.hashes = append(l.hashes, sha1.Sum(line)) //nolint:gosec // see the import
		}
	}
	slices.SortFunc(l.hashes, func(a, b [sha1.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	return lines.Err()
}

// sorted checks samples from all over the file: in a file of another order no password would be found.
func (l *list) sorted() error {
	var last [sha1.Size]byte
	for i := range int64(samples) {
		h, _, err := l.lineAt(l.size / samples * i)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if bytes.Compare(h[:], last[:]) < 0 {
			return errors.New("the hashes are not sorted: take the file that is ordered by hash")
		}
		last = h
	}
	return nil
}

// has reports whether the list has a hash.
func (l *list) has(want [sha1.Size]byte) (bool, error) {
	if l.hashes != nil {
		_, ok := slices.BinarySearchFunc(l.hashes, want, func(a, b [sha1.Size]byte) int { return bytes.Compare(a[:], b[:]) })
		return ok, nil
	}
	low, high := int64(0), l.size // the line, if it exists, begins in [low, high)
	for low < high {
		middle := low + (high-low)/2
		got, end, err := l.lineAt(middle)
		if errors.Is(err, io.EOF) {
			high = middle
			continue
		}
		if err != nil {
			return false, err
		}
		switch c := bytes.Compare(got[:], want[:]); {
		case c == 0:
			return true, nil
		case c < 0:
			low = end
		default:
			high = middle
		}
	}
	return false, nil
}

// lineAt returns the hash of the first line that begins at or after a place, and where that line ends, or
// io.EOF.
func (l *list) lineAt(at int64) (hash [sha1.Size]byte, end int64, err error) {
	from := max(at-1, 0) // a line begins after the end of another
	buf := make([]byte, 2*maxLine)
	n, err := l.file.ReadAt(buf, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return hash, 0, err
	}
	buf = buf[:n]
	if at > 0 {
		i := bytes.IndexByte(buf, '\n')
		if i < 0 {
			if from+int64(n) >= l.size {
				return hash, 0, io.EOF
			}
			return hash, 0, errors.New("a line is too long")
		}
		buf, from = buf[i+1:], from+int64(i)+1
	}
	line, _, whole := bytes.Cut(buf, []byte("\n"))
	if len(line) == 0 && from >= l.size {
		return hash, 0, io.EOF
	}
	end = from + int64(len(line))
	if whole {
		end++
	}
	digits, _, _ := bytes.Cut(bytes.TrimRight(line, "\r"), []byte(":"))
	if len(digits) != hexLength {
		return hash, 0, fmt.Errorf("a line has no hash of %d digits", hexLength)
	}
	_, err = hex.Decode(hash[:], digits)
	return hash, end, err
}
