// Package engine has the shared parts of storage engines: the pending writes of a batch over the durable records, and
// the encoding of a stored record.
package engine

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Entry is one write that is not in the database yet. It never changes: a later write replaces it with another entry,
// so entries that a scan has collected stay as they were.
type Entry struct {
	Key    string
	Stored []byte // nil: the record is deleted
}

// Overlay holds the writes of one closure, or of one batch, over what is durable.
type Overlay struct {
	m      map[string]*Entry
	sorted []string // keys in order, as of the last scan
	fresh  []string // keys added since
	size   int64    // size of the entries in bytes, as Badger counts
}

// NewOverlay returns an empty one.
func NewOverlay() *Overlay { return &Overlay{m: make(map[string]*Entry)} }

// PerEntry is the size that a database adds for an entry to key and value, rounded up: version, meta bytes, slack.
const PerEntry = 32

func (e *Entry) size() int64 { return int64(len(e.Key) + len(e.Stored) + PerEntry) }

// Get returns the write of a key.
func (o *Overlay) Get(key []byte) (*Entry, bool) {
	if o == nil {
		return nil, false
	}
	e, ok := o.m[string(key)]
	return e, ok
}

// Len is the number of entries.
func (o *Overlay) Len() int { return len(o.m) }

// Size is the size of the entries in bytes.
func (o *Overlay) Size() int64 { return o.size }

// All yields the entries in any order.
func (o *Overlay) All() iter.Seq[*Entry] { return maps.Values(o.m) }

// Put adds a write, in the place of the last one of its key.
func (o *Overlay) Put(e *Entry) {
	if old, ok := o.m[e.Key]; ok {
		o.size -= old.size()
	} else {
		o.fresh = append(o.fresh, e.Key)
	}
	o.m[e.Key] = e
	o.size += e.size()
}

// Reset empties it.
func (o *Overlay) Reset() {
	if len(o.m) == 0 {
		return
	}
	clear(o.m)
	clear(o.sorted)
	clear(o.fresh)
	o.sorted, o.fresh, o.size = o.sorted[:0], o.fresh[:0], 0
}

// Within returns the entries of b in ascending order.
func (o *Overlay) Within(b Bounds) []*Entry {
	if o == nil || len(o.m) == 0 {
		return nil
	}
	o.sort()
	from, _ := slices.BinarySearch(o.sorted, b.Low)
	to := len(o.sorted)
	if b.Bounded {
		to, _ = slices.BinarySearch(o.sorted, b.High)
	}
	if from >= to {
		return nil
	}
	out := make([]*Entry, 0, to-from)
	for _, k := range o.sorted[from:to] {
		out = append(out, o.m[k])
	}
	return out
}

// sort brings the fresh keys into order: they are few compared with the sorted ones, so it is one merge.
func (o *Overlay) sort() {
	if len(o.fresh) == 0 {
		return
	}
	slices.Sort(o.fresh)
	i, j := len(o.sorted)-1, len(o.fresh)-1
	o.sorted = slices.Grow(o.sorted, len(o.fresh))[:len(o.sorted)+len(o.fresh)]
	for at := len(o.sorted) - 1; j >= 0; at-- {
		if i >= 0 && o.sorted[i] > o.fresh[j] {
			o.sorted[at] = o.sorted[i]
			i--
		} else {
			o.sorted[at] = o.fresh[j]
			j--
		}
	}
	clear(o.fresh)
	o.fresh = o.fresh[:0]
}

// layered merges the entries of two overlays in ascending order; where both have a key, over wins.
func layered(under, over []*Entry) []*Entry {
	if len(under) == 0 {
		return over
	}
	if len(over) == 0 {
		return under
	}
	out := make([]*Entry, 0, len(under)+len(over))
	for len(under) > 0 && len(over) > 0 {
		switch c := strings.Compare(under[0].Key, over[0].Key); {
		case c < 0:
			out, under = append(out, under[0]), under[1:]
		case c > 0:
			out, over = append(out, over[0]), over[1:]
		default:
			out, under, over = append(out, over[0]), under[1:], over[1:]
		}
	}
	return append(append(out, under...), over...)
}

// Bounds is a range of keys from Low on and, where Bounded, before High.
type Bounds struct {
	Low, High string
	Bounded   bool
}

// Empty tells that no key is within.
func (b Bounds) Empty() bool { return b.Bounded && b.Low >= b.High }

// Has reports whether a key is within.
func (b Bounds) Has(key string) bool { return key >= b.Low && (!b.Bounded || key < b.High) }

// BoundsOf returns the keys that a range spans.
func BoundsOf(r storage.Range) Bounds {
	b := Bounds{Low: string(r.Prefix)}
	b.High, b.Bounded = successor(r.Prefix)
	switch after := string(r.After); {
	case r.After == nil:
	case r.Descending:
		if !b.Bounded || after < b.High {
			b.High, b.Bounded = after, true
		}
	default:
		b.Low = max(b.Low, after+"\x00")
	}
	return b
}

// successor returns the first key after all keys with this prefix; ok is false if no key follows.
func successor(prefix []byte) (key string, ok bool) {
	p := slices.Clone(prefix)
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] < 0xff {
			p[i]++
			return string(p[:i+1]), true
		}
	}
	return "", false
}
