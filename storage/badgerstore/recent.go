package badgerstore

import (
	"hash/maphash"
	"time"

	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// recentSize bounds a generation of recent, in bytes.
const recentSize = 2 << 20

// perRecent is the memory for an entry in addition to its key and value, in bytes, rounded up.
const perRecent = 128

// recent keeps the records that closures have read last, as they are in Badger after the writer's last commit: no one
// else writes there. A record that many closures read and write, such as the head of a list, needs no search through
// Badger's tables each time. That a key has no record is kept from the second time on: most such keys, like those of
// new records, are asked for once. Views read Badger, since each has a snapshot of its own.
//
// That a whole table is empty is kept as well: a scan of it, such as for what rests on a session, needs no iterator
// over all of Badger's tables. Few installations use every table.
//
// There are two generations. What is asked for moves to the young one; when that is full the old one is dropped. Only
// the writer's goroutine uses it.
type recent struct {
	young, old map[string]*engine.Entry
	size       int // of the young generation

	seed maphash.Seed
	gone [1024]uint64 // hashes of keys without a record that were asked for once

	empty  map[string]bool // tables without a record, by the beginning of their keys
	missed map[string]int  // how many scans of other tables have found nothing
}

func newRecent() *recent {
	return &recent{young: map[string]*engine.Entry{}, seed: maphash.MakeSeed(), empty: map[string]bool{}, missed: map[string]int{}}
}

// lookEvery is of how many scans that find nothing one looks whether the whole table is empty.
const lookEvery = 64

// tableOf returns what the keys of a table begin with, or nothing if a prefix is not within one table.
func tableOf[B string | []byte](prefix B) B {
	for i := range len(prefix) {
		if prefix[i] == '/' {
			return prefix[:i+1]
		}
	}
	return prefix[:0]
}

// vacant reports whether Badger has no record of the table of a prefix.
func (r *recent) vacant(prefix []byte) bool { return r.empty[string(tableOf(prefix))] }

// miss says that a scan has found nothing in Badger. It returns a table to look at, or nothing.
func (r *recent) miss(prefix []byte) []byte {
	table := tableOf(prefix)
	if len(table) == 0 {
		return nil
	}
	n := r.missed[string(table)]
	r.missed[string(table)] = (n + 1) % lookEvery
	if n > 0 {
		return nil
	}
	return table
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
	if table := tableOf(e.Key); r.empty[table] {
		delete(r.empty, table)
	}
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
