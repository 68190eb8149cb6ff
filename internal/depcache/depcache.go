// Package depcache caches answers from the store, such as the owner of a token, until a commit changes something that
// they were read from. (docs/adr/0006-answers-in-memory.md)
package depcache

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Key is a question: its kind, and the hash of what is asked about, which can be a secret.
type Key struct {
	kind byte
	sum  [sha256.Size]byte
}

// KeyOf returns the key of a question. Questions of different kinds have different keys.
func KeyOf(kind byte, text string) Key { return Key{kind, sha256.Sum256([]byte(text))} }

// shards is the number of locks.
const shards = 8

// askAgain is the interval at which open requests are evaluated again while the store does not report changes, such as
// one that other nodes write to unheard: a second after a revocation they have ended.
const askAgain = 900 * time.Millisecond

// perEntry is the memory for an entry besides its answer, in bytes: key, map, ring, and the reading.
const perEntry = 320

// Cache keeps answers of one type. It is bounded, and forgets first what was not asked a second time. It is safe for
// concurrent use. Answers are shared: no one may change them.
type Cache[A any] struct {
	store   storage.Store
	tracker storage.Tracker // nil: the store cannot tell what has changed, and nothing is kept
	weigh   func(A) int
	shard   [shards]shard[A]
}

// shard is a part of the cache with a lock of its own.
type shard[A any] struct {
	most int // bytes

	mu    sync.RWMutex // guards the fields below
	of    map[Key]*entry[A]
	ring  []*entry[A] // the same entries; hand goes round and round
	hand  int
	bytes int
}

type entry[A any] struct {
	key     Key
	answer  A
	until   time.Time        // exclusive
	reading *storage.Reading // nil: it rests on nothing in the store
	bytes   int
	at      int         // in ring; guarded by the shard's mu
	asked   atomic.Bool // since the hand came by
}

// New returns a cache of answers about a store that takes up to most bytes; weigh returns those of an answer.
func New[A any](store storage.Store, most int, weigh func(A) int) *Cache[A] {
	c := &Cache[A]{store: store, weigh: weigh}
	c.tracker, _ = store.(storage.Tracker)
	for i := range c.shard {
		c.shard[i].most, c.shard[i].of = most/shards, map[Key]*entry[A]{}
	}
	return c
}

// Find returns an answer that is kept and still holds.
func (c *Cache[A]) Find(k Key, now time.Time) (answer A, ok bool) {
	answer, _, ok = c.FindBasis(k, now)
	return answer, ok
}

// FindBasis is Find, and returns what the answer rests on.
func (c *Cache[A]) FindBasis(k Key, now time.Time) (answer A, basis recheck.Basis, ok bool) {
	s := c.of(k)
	s.mu.RLock()
	e := s.of[k]
	s.mu.RUnlock()
	if e == nil || !e.holds(now) {
		return answer, basis, false
	}
	if !e.asked.Load() {
		e.asked.Store(true)
	}
	return e.answer, recheck.Basis{Until: e.until, Reading: e.reading}, true
}

// Look asks the store in one View. The answer is kept as long as what was read has not changed, and before until; zero:
// it is not kept.
func (c *Cache[A]) Look(ctx context.Context, k Key, now time.Time, ask func(storage.Tx) (answer A, until time.Time, err error)) (answer A,
	basis recheck.Basis, err error,
) {
	var until time.Time
	view := func(tx storage.Tx) (err error) {
		answer, until, err = ask(tx)
		return err
	}
	if c.tracker == nil {
		err = c.store.View(ctx, view)
		return answer, recheck.Basis{Again: askAgain}, err
	}
	reading, err := c.tracker.Track(ctx, view)
	if err == nil && until.After(now) && reading.Holds() { // never, where other processes write
		c.keep(&entry[A]{key: k, answer: answer, until: until, reading: reading}, now)
	} else {
		c.drop(k)
	}
	return answer, recheck.Basis{Until: until, Reading: reading, Again: askAgain}, err
}

// Keep keeps an answer that rests on nothing in the store.
func (c *Cache[A]) Keep(k Key, answer A, until, now time.Time) {
	if until.After(now) {
		c.keep(&entry[A]{key: k, answer: answer, until: until}, now)
	}
}

func (c *Cache[A]) of(k Key) *shard[A] { return &c.shard[k.sum[0]%shards] }

func (c *Cache[A]) keep(e *entry[A], now time.Time) {
	e.bytes = perEntry + c.weigh(e.answer)
	s := c.of(e.key)
	if e.bytes > s.most {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.of[e.key]; old != nil {
		e.asked.Store(true)
		s.remove(old)
	}
	s.makeRoom(e.bytes, now)
	e.at = len(s.ring)
	s.ring = append(s.ring, e)
	s.of[e.key] = e
	s.bytes += e.bytes
}

// drop forgets an answer that does not hold, since it can tell of a person.
func (c *Cache[A]) drop(k Key) {
	s := c.of(k)
	s.mu.RLock()
	known := s.of[k] != nil
	s.mu.RUnlock()
	if !known {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of[k]; e != nil {
		s.remove(e)
	}
}

// makeRoom forgets what does not hold any more or was not asked since the hand came by last, until there is room.
func (s *shard[A]) makeRoom(bytes int, now time.Time) {
	for s.bytes+bytes > s.most {
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		e := s.ring[s.hand]
		if e.holds(now) && e.asked.Swap(false) {
			s.hand++
			continue
		}
		s.remove(e) // the last one comes in its place, under the hand
	}
}

func (s *shard[A]) remove(e *entry[A]) {
	last := len(s.ring) - 1
	s.ring[e.at] = s.ring[last]
	s.ring[e.at].at = e.at
	s.ring[last] = nil
	s.ring = s.ring[:last]
	delete(s.of, e.key)
	s.bytes -= e.bytes
}

func (e *entry[A]) holds(now time.Time) bool {
	return e.until.After(now) && (e.reading == nil || e.reading.Holds())
}
