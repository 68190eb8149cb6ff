package storage

import (
	"context"
	"hash/maphash"
	"iter"
	"math"
	"strings"
	"sync/atomic"
)

// Tracker is a Store that can tell later whether what a View has read is still as it was, or at least wake someone soon
// after it has changed. (docs/adr/0006-answers-in-memory.md)
type Tracker interface {
	// Track is View, and returns what fn has rested on. It is nil on an error. In a Store that other processes write to
	// it never holds, and can be watched at times.
	Track(ctx context.Context, fn func(Tx) error) (*Reading, error)
}

// Reading are the keys and ranges that a View has read. It is safe for concurrent use.
type Reading struct {
	marks *Marks
	seq   uint64 // the commit that the View saw
	on    []spot
	loose bool     // more than is worth noting: it never holds
	also  *Reading // nil: nothing else
}

// spot is a key, or the beginning of keys that were scanned, by its hash. The last bit tells which.
type spot uint64

func spotOfKey(hash uint64) spot { return spot(hash &^ 1) }

func spotOfBeginning(hash uint64) spot { return spot(hash | 1) }

// everywhere is the spot of all keys.
const everywhere = spot(math.MaxUint64)

// Holds reports whether a View that begins now would read the same. It turns false before the first commit that changes
// that can be read, and when the store fails or closes, and never turns true again. It can be false too early.
func (r *Reading) Holds() bool {
	if r == nil || r.loose || r.marks.shared || r.marks.void.Load() {
		return false
	}
	for _, s := range r.on {
		if r.marks.mark(s).Load() > r.seq {
			return false
		}
	}
	return r.also == nil || r.also.Holds()
}

// And returns what rests on both readings, which can be of different commits. nil: one of them is not known.
func (r *Reading) And(other *Reading) *Reading {
	if r == nil || other == nil {
		return nil
	}
	both := *r
	if both.also = other; r.also != nil {
		both.also = r.also.And(other)
	}
	return &both
}

// maxNoted bounds what a Reading notes. A View that reads more is not worth keeping.
const maxNoted = 256

// Marks is an implementation of Tracker for engines. It has a mark for each key, which is the number of the last commit
// that has written the key. Many keys share a mark, so their number is bounded: a commit then seems to have changed
// more than it has. For scans there are marks of the beginnings of keys: of the table, and of each part of Key.
type Marks struct {
	seed maphash.Seed
	of   []atomic.Uint64 // those of keys, then those of beginnings
	keys uint64          // how many of them are those of keys: a power of two
	void atomic.Bool

	shared  bool          // other processes write too: see NewSharedMarks
	hearing atomic.Uint64 // from when on all that is written is told. 0: it is not told

	watches
}

// beginnings is the number of marks for the beginnings of keys. The last one is that of all keys.
const beginnings = 1 << 12

// NewMarks returns the marks of one opening of a store; keys is how many there are for keys, a power of two.
func NewMarks(keys int) *Marks {
	return &Marks{seed: maphash.MakeSeed(), of: make([]atomic.Uint64, keys+beginnings), keys: uint64(keys)}
}

// Wrote notes that a commit writes a key. The engine calls it before the commit can be read, for one commit after the
// other in their order.
func (m *Marks) Wrote(key string, seq uint64) {
	m.wrote(spotOfKey(m.hash(key)), seq)
	m.wrote(everywhere, seq)
	at := strings.IndexByte(key, '/') + 1
	for end := at; end > 0; end = nextPart(key, end) {
		m.wrote(spotOfBeginning(m.hash(key[:end])), seq)
	}
}

// hash returns the hash of a key, which differs between processes if they do not share the marks.
func (m *Marks) hash(key string) uint64 {
	if m.shared {
		return sharedHash(key)
	}
	return maphash.String(m.seed, key)
}

func (m *Marks) wrote(s spot, seq uint64) {
	m.mark(s).Store(seq)
	m.changed(s, seq) // after the mark: see Reading.Watch
}

// Void says that the store answers no more: no Reading holds from now on.
func (m *Marks) Void() {
	m.void.Store(true)
	m.wake()
}

// mark returns the mark of a spot, which it shares with others.
func (m *Marks) mark(s spot) *atomic.Uint64 {
	switch {
	case s == everywhere:
		return &m.of[len(m.of)-1]
	case s&1 == 1:
		return &m.of[m.keys+uint64(s>>1)%(beginnings-1)]
	}
	return &m.of[uint64(s>>1)&(m.keys-1)]
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
	return &Watched{Tx: tx, reading: Reading{marks: m, seq: seq, on: make([]spot, 0, 8)}}
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
	w.noteKey(key)
	return w.Tx.Get(key)
}

// GetMany implements Tx.
func (w *Watched) GetMany(keys ...[]byte) ([][]byte, error) {
	for _, key := range keys {
		w.noteKey(key)
	}
	return w.Tx.GetMany(keys...)
}

// Scan implements Tx. It notes the longest beginning of the range that has a mark.
func (w *Watched) Scan(r Range) iter.Seq2[Record, error] {
	on, prefix := everywhere, string(r.Prefix)
	for end := strings.IndexByte(prefix, '/') + 1; end > 0; end = nextPart(prefix, end) {
		on = spotOfBeginning(w.reading.marks.hash(prefix[:end]))
	}
	w.note(on)
	return w.Tx.Scan(r)
}

func (w *Watched) noteKey(key []byte) {
	if m := w.reading.marks; m.shared {
		w.note(spotOfKey(sharedHash(string(key))))
	} else {
		w.note(spotOfKey(maphash.Bytes(m.seed, key)))
	}
}

func (w *Watched) note(mark spot) {
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
