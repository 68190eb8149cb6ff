package storage

import (
	"context"
	"hash/maphash"
	"iter"
	"strings"
	"sync/atomic"
)

// Tracker is a Store that can tell later whether what a View has read is still as it was.
// (docs/adr/0006-answers-in-memory.md)
type Tracker interface {
	// Track is View, and returns what fn has rested on. It is nil on an error.
	Track(ctx context.Context, fn func(Tx) error) (*Reading, error)
}

// Reading is what a View has rested on. It is safe for concurrent use.
type Reading struct {
	marks *Marks
	seq   uint64 // the commit that the View saw
	on    []uint32
	loose bool // more than is worth noting: it never holds
}

// Holds tells whether a View that begins now would read the same. It turns false before the first commit that changes
// that can be read, and when the store fails or closes, and never turns true again. It can be false too early.
func (r *Reading) Holds() bool {
	if r == nil || r.loose || r.marks.void.Load() {
		return false
	}
	for _, i := range r.on {
		if r.marks.of[i].Load() > r.seq {
			return false
		}
	}
	return true
}

// maxNoted bounds what a Reading notes. A View that reads more is not worth keeping.
const maxNoted = 256

// Marks is how an engine implements Tracker. It has a mark for each key, which is the number of the last commit that
// has written the key. Many keys share a mark, so that their number is bounded: a commit then seems to have changed
// more than it has. For scans there are marks of the beginnings of keys: of the table, and of each part of Key.
type Marks struct {
	seed maphash.Seed
	of   []atomic.Uint64 // those of keys, then those of beginnings
	keys uint64
	void atomic.Bool
}

// beginnings is how many marks there are for the beginnings of keys. The last one is that of all keys.
const beginnings = 1 << 12

// NewMarks returns the marks of one opening of a store; keys is how many there are for keys.
func NewMarks(keys int) *Marks {
	return &Marks{seed: maphash.MakeSeed(), of: make([]atomic.Uint64, keys+beginnings), keys: uint64(keys)}
}

// Wrote notes that a commit writes a key. The engine calls it before the commit can be read, for one commit after the
// other in their order.
func (m *Marks) Wrote(key string, seq uint64) {
	m.of[m.key(maphash.String(m.seed, key))].Store(seq)
	m.of[len(m.of)-1].Store(seq)
	at := strings.IndexByte(key, '/') + 1
	for end := at; end > 0; end = nextPart(key, end) {
		m.of[m.beginning(key[:end])].Store(seq)
	}
}

// Void says that the store answers no more: no Reading holds from now on.
func (m *Marks) Void() { m.void.Store(true) }

func (m *Marks) key(hash uint64) uint32 { return uint32(hash % m.keys) } //nolint:gosec // there are fewer

func (m *Marks) beginning(text string) uint32 {
	return uint32(m.keys + maphash.String(m.seed, text)%(beginnings-1)) //nolint:gosec // there are fewer
}

// nextPart returns the end of the first separator after from, or 0.
func nextPart(key string, from int) int {
	i := strings.Index(key[from:], separator)
	if i < 0 {
		return 0
	}
	return from + i + len(separator)
}

// Watch returns a transaction that notes what is read in tx, a View of the commit seq.
func (m *Marks) Watch(tx Tx, seq uint64) *Watched {
	return &Watched{Tx: tx, reading: Reading{marks: m, seq: seq, on: make([]uint32, 0, 8)}}
}

// Watched is a View that notes what is read.
type Watched struct {
	Tx

	reading Reading
}

// Reading returns what has been read.
func (w *Watched) Reading() *Reading {
	r := w.reading
	return &r
}

// Get implements Tx.
func (w *Watched) Get(key []byte) ([]byte, error) {
	w.note(w.reading.marks.key(maphash.Bytes(w.reading.marks.seed, key)))
	return w.Tx.Get(key)
}

// GetMany implements Tx.
func (w *Watched) GetMany(keys ...[]byte) ([][]byte, error) {
	for _, key := range keys {
		w.note(w.reading.marks.key(maphash.Bytes(w.reading.marks.seed, key)))
	}
	return w.Tx.GetMany(keys...)
}

// Scan implements Tx. It notes the longest beginning of the range that has a mark.
func (w *Watched) Scan(r Range) iter.Seq2[Record, error] {
	m, prefix := w.reading.marks, string(r.Prefix)
	on := uint32(len(m.of) - 1) //nolint:gosec // there are fewer
	for end := strings.IndexByte(prefix, '/') + 1; end > 0; end = nextPart(prefix, end) {
		on = m.beginning(prefix[:end])
	}
	w.note(on)
	return w.Tx.Scan(r)
}

func (w *Watched) note(mark uint32) {
	r := &w.reading
	for _, known := range r.on {
		if known == mark {
			return
		}
	}
	if len(r.on) == maxNoted {
		r.loose = true
		return
	}
	r.on = append(r.on, mark)
}
