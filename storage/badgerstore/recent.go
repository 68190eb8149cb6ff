package badgerstore

import "time"

// recentSize bounds a generation of recent, in bytes.
const recentSize = 2 << 20

// perRecent is what an entry takes up in addition to its key and value, in bytes, rounded up.
const perRecent = 128

// recent keeps the records that closures have read or written last, as they are in Badger after the writer's last
// commit: nobody else writes there. A record that many closures read and write, such as the head of a list, needs no
// search through Badger's tables each time. Views read Badger, since each has a snapshot of its own.
//
// There are two generations. What is asked for moves to the young one; when that is full the old one is dropped. Only
// the writer's goroutine uses it.
type recent struct {
	young, old map[string]*entry
	size       int // of the young generation
}

func newRecent() *recent { return &recent{young: map[string]*entry{}} }

// get returns the record of key, which is deleted if it has no stored value, or nil if Badger must be asked.
func (r *recent) get(key []byte) *entry {
	e := r.young[string(key)]
	if e == nil {
		if e = r.old[string(key)]; e == nil {
			return nil
		}
		r.put(e)
	}
	// Badger collects what has expired without telling anybody.
	if e.stored != nil && expired(e.stored, time.Now()) {
		return nil
	}
	return e
}

// put keeps what a read has found, or a commit has written.
func (r *recent) put(e *entry) {
	if r.size > recentSize {
		r.young, r.old, r.size = make(map[string]*entry, len(r.young)), r.young, 0
	}
	if was := r.young[e.key]; was != nil {
		r.size -= was.held()
	}
	r.young[e.key] = e
	r.size += e.held()
}

func (e *entry) held() int { return len(e.key) + len(e.stored) + perRecent }
