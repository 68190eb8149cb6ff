package badgerstore

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/gatehouse-id/gatehouse/storage"
)

// A backup is a line that names its format, the records in the order of their keys, and an end with the number of
// records and the hash of everything before it, which reveals a cut or damaged stream.
//
//	record: 'r', length of the key, length of the stored record (uvarints), key, stored record with expiry and checksum
//	end:    'e', number of records (8 bytes), SHA-256 of all bytes before this hash
const backupHead = "gatehouse backup 1\n"

const (
	backupRecord = 'r'
	backupEnd    = 'e'
)

// restoring is the directory in which a restore builds the store. Open refuses while it exists.
const restoring = "RESTORING"

// Backup implements storage.Backuper. Reads and writes continue meanwhile; disk space of what they replace is kept
// until it ends. A damaged record ends it with storage.ErrCorrupt.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	sum := sha256.New()
	all := io.MultiWriter(out, sum)
	if _, err := io.WriteString(all, backupHead); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	count := uint64(0)
	err := s.View(ctx, func(t storage.Tx) error {
		for rec, err := range t.(*tx).scanStored() {
			if err == nil && count%256 == 0 {
				err = ctx.Err()
			}
			if err == nil {
				err = checkRecord(rec.Key, rec.Value)
			}
			if err != nil {
				return err
			}
			head := []byte{backupRecord}
			head = binary.AppendUvarint(head, uint64(len(rec.Key)))
			head = binary.AppendUvarint(head, uint64(len(rec.Value)))
			for _, b := range [...][]byte{head, rec.Key, rec.Value} {
				if _, err := all.Write(b); err != nil {
					return err
				}
			}
			count++
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	end := binary.BigEndian.AppendUint64([]byte{backupEnd}, count)
	_, err = all.Write(end)
	if err == nil {
		_, err = out.Write(sum.Sum(nil))
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

// scanStored yields every record as it is stored, in the order of the keys. It is for views: it ignores the overlay.
// The caller owns Key and Value; the checksum is not checked.
func (t *tx) scanStored() iter.Seq2[storage.Record, error] {
	return func(yield func(storage.Record, error) bool) {
		it, err := t.iterator(badger.IteratorOptions{Prefix: []byte{recordSpace}})
		if err != nil {
			yield(storage.Record{}, err)
			return
		}
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			rec := storage.Record{Key: slices.Clone(it.Item().Key()[1:])}
			err := it.Item().Value(func(v []byte) error {
				if len(v) < recordHead {
					return checkRecord(rec.Key, v)
				}
				rec.Value = slices.Clone(v)
				return nil
			})
			if err != nil {
				yield(rec, readError(err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// Restore builds a store from a backup in o.Dir, which must be missing or empty. It is all or nothing: a damaged or cut
// stream leaves the directory empty. After the records it runs after, if not nil, on the new store, before any other
// process can open it.
func Restore(ctx context.Context, o Options, r io.Reader, after func(storage.Tx) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore into %s: %w", o.Dir, err)
		}
	}()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	lock, err := lockDir(o.Dir) // a server or another restore may hold it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	if err := emptyDir(o.Dir); err != nil {
		return err
	}
	work := filepath.Join(o.Dir, restoring)
	if err := os.RemoveAll(work); err != nil { // left by a restore that was killed
		return err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	if err := restoreInto(ctx, o, work, r, after); err != nil {
		return errors.Join(err, os.RemoveAll(work))
	}
	return moveUp(work, o.Dir)
}

// emptyDir refuses a directory with anything in it but our lock and the entries that a file system adds itself.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case lockName, restoring, "lost+found":
		default:
			return fmt.Errorf("the directory is not empty, %s is there: move its content away first", e.Name())
		}
	}
	return nil
}

func restoreInto(ctx context.Context, o Options, work string, r io.Reader, after func(storage.Tx) error) error {
	o.Dir, o.SweepEvery = work, -1
	s, err := openDir(ctx, o)
	if err != nil {
		return err
	}
	err = s.load(ctx, r)
	if err == nil && after != nil {
		err = s.Update(ctx, after)
	}
	return errors.Join(err, s.Close())
}

// load writes the records of a backup and then requires its end.
func (s *Store) load(ctx context.Context, r io.Reader) error {
	in := &backupReader{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	head := make([]byte, len(backupHead))
	if err := in.read(head); err != nil || string(head) != backupHead {
		return errors.New("this is not a backup, or of another version")
	}
	for {
		batch, last, err := in.batch(int(s.maxSize)/2, s.maxCount/2)
		if err != nil {
			return err
		}
		if len(batch) > 0 {
			err = s.Update(ctx, func(t storage.Tx) error { return t.(*tx).putStored(batch) })
		}
		if err != nil || last {
			return err
		}
	}
}

// putStored writes records as another store kept them, with their expiries.
func (t *tx) putStored(batch []storage.Record) error {
	for _, rec := range batch {
		if err := t.write(rec.Key, func() []byte { return rec.Value }); err != nil {
			return err
		}
	}
	return nil
}

type backupReader struct {
	r     *bufio.Reader
	sum   hash.Hash
	count uint64
	prior []byte // the last key: they ascend
}

var errCut = errors.New("the backup is cut short or damaged")

func (b *backupReader) read(p []byte) error {
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
func (b *backupReader) ReadByte() (byte, error) {
	var p [1]byte
	err := b.read(p[:])
	return p[0], err
}

// batch reads records until they fill a transaction; last is true when the end was reached and is correct.
func (b *backupReader) batch(size, count int) (batch []storage.Record, last bool, err error) {
	for total := 0; total < size && len(batch) < count; {
		kind, err := b.ReadByte()
		if err != nil {
			return nil, false, err
		}
		if kind == backupEnd {
			return batch, true, b.end()
		}
		rec, err := b.record(kind)
		if err != nil {
			return nil, false, err
		}
		batch = append(batch, rec)
		total += len(rec.Key) + len(rec.Value) + perEntry
	}
	return batch, false, nil
}

func (b *backupReader) record(kind byte) (rec storage.Record, err error) {
	if kind != backupRecord {
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
	rec.Key, rec.Value = make([]byte, klen), make([]byte, vlen)
	if err := errors.Join(b.read(rec.Key), b.read(rec.Value)); err != nil {
		return rec, errCut
	}
	if checkRecord(rec.Key, rec.Value) != nil || b.count > 0 && bytes.Compare(rec.Key, b.prior) <= 0 {
		return rec, errCut
	}
	b.prior = rec.Key
	b.count++
	return rec, nil
}

func (b *backupReader) end() error {
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
	return nil
}

// moveUp moves the finished store to where Open looks. RESTORING is removed last: until then Open refuses.
func moveUp(work, dir string) error {
	entries, err := os.ReadDir(work)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockName {
			if err := os.Remove(filepath.Join(work, lockName)); err != nil {
				return err
			}
			continue
		}
		if err := os.Rename(filepath.Join(work, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	if err := os.Remove(work); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(dir)
}
