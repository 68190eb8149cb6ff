// Package recheck re-evaluates open WebSockets and streams when a commit may have revoked their access, when it
// expires, and every few seconds where neither can be known. (docs/adr/0007-open-requests.md)
package recheck

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Basis is the basis of an answer.
type Basis struct {
	// Until is the end of the answer if nothing changes, exclusive. Zero: it rests on more than can be told.
	Until time.Time
	// Reading are the reads in the store. nil: they are not known.
	Reading *storage.Reading
	// Again is the interval of asking again where Reading cannot be watched. Zero: the list says.
	Again time.Duration
}

// And returns what an answer rests on that rests on both.
func (b Basis) And(other Basis) Basis {
	out := Basis{Until: b.Until, Reading: b.Reading.And(other.Reading)}
	if other.Until.Before(out.Until) { // zero is before all
		out.Until = other.Until
	}
	if out.Again = min(b.Again, other.Again); out.Again == 0 {
		out.Again = max(b.Again, other.Again)
	}
	return out
}

// Open is an open request or stream.
type Open[A any] interface {
	// Judge decides by an answer whether it stays open, and when time alone can change that. Zero: never.
	Judge(answer A) (ok bool, next time.Time)
	// End ends it. It is called once at most, from a goroutine of its own and perhaps a little after Leave.
	End()
}

// Config says how a List works. All but Changed are required.
type Config[K comparable, A any] struct {
	// Ask asks about a key. A panic is an error.
	Ask func(ctx context.Context, key K) (A, Basis, error)
	// Changed tells every few seconds about what no answer rests on: when what it returns differs from the last time,
	// everything is asked again, and after an error everything ends. nil: there is no such thing.
	Changed func(ctx context.Context) (any, error)
	Now     func() time.Time
	// After calls a function after a time, unless what it returns is called before.
	After func(time.Duration, func()) (stop func() bool)
	// Every bounds how long something stays open that could not be asked about, and the clock not be read.
	Every time.Duration
}

// List holds what is open, by the keys of what it rests on. It is safe for concurrent use, and has no goroutine while
// nothing is to be done.
type List[K comparable, A any] struct {
	cfg   Config[K, A]
	slots chan struct{} // of those that are being ended

	mu      sync.Mutex // guards all below
	groups  map[K]*group[K, A]
	due     schedule[K, A]
	queue   []*group[K, A]
	workers int
	disarm  func() bool
	armed   time.Time // when the timer goes off. Zero: it is not set
	ticked  time.Time
	ticking bool
	known   bool // whether Changed has been asked since the list was empty
	last    any  // what it returned
}

// group are the open requests that depend on one key.
type group[K comparable, A any] struct {
	list *List[K, A]
	key  K

	// The lists's mu guards all below.
	open     []*Entry[K, A]
	answer   A
	answered bool
	sure     time.Time // when the answer was known to be right last
	watch    *storage.Watch
	queued   bool
	busy     bool // a worker asks for it
	gone     bool
	due      time.Time // when it is to be asked again
	at       int       // in the schedule; -1: nowhere
}

// Entry is something open in a List.
type Entry[K comparable, A any] struct {
	group *group[K, A]
	open  Open[A]
	at    int // in the group; -1: it has left or is being ended
}

const (
	askTime = time.Second
	// soonest keeps a time that has passed already from being asked about without a pause.
	soonest = 5 * time.Millisecond
	// endingAtOnce bounds how many are ended at once, since each can wait for a peer that does not read.
	endingAtOnce = 256
)

var errPanic = errors.New("panic")

// New returns an empty list.
func New[K comparable, A any](cfg Config[K, A]) *List[K, A] {
	return &List[K, A]{cfg: cfg, slots: make(chan struct{}, endingAtOnce), groups: map[K]*group[K, A]{}}
}

// Add takes up something that rests on a key. It is judged soon, by an answer that is right at this moment or later.
func (l *List[K, A]) Add(key K, o Open[A]) *Entry[K, A] {
	l.mu.Lock()
	g := l.groups[key]
	if g == nil {
		g = &group[K, A]{list: l, key: key, at: -1, sure: l.cfg.Now()}
		l.groups[key] = g
		l.arm()
	}
	e := &Entry[K, A]{group: g, open: o, at: len(g.open)}
	g.open = append(g.open, e)
	if g.queued || g.busy || !g.answered || g.watch == nil {
		l.enqueue(g)
		l.mu.Unlock()
		return e
	}
	answer := g.answer
	l.mu.Unlock()
	ok, next := l.verdict(e, answer)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ok {
		l.end(e)
	} else if !next.IsZero() && !g.gone && next.Before(g.due) {
		l.schedule(g, next)
	}
	return e
}

