// Package transfer copies all records of a store, whatever its engine: into a backup, out of one, or into another
// store.
package transfer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/gatehouse-id/gatehouse/storage"
)

// A backup is a line that names its format, the records in the order of their keys, and an end with the number of
// records and the hash of everything before it, which reveals a cut or damaged stream.
//
//	record: 'r', length of the key, length of the rest (uvarints), key, checksum, expiry, value
//	end:    'e', number of records (8 bytes), SHA-256 of all bytes before this hash
//
// The checksum (8 bytes) covers key, expiry and value. The expiry (8 bytes) is in microseconds since 1970, 0: never.
const archiveHead = "gatehouse backup 1\n"

const (
	archiveRecord = 'r'
	archiveEnd    = 'e'
	// recordHead is the length of checksum and expiry.
	recordHead = 16
)

// Writer writes a backup. Every engine writes the same, so a backup of one can be restored into another.
type Writer struct {
	out   *bufio.Writer
	sum   hash.Hash
	all   io.Writer
	count uint64
}

// NewWriter begins a backup.
func NewWriter(w io.Writer) (*Writer, error) {
	b := &Writer{out: bufio.NewWriterSize(w, 64<<10), sum: sha256.New()}
	b.all = io.MultiWriter(b.out, b.sum)
	_, err := io.WriteString(b.all, archiveHead)
	return b, err
}

// Add writes the next record. Keys ascend.
func (b *Writer) Add(rec storage.Record) error {
	head := []byte{archiveRecord}
	head = binary.AppendUvarint(head, uint64(len(rec.Key)))
	head = binary.AppendUvarint(head, uint64(recordHead+len(rec.Value)))
	head = append(head, rec.Key...)
	expiry := micros(rec.Expires)
	head = binary.BigEndian.AppendUint64(head, recordSum(rec.Key, expiry, rec.Value))
	head = binary.BigEndian.AppendUint64(head, expiry)
	b.count++
	if _, err := b.all.Write(head); err != nil {
		return err
	}
	_, err := b.all.Write(rec.Value)
	return err
}

// End completes the backup.
func (b *Writer) End() error {
	if _, err := b.all.Write(binary.BigEndian.AppendUint64([]byte{archiveEnd}, b.count)); err != nil {
		return err
	}
	if _, err := b.out.Write(b.sum.Sum(nil)); err != nil {
		return err
	}
	return b.out.Flush()
}

// micros never returns 0, which is "never", for a time.
func micros(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	if us := t.UnixMicro(); us != 0 {
		return uint64(us) //nolint:gosec // it is turned back in the same way
	}
	return 1
}

func timeOf(us uint64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(us)) //nolint:gosec // micros made it
}

func recordSum(key []byte, expiry uint64, value []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(key))))
	_, _ = d.Write(key)
	_, _ = d.Write(binary.BigEndian.AppendUint64(nil, expiry))
	_, _ = d.Write(value)
	return d.Sum64()
}

// Reader reads a backup.
type Reader struct {
	r     *bufio.Reader
	sum   hash.Hash
	count uint64
	prior []byte // the last key: they ascend
}

var errCut = errors.New("the backup is cut short or damaged")

// NewReader begins to read a backup.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	head := make([]byte, len(archiveHead))
	if err := b.read(head); err != nil || string(head) != archiveHead {
		return nil, errors.New("this is not a backup, or of another version")
	}
	return b, nil
}

// Next returns the next record. io.EOF: the backup is complete and undamaged.
func (b *Reader) Next() (rec storage.Record, err error) {
	kind, err := b.ReadByte()
	if err != nil {
		return rec, err
	}
	if kind == archiveEnd {
		return rec, b.end()
	}
	if kind != archiveRecord {
		return rec, errCut
	}
	klen, err := binary.ReadUvarint(b)
	if err != nil {
		return rec, err
	}
	vlen, err := binary.ReadUvarint(b)
	if err != nil {
		return rec, err
	}
	if klen > storage.MaxKey || vlen < recordHead || vlen > storage.MaxValue+recordHead {
		return rec, errCut
	}
	key, stored := make([]byte, klen), make([]byte, vlen)
	if err := errors.Join(b.read(key), b.read(stored)); err != nil {
		return rec, errCut
	}
	sum, expiry := binary.BigEndian.Uint64(stored), binary.BigEndian.Uint64(stored[8:])
	rec = storage.Record{Key: key, Value: stored[recordHead:], Expires: timeOf(expiry)}
	if sum != recordSum(key, expiry, rec.Value) || b.count > 0 && bytes.Compare(key, b.prior) <= 0 {
		return storage.Record{}, errCut
	}
	b.prior = key
	b.count++
	return rec, nil
}

func (b *Reader) read(p []byte) error {
	if _, err := io.ReadFull(b.r, p); err != nil {
		return cut(err)
	}
	_, _ = b.sum.Write(p)
	return nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return fmt.Errorf("read the backup: %w", err)
}

// ReadByte implements io.ByteReader for the uvarints.
func (b *Reader) ReadByte() (byte, error) {
	var p [1]byte
	err := b.read(p[:])
	return p[0], err
}

// end returns io.EOF if the end is correct.
func (b *Reader) end() error {
	var n [8]byte
	if err := b.read(n[:]); err != nil {
		return err
	}
	want, got := b.sum.Sum(nil), make([]byte, sha256.Size)
	if err := b.read(got); err != nil {
		return err
	}
	if !bytes.Equal(want, got) || binary.BigEndian.Uint64(n[:]) != b.count {
		return errCut
	}
	if _, err := b.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("the backup continues after its end")
	}
	return io.EOF
}
