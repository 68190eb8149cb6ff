package storage

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// Records are CBOR (RFC 8949): compact, fast to read, and an older reader ignores members that it does not know. Times
// are seconds since 1970 with microseconds, the zero time is null.
var (
	encoding = must(cbor.EncOptions{Time: cbor.TimeUnixMicro, Sort: cbor.SortNone}.EncMode())
	// Strings in records are bytes, such as hashes, so they need not be UTF-8.
	decoding = must(cbor.DecOptions{DupMapKey: cbor.DupMapKeyQuiet, UTF8: cbor.UTF8DecodeInvalid}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Table is the set of records of one type, under keys that start with the table's name. Tables are package variables in
// records.go and hold no state.
type Table[T any] struct {
	name string
}

// NewTable names a table. The name is part of every stored key and never changes once released.
func NewTable[T any](name string) Table[T] {
	if name == "" || strings.ContainsAny(name, "/\x00") {
		panic("storage: bad table name " + name)
	}
	t := Table[T]{name: name + "/"}
	register(TableInfo{Name: name, Recode: t.recode})
	return t
}

// Entry is an entry that Table.Scan yields: the key without the table's name.
type Entry[T any] struct {
	Key   string
	Value T
}

// Key returns the stored key of a record, for GetMany and tests.
func (t Table[T]) Key(key string) []byte {
	b := make([]byte, 0, len(t.name)+len(key))
	b = append(b, t.name...)
	return append(b, key...)
}

// Get returns the record of key, or ErrNotFound. A record that cannot be read is ErrCorrupt.
func (t Table[T]) Get(tx Tx, key string) (T, error) {
	var v T
	raw, err := tx.Get(t.Key(key))
	if err != nil {
		return v, err
	}
	err = t.decode(raw, &v)
	return v, err
}

// Find returns the record of key and true, or the zero value and false when no record has the key. It is Get for
// callers to whom an absent record means the zero value; use Get where absence is a verdict of its own. On an error
// the value is zero and the answer false. A record that cannot be read is ErrCorrupt.
func (t Table[T]) Find(tx Tx, key string) (T, bool, error) {
	v, err := t.Get(tx, key)
	if err == nil {
		return v, true, nil
	}
	var zero T
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return zero, false, err
}

// Has reports whether a record of key exists.
func (t Table[T]) Has(tx Tx, key string) (bool, error) {
	v, err := tx.GetMany(t.Key(key))
	if err != nil {
		return false, err
	}
	return v[0] != nil, nil
}

// Size returns how many bytes a record has when it is stored.
func (t Table[T]) Size(v T) int {
	raw, err := encoding.Marshal(v)
	if err != nil {
		return 0 // writing it says so
	}
	return len(raw)
}

// Create writes a record that must not exist yet, or returns ErrExists.
func (t Table[T]) Create(tx Tx, key string, v T, expires time.Time) error {
	raw, err := encoding.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s record: %w", t.name, err)
	}
	return tx.Create(t.Key(key), raw, expires)
}

// Put writes a record and replaces an older one and its expiry.
func (t Table[T]) Put(tx Tx, key string, v T, expires time.Time) error {
	raw, err := encoding.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s record: %w", t.name, err)
	}
	return tx.Put(t.Key(key), raw, expires)
}

// Delete removes a record. It is not an error if there is no such record.
func (t Table[T]) Delete(tx Tx, key string) error {
	return tx.Delete(t.Key(key))
}

// Scan yields the records of r, whose Prefix and After are keys of this table without its name.
func (t Table[T]) Scan(tx Tx, r Range) iter.Seq2[Entry[T], error] {
	r.Prefix = t.Key(string(r.Prefix))
	if r.After != nil {
		r.After = t.Key(string(r.After))
	}
	return func(yield func(Entry[T], error) bool) {
		for rec, err := range tx.Scan(r) {
			var e Entry[T]
			if err == nil {
				e.Key = string(rec.Key[len(t.name):])
				err = t.decode(rec.Value, &e.Value)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Decode returns the record of a value that GetMany has read, or ErrCorrupt if the record cannot be read.
func (t Table[T]) Decode(raw []byte) (T, error) {
	var v T
	err := t.decode(raw, &v)
	return v, err
}

func (t Table[T]) decode(raw []byte, v *T) error {
	if err := decoding.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%w: decode %s record: %w", ErrCorrupt, t.name, err)
	}
	return nil
}

// recode decodes a stored value and encodes the record again.
func (t Table[T]) recode(raw []byte) ([]byte, error) {
	v, err := t.Decode(raw)
	if err != nil {
		return nil, err
	}
	return encoding.Marshal(v)
}

// Key joins parts to one key. Keys sort part by part, and different parts never give the same key: a NUL inside a part
// is written as NUL FF, the separator is NUL 01.
func Key(parts ...string) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(strings.ReplaceAll(p, "\x00", "\x00\xff"))
	}
	return b.String()
}

// Prefix returns the common prefix of every Key that starts with these parts and has more.
func Prefix(parts ...string) []byte {
	return []byte(Key(parts...) + separator)
}

// Parts is the inverse of Key.
func Parts(key string) []string {
	parts := strings.Split(key, separator)
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(p, "\x00\xff", "\x00")
	}
	return parts
}

const separator = "\x00\x01"