// Leave forgets something that is not open any more.
func (e *Entry[K, A]) Leave() {
	l := e.group.list
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(e)
}

// Wake implements storage.Waker.
func (g *group[K, A]) Wake() {
	g.list.mu.Lock()
	defer g.list.mu.Unlock()
	if !g.queued && g.answered {
		g.sure = g.list.cfg.Now()
	}
	g.list.enqueue(g)
}

// remove takes an entry out, with mu held, and reports whether it was still in.
func (l *List[K, A]) remove(e *Entry[K, A]) bool {
	if e.at < 0 {
		return false
	}
	g := e.group
	last := len(g.open) - 1
	g.open[e.at] = g.open[last]
	g.open[e.at].at = e.at
	g.open[last] = nil
	g.open = g.open[:last]
	e.at = -1
	if len(g.open) == 0 {
		g.gone = true
		delete(l.groups, g.key)
		if g.at >= 0 {
			heap.Remove(&l.due, g.at)
		}
		g.watch.Stop() // it locks what never waits for us
		g.watch = nil
	}
	if len(l.groups) == 0 {
		l.known, l.last, l.ticked = false, nil, time.Time{}
		if l.disarm != nil {
			l.disarm()
			l.disarm, l.armed = nil, time.Time{}
		}
	}
	return true
}

// end takes an entry out and ends it, with mu held.
func (l *List[K, A]) end(e *Entry[K, A]) {
	if l.remove(e) {
		go func() {
			l.slots <- struct{}{}
			defer func() { <-l.slots }()
			e.open.End()
		}()
	}
}

func (l *List[K, A]) enqueue(g *group[K, A]) {
	if g.gone || g.queued {
		return
	}
	g.queued = true
	if g.busy {
		return // its worker looks
	}
	l.queue = append(l.queue, g)
	if l.workers < max(2, runtime.GOMAXPROCS(0)) {
		l.workers++
		go l.work()
	}
}

// work asks for the groups in the queue, one after the other.
func (l *List[K, A]) work() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		g := l.queue[0]
		l.queue[0] = nil
		if l.queue = l.queue[1:]; len(l.queue) == 0 {
			l.queue = nil
		}
		if g.gone {
			continue
		}
		g.queued, g.busy = false, true
		first := !l.known
		l.mu.Unlock()
		if first {
			l.begin() // before the answer, so a change after it is seen
		}
		answer, basis, err := l.ask(g.key)
		var watch *storage.Watch
		if err == nil {
			watch = basis.Reading.Watch(g)
		}
		l.mu.Lock()
		g.watch.Stop()
		if g.watch = watch; g.gone {
			g.watch.Stop()
			g.watch, g.busy = nil, false
			continue
		}
		if err != nil {
			l.markStale(g)
		} else {
			l.judge(g, answer, basis)
		}
		if g.busy = false; g.queued {
			g.queued = false
			l.enqueue(g)
		}
	}
	l.workers--
}

func (l *List[K, A]) ask(key K) (answer A, basis Basis, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", errPanic, v)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	return l.cfg.Ask(ctx, key)
}

// markStale keeps a group that cannot be asked about for a while, and then ends it.
func (l *List[K, A]) markStale(g *group[K, A]) {
	g.answered = false
	now := l.cfg.Now()
	if now.Sub(g.sure) < l.cfg.Every {
		l.schedule(g, now.Add(l.cfg.Every/4))
		return
	}
	for len(g.open) > 0 {
		l.end(g.open[len(g.open)-1])
	}
}

// judge decides about all of a group. It lets go of mu meanwhile.
func (l *List[K, A]) judge(g *group[K, A], answer A, basis Basis) {
	now := l.cfg.Now()
	g.answer, g.answered, g.sure = answer, true, now
	due := basis.Until
	every := l.cfg.Every
	if basis.Again > 0 {
		every = min(every, basis.Again)
	}
	if again := now.Add(every); g.watch == nil || due.IsZero() {
		if due.IsZero() || again.Before(due) {
			due = again
		}
	}
	those := append([]*Entry[K, A](nil), g.open...)
	l.mu.Unlock()
	var ended []*Entry[K, A]
	for _, e := range those {
		ok, next := l.verdict(e, answer)
		switch {
		case !ok:
			ended = append(ended, e)
		case !next.IsZero() && next.Before(due):
			due = next
		}
	}
	l.mu.Lock()
	for _, e := range ended {
		l.end(e)
	}
	if !g.gone {
		l.schedule(g, due)
	}
}

// verdict is Judge, and false after a panic.
func (l *List[K, A]) verdict(e *Entry[K, A], answer A) (ok bool, next time.Time) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return e.open.Judge(answer)
}
