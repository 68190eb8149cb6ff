package limit

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// Key names the one who is counted, and by which rule.
type Key struct {
	Rule uint64   // the same key and rule have the same bucket, in every configuration
	Addr [16]byte // a network, or the hash of something secret
	Name string
}

// The first byte of Addr in a key with a Name is the kind of the name, so a client and a person of one name are two.
const (
	AClient byte = iota + 1
	APerson
	AnAppPassword
	ASession
	AClaim
)

// Use is the part of a limit that someone has used.
type Use struct {
	Key
	About       string // of the limit, for operators. Empty: unknown
	Address     bool   // Addr is one
	Used, Limit int64
	State
}

const (
	shards = 64
	look   = 64 // entries that are looked at to find room
)

// table has the buckets of a bounded number of keys. A key whose bucket is full is forgotten without loss, so the
// oldest of these make room for new ones, and then the oldest that are not being limited. One that is being limited
// stays: when all are, new keys share a bucket of their rule.
type table struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex // guards what follows
	max     int
	entries map[uint64]*entry // by the hash of the key
	spilled map[uint64]*entry // by rule, of the keys without room
	oldest  *entry            // in the order of use. A container/list would take 40 bytes more for each key
	newest  *entry
	active  []*entry // whose share of several nodes is to be exchanged
}

type entry struct {
	key          Key
	hash         uint64
	bucket       *Bucket
	full         int64
	older, newer *entry
	lease        *lease // of a bucket that several nodes share. nil: none
	listed       bool   // in active
}

// newTable returns an empty table for a number of keys.
func newTable(keys int) *table {
	t := &table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		s := &t.shards[i]
		s.max, s.entries, s.spilled = max(1, keys/shards), map[uint64]*entry{}, map[uint64]*entry{}
	}
	return t
}

func (t *table) find(k Key) (*shard, uint64) {
	h := maphash.Comparable(t.seed, k)
	return &t.shards[h%shards], h
}

// take counts a request of a key if there is room for it.
func (t *table) take(k Key, b *Bucket, now time.Time) State {
	s, h := t.find(k)
	at := now.UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(h, k, b, at)
	var out State
	e.full, out = b.take(e.full, at)
	return out
}

// giveBack takes back the count of a request that something else has refused.
func (t *table) giveBack(k Key, b *Bucket, nodes int64) {
	s, h := t.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.get(h, k); e != nil {
		e.giveBack(b, nodes)
	} else if e := s.spilled[k.Rule]; e != nil {
		e.full -= b.every
	}
}

// look returns what take would say, and counts nothing.
func (t *table) look(k Key, b *Bucket, now time.Time, nodes int64) State {
	s, h := t.find(k)
	at := now.UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.get(h, k)
	if e == nil {
		e = &entry{full: at}
	}
	if nodes > 1 {
		return e.takeShared(b, at, nodes, false)
	}
	_, out := b.take(e.full, at)
	return out
}

// lift forgets what a key has used, and reports whether it was there.
func (t *table) lift(k Key) bool {
	s, h := t.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.get(h, k)
	if e != nil {
		s.drop(e)
	}
	return e != nil
}

// has reports whether a key is counted.
func (t *table) has(k Key) bool {
	s, h := t.find(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(h, k) != nil
}

// near returns the keys that have used at least a share of their burst, the most used first, at most limit of them.
// The counters of a part of the keys wait while keep is called.
func (t *table) near(share float64, limit int, now time.Time, keep func(*Use) bool) []Use {
	at := now.UnixNano()
	var out []Use
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, e := range s.entries {
			if state := e.state(at); float64(e.bucket.Burst-state.Remaining) >= share*float64(e.bucket.Burst) {
				one := Use{Key: e.key, About: e.bucket.About, Used: e.bucket.Burst - state.Remaining, Limit: e.bucket.Burst, State: state}
				if keep(&one) {
					out = append(out, one)
				}
			}
		}
		s.mu.Unlock()
		out = mostUsed(out, limit)
	}
	return out
}

// mostUsed keeps those that have used the largest shares.
func mostUsed(list []Use, limit int) []Use {
	slices.SortFunc(list, func(a, b Use) int {
		x, y := float64(a.Used)/float64(a.Limit), float64(b.Used)/float64(b.Limit)
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return int(b.Reset - a.Reset)
	})
	return slices.Clip(list[:min(len(list), limit)])
}

// size returns the number of keys.
func (t *table) size() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}

// get returns the entry of a key, or nil. mu is held.
func (s *shard) get(hash uint64, k Key) *entry {
	if e := s.entries[hash]; e != nil && e.key == k {
		return e
	}
	return nil
}

// entry returns the entry of a key, which is the newest afterwards. mu is held.
func (s *shard) entry(hash uint64, k Key, b *Bucket, now int64) *entry {
	e := s.get(hash, k)
	switch {
	case e != nil:
		e.bucket = b
		s.unlink(e)
	case s.entries[hash] == nil && (len(s.entries) < s.max || s.makeRoom(now)):
		e = &entry{key: k, hash: hash, bucket: b, full: now}
		s.entries[hash] = e
	default:
		if e = s.spilled[k.Rule]; e == nil {
			e = &entry{full: now}
			s.spilled[k.Rule] = e
		}
		return e
	}
	s.link(e)
	return e
}

// makeRoom forgets one key, and reports whether it could. mu is held.
func (s *shard) makeRoom(now int64) bool {
	var spare *entry
	e := s.oldest
	for range look {
		if e == nil {
			break
		}
		next := e.newer
		if e.full <= now {
			s.drop(e)
			return true
		}
		if e.bucket.limited(e.full, now) {
			s.unlink(e) // the next search begins behind it
			s.link(e)
		} else if spare == nil {
			spare = e
		}
		e = next
	}
	if spare == nil {
		return false
	}
	s.drop(spare)
	return true
}

func (s *shard) drop(e *entry) {
	s.unlink(e)
	delete(s.entries, e.hash)
}

func (s *shard) link(e *entry) {
	e.older, e.newer = s.newest, nil
	if s.newest != nil {
		s.newest.newer = e
	} else {
		s.oldest = e
	}
	s.newest = e
}

func (s *shard) unlink(e *entry) {
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		s.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		s.newest = e.older
	}
	e.older, e.newer = nil, nil
}
