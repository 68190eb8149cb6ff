package badgerstore

import (
	"hash/maphash"
	"time"

	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// recentSize bounds a generation of recent, in bytes.
const recentSize = 2 << 20

// perRecent is what an entry takes up in addition to its key and value, in bytes, rounded up.
const perRecent = 128

// recent keeps the records that closures have read last, as they are in Badger after the writer's last commit: nobody
// else writes there. A record that many closures read and write, such as the head of a list, needs no search through
// Badger's tables each time. That a key has no record is kept from the second time on: most such keys, like those of
// new records, are asked for once. Views read Badger, since each has a snapshot of its own.
//
// There are two generations. What is asked for moves to the young one; when that is full the old one is dropped. Only
// the writer's goroutine uses it.
type recent struct {
	young, old map[string]*engine.Entry
	size       int // of the young generation

	seed maphash.Seed
	gone [1024]uint64 // hashes of keys without a record that were asked for once
}

func newRecent() *recent {
	return &recent{young: map[string]*engine.Entry{}, seed: maphash.MakeSeed()}
}

// get returns the record of key, which is deleted if it has no stored value, or nil if Badger must be asked.
func (r *recent) get(key []byte) *engine.Entry {
	e := r.young[string(key)]
	if e == nil {
		if e = r.old[string(key)]; e == nil {
			return nil
		}
		r.put(e)
	}
	// Badger collects what has expired without telling anybody.
	if e.Stored != nil && engine.Expired(e.Stored, time.Now()) {
		return nil
	}
	return e
}

// wrote says what a commit has written. What no closure has asked for is not kept: most of it, such as tokens, never
// will be, and would be in the way of what is.
func (r *recent) wrote(e *engine.Entry) {
	if r.young[e.Key] != nil || r.old[e.Key] != nil {
		r.put(e)
	}
}

// absent says that a read has found nothing.
func (r *recent) absent(key []byte) {
	hash := maphash.Bytes(r.seed, key)
	if once := &r.gone[hash%uint64(len(r.gone))]; *once != hash {
		*once = hash
		return
	}
	r.put(&engine.Entry{Key: string(key)})
}

// put keeps what a read has found.
func (r *recent) put(e *engine.Entry) {
	if r.size > recentSize {
		r.young, r.old, r.size = make(map[string]*engine.Entry, len(r.young)), r.young, 0
	}
	if was := r.young[e.Key]; was != nil {
		r.size -= heldBy(was)
	}
	r.young[e.Key] = e
	r.size += heldBy(e)
}

func heldBy(e *engine.Entry) int { return len(e.Key) + len(e.Stored) + perRecent }
