package badgerstore

import (
	"slices"
	"strings"
)

// entry is one write that is not in Badger yet. It never changes: a later write replaces it with another entry, so
// entries that a scan has collected stay as they were.
type entry struct {
	key    string
	stored []byte // nil: the record is deleted
}

// overlay holds the writes of one closure, or of one batch, over what is durable.
type overlay struct {
	m      map[string]*entry
	sorted []string // keys in order, as of the last scan
	fresh  []string // keys added since
	size   int64    // size of the entries in bytes, as Badger counts
}

func newOverlay() *overlay { return &overlay{m: make(map[string]*entry)} }

// perEntry is what Badger adds for an entry to key and value, rounded up: version, meta bytes, slack.
const perEntry = 32

func (e *entry) size() int64 { return int64(len(e.key) + len(e.stored) + perEntry) }

func (o *overlay) get(key []byte) (*entry, bool) {
	e, ok := o.m[string(key)]
	return e, ok
}

func (o *overlay) put(e *entry) {
	if old, ok := o.m[e.key]; ok {
		o.size -= old.size()
	} else {
		o.fresh = append(o.fresh, e.key)
	}
	o.m[e.key] = e
	o.size += e.size()
}

func (o *overlay) reset() {
	if len(o.m) == 0 {
		return
	}
	clear(o.m)
	clear(o.sorted)
	clear(o.fresh)
	o.sorted, o.fresh, o.size = o.sorted[:0], o.fresh[:0], 0
}

// within returns the entries of b in ascending order.
func (o *overlay) within(b bounds) []*entry {
	if o == nil || len(o.m) == 0 {
		return nil
	}
	o.sort()
	from, _ := slices.BinarySearch(o.sorted, b.low)
	to := len(o.sorted)
	if b.bounded {
		to, _ = slices.BinarySearch(o.sorted, b.high)
	}
	if from >= to {
		return nil
	}
	out := make([]*entry, 0, to-from)
	for _, k := range o.sorted[from:to] {
		out = append(out, o.m[k])
	}
	return out
}

// sort brings the fresh keys into order: they are few compared with the sorted ones, so it is one merge.
func (o *overlay) sort() {
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
func layered(under, over []*entry) []*entry {
	if len(under) == 0 {
		return over
	}
	if len(over) == 0 {
		return under
	}
	out := make([]*entry, 0, len(under)+len(over))
	for len(under) > 0 && len(over) > 0 {
		switch c := strings.Compare(under[0].key, over[0].key); {
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

// bounds is a range of keys from low on and, where bounded, before high.
type bounds struct {
	low, high string
	bounded   bool
}

func (b bounds) empty() bool { return b.bounded && b.low >= b.high }

func (b bounds) has(key string) bool { return key >= b.low && (!b.bounded || key < b.high) }
