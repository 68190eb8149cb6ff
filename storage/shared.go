package storage

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// NewSharedMarks returns the marks of a store to which other processes write too. They tell each other what they write,
// and it is heard a little later. So no Reading holds, and one can be watched while the engine hears all that is told.
func NewSharedMarks(keys int) *Marks {
	m := NewMarks(keys)
	m.shared = true
	return m
}

// Now is the last commit of which is known, for a View that begins now.
func (m *Marks) Now() uint64 { return m.visible.Load() }

// Spots are the places that writes of keys touch, as other processes know them too, each once. Keys can share them.
func (m *Marks) Spots(keys iter.Seq[string]) []uint32 {
	set := map[uint32]struct{}{}
	add := func(s spot) { set[uint32(s)] = struct{}{} } //nolint:gosec // a shared hash has 32 bits
	for key := range keys {
		add(spotOfKey(sharedHash(key)))
		for end := strings.IndexByte(key, '/') + 1; end > 0; end = nextPart(key, end) {
			add(spotOfBeginning(sharedHash(key[:end])))
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// Told notes that a process, perhaps this one, has written to spots, in a commit that can be read by now. The engine
// calls it for one after the other.
func (m *Marks) Told(spots []uint32) {
	seq := m.visible.Load() + 1
	m.wrote(everywhere, seq)
	for _, s := range spots {
		m.wrote(spot(s), seq)
	}
	m.Visible(seq)
}

// ToldAll notes that a process has written more than it tells: everybody is woken.
func (m *Marks) ToldAll() {
	seq := m.visible.Load() + 1
	for i := range m.of {
		m.of[i].Store(seq)
	}
	m.visible.Store(seq)
	m.wakeThem()
}

// Hear says that all that is written from now on is told. A Reading of an earlier View cannot be watched.
func (m *Marks) Hear() {
	seq := m.visible.Load() + 1
	m.visible.Store(seq)
	m.hearing.Store(seq)
}

// Deafen says that something could be written of which the engine is not told. Everybody is woken, and nothing can be
// watched until Hear. A Watch is enlisted and then looks whether we hear; we stop to hear and then look for those who
// are enlisted. So one of us sees the other.
func (m *Marks) Deafen() {
	if m.hearing.Swap(0) != 0 {
		m.wakeThem()
	}
}

// Hears reports whether a Reading can be watched.
func (m *Marks) Hears() bool { return m.hearing.Load() != 0 }

func (m *Marks) wakeThem() {
	m.news.Lock()
	m.news.all = true
	m.news.Unlock()
	m.wake()
}

// sharedHash returns the same in each process. It has 32 bits, since many are told at once (FNV-1a).
func sharedHash(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return (h ^ h>>32) & 0xffffffff
}
