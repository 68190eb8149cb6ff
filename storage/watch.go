package storage

import (
	"sync"
	"sync/atomic"
)

// Waker is woken by a Watch.
type Waker interface {
	// Wake is called from a goroutine of the store's, which many wait for: it must return at once.
	Wake()
}

// Watch wakes someone when a Reading has ended. It is safe for concurrent use.
type Watch struct {
	marks *Marks
	waker Waker
	seq   uint64 // the commit that the View saw
	on    []post
	also  *Watch // nil: nothing else
}

// post is the place of a Watch in the list of those of one spot.
type post struct {
	watch      *Watch
	spot       spot
	prev, next *post
}

// Watch wakes w after each commit that changes what the View has read, once a View can read the change, and when the
// store fails or closes, or is not told any more what other processes write. It does so too for a commit that came
// between the View and this call. It can wake without need. nil: what the View has read cannot be watched. Call Stop
// when done.
func (r *Reading) Watch(w Waker) *Watch {
	if r == nil || r.loose {
		return nil
	}
	m := r.marks
	watch := &Watch{marks: m, waker: w, seq: r.seq, on: make([]post, len(r.on))}
	m.enlist(watch, r.on)
	if m.shared {
		if since := m.hearing.Load(); since == 0 || r.seq < since { // after it is enlisted: see Deafen
			watch.Stop()
			return nil
		}
	}
	// The writer sets a mark and then asks whether there are watches; we are one and then look at the marks. So one of us
	// sees the other.
	newest := uint64(0)
	for _, s := range r.on {
		newest = max(newest, m.mark(s).Load())
	}
	if newest > r.seq || m.void.Load() {
		m.overtaken(watch, newest)
	}
	if r.also == nil {
		return watch
	}
	if watch.also = r.also.Watch(w); watch.also == nil {
		watch.Stop()
		return nil
	}
	return watch
}

// Stop ends the watch. It can wake once more, if it was about to.
func (w *Watch) Stop() {
	if w != nil {
		w.marks.dismiss(w)
		w.also.Stop()
	}
}

// watches are the watches of a store. There are two locks, so a commit never waits for someone who walks through the
// watches.
type watches struct {
	count   atomic.Int64
	scans   atomic.Int64  // spots among theirs that are beginnings
	visible atomic.Uint64 // the last commit that can be read

	mu sync.Mutex // guards of
	of map[spot]*post

	news struct {
		sync.Mutex // guards the fields below

		changes []change
		waking  bool // a goroutine is at it
		all     bool // something has come, and no one knows where
		ended   bool // all have been told that the store answers no more
	}
}

// change are the changes since the watches were woken last.
type change struct {
	seq   uint64 // of the commit, which may not be visible yet
	spot  spot
	watch *Watch // not nil: this one, instead of those of a spot
}

func (m *Marks) enlist(w *Watch, on []spot) {
	m.count.Add(1)
	m.scans.Add(beginningsOf(on))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watches.of == nil {
		m.watches.of = map[spot]*post{}
	}
	for i, s := range on {
		p := &w.on[i]
		p.watch, p.spot, p.next = w, s, m.watches.of[s]
		if p.next != nil {
			p.next.prev = p
		}
		m.watches.of[s] = p
	}
}

func beginningsOf(on []spot) (n int64) {
	for _, s := range on {
		n += int64(s & 1) //nolint:gosec // a bit
	}
	return n
}

func (m *Marks) dismiss(w *Watch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.waker == nil {
		return
	}
	w.waker = nil
	m.count.Add(-1)
	for i := range w.on {
		p := &w.on[i]
		m.scans.Add(-int64(p.spot & 1)) //nolint:gosec // a bit
		if p.next != nil {
			p.next.prev = p.prev
		}
		switch {
		case p.prev != nil:
			p.prev.next = p.next
		case p.next != nil:
			m.watches.of[p.spot] = p.next
		default:
			delete(m.watches.of, p.spot)
		}
	}
	w.on = nil
}

// changed notes that a commit writes to a spot.
func (m *Marks) changed(s spot, seq uint64) {
	if m.count.Load() == 0 || s&1 == 1 && m.scans.Load() == 0 {
		return
	}
	m.news.Lock()
	defer m.news.Unlock()
	m.news.changes = append(m.news.changes, change{seq: seq, spot: s})
}

// overtaken has a watch woken once a commit can be read, which can be already.
func (m *Marks) overtaken(w *Watch, seq uint64) {
	m.news.Lock()
	if m.void.Load() {
		seq = 0
	}
	m.news.changes = append(m.news.changes, change{seq: seq, watch: w})
	m.news.Unlock()
	m.wake()
}

// Visible says that a commit and all before it can be read. The engine calls it before it answers their callers, and
// does not wait for anybody who is woken.
func (m *Marks) Visible(seq uint64) {
	m.visible.Store(seq)
	m.wake()
}

// wake starts waking, unless that goes on already or there is nothing to tell.
func (m *Marks) wake() {
	if m.count.Load() == 0 {
		return
	}
	m.news.Lock()
	defer m.news.Unlock()
	if !m.news.waking && m.isNews() {
		m.news.waking = true
		go m.wakeAll()
	}
}

// isNews reports whether there is someone to wake, with the lock of news held.
func (m *Marks) isNews() bool {
	if m.news.all || m.void.Load() && !m.news.ended {
		return true
	}
	visible := m.visible.Load()
	for _, c := range m.news.changes {
		if c.seq <= visible {
			return true
		}
	}
	return false
}

// wakeAll wakes until there is no news.
func (m *Marks) wakeAll() {
	var now, later []change
	var who []Waker
	for {
		m.news.Lock()
		if !m.isNews() {
			m.news.waking = false
			m.news.Unlock()
			return
		}
		all := m.news.all || m.void.Load() && !m.news.ended
		m.news.all, m.news.ended = false, m.void.Load()
		visible := m.visible.Load()
		now, later = now[:0], nil
		for _, c := range m.news.changes {
			if c.seq <= visible {
				now = append(now, c)
			} else {
				later = append(later, c)
			}
		}
		m.news.changes = later
		m.news.Unlock()

		who = m.concerned(who[:0], now, all)
		for i, w := range who {
			w.Wake()
			who[i] = nil
		}
	}
}

// concerned returns the watches that some changes concern, some of them more than once.
func (m *Marks) concerned(out []Waker, changes []change, all bool) []Waker {
	m.mu.Lock()
	defer m.mu.Unlock()
	if all {
		for _, p := range m.watches.of {
			for ; p != nil; p = p.next {
				out = append(out, p.watch.waker)
			}
		}
		return out
	}
	for _, c := range changes {
		if c.watch != nil {
			if c.watch.waker != nil {
				out = append(out, c.watch.waker)
			}
			continue
		}
		for p := m.watches.of[c.spot]; p != nil; p = p.next {
			if p.watch.seq < c.seq { // else the View has seen it
				out = append(out, p.watch.waker)
			}
		}
	}
	return out
}
