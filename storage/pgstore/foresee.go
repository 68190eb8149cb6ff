package pgstore

import (
	"bytes"
	"slices"
	"sync"
)

// foresight knows what views that have begun with the same keys have read next, so it is read along with them, in one
// round trip. It knows keys and no values: what is read is read from the database each time.
type foresight struct {
	mu       sync.Mutex          // guards what follows
	new, old map[string][][]byte // by the keys of the first read
	weight   int                 // of new, in bytes
}

const (
	// maxForeseen bounds the keys that are read along with one.
	maxForeseen = 16
	// maxForesight bounds half of what is remembered, in bytes. When it is full the older half is forgotten.
	maxForesight = 4 << 20
	perForesight = 128
)

func newForesight() *foresight { return &foresight{new: map[string][][]byte{}} }

// id joins the keys of a read.
func id(keys [][]byte) string { return string(bytes.Join(keys, []byte{0xff, 0})) }

// next returns what is to be read along with the first read of a view.
func (f *foresight) next(first string) [][]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if keys, ok := f.new[first]; ok {
		return keys
	}
	keys, ok := f.old[first]
	if ok {
		f.keep(first, keys)
	}
	return keys
}

// learn notes what a view has read after its first read. Of what differs from time to time nothing is expected.
func (f *foresight) learn(first string, expected, read [][]byte) {
	same := func(a, b []byte) bool { return bytes.Equal(a, b) }
	if slices.EqualFunc(expected, read, same) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.new[first]; ok {
		both := [][]byte{}
		for _, k := range known {
			if slices.ContainsFunc(read, func(r []byte) bool { return same(k, r) }) {
				both = append(both, k)
			}
		}
		f.new[first] = both
		return
	}
	f.keep(first, read)
}

// keep adds to the newer half, with mu held.
func (f *foresight) keep(first string, keys [][]byte) {
	weight := perForesight + len(first)
	for _, k := range keys {
		weight += 24 + len(k)
	}
	if f.weight += weight; f.weight > maxForesight {
		f.old, f.new, f.weight = f.new, map[string][][]byte{}, weight
	}
	f.new[first] = keys
}
