package recheck

import (
	"container/heap"
	"context"
	"fmt"
	"time"
)

// schedule is a heap of groups, the one that is due first in front.
type schedule[K comparable, A any] []*group[K, A]

func (s schedule[K, A]) Len() int           { return len(s) }
func (s schedule[K, A]) Less(i, j int) bool { return s[i].due.Before(s[j].due) }

func (s schedule[K, A]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].at, s[j].at = i, j
}

// Push implements heap.Interface.
func (s *schedule[K, A]) Push(x any) {
	g := x.(*group[K, A]) //nolint:forcetypeassert // nothing else is pushed
	g.at = len(*s)
	*s = append(*s, g)
}

// Pop implements heap.Interface.
func (s *schedule[K, A]) Pop() any {
	old := *s
	last := len(old) - 1
	g := old[last]
	old[last] = nil
	g.at = -1
	*s = old[:last]
	return g
}

// schedule has a group asked again at a time, with mu held.
func (l *List[K, A]) schedule(g *group[K, A], at time.Time) {
	if first := l.cfg.Now().Add(soonest); at.Before(first) {
		at = first
	}
	if g.due = at; g.at < 0 {
		heap.Push(&l.due, g)
	} else {
		heap.Fix(&l.due, g.at)
	}
	l.arm()
}

// arm sets the one timer: for the group that is due first, and in a few seconds at the latest, since a clock can be
// set.
func (l *List[K, A]) arm() {
	now := l.cfg.Now()
	if l.ticked.IsZero() {
		l.ticked = now
	}
	at := l.ticked.Add(l.cfg.Every)
	if len(l.due) > 0 && l.due[0].due.Before(at) {
		at = l.due[0].due
	}
	if !l.armed.IsZero() && !at.Before(l.armed) {
		return
	}
	if l.disarm != nil {
		l.disarm()
	}
	l.armed = at
	l.disarm = l.cfg.After(max(0, at.Sub(now)), l.ring)
}

// ring is called when the timer goes off.
func (l *List[K, A]) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = time.Time{}
	if len(l.groups) == 0 {
		return
	}
	now := l.cfg.Now()
	for len(l.due) > 0 && !l.due[0].due.After(now) {
		l.enqueue(heap.Pop(&l.due).(*group[K, A])) //nolint:forcetypeassert // nothing else is in it
	}
	if passed := now.Sub(l.ticked); passed >= l.cfg.Every || passed < 0 {
		l.ticked = now
		if !l.ticking {
			l.ticking = true
			go l.tick()
		}
	}
	l.arm()
}

// tick asks what has changed besides answers.
func (l *List[K, A]) tick() {
	state, err := l.changed()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ticking = false
	switch {
	case len(l.groups) == 0:
	case err != nil:
		for _, g := range l.groups {
			for len(g.open) > 0 {
				l.end(g.open[len(g.open)-1])
			}
		}
	case !l.known || l.last != state:
		l.known, l.last = true, state
		for _, g := range l.groups {
			l.enqueue(g)
		}
	}
}

// begin asks what there is besides answers, for the first who is open.
func (l *List[K, A]) begin() {
	state, err := l.changed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && !l.known {
		l.known, l.last = true, state
	}
}

func (l *List[K, A]) changed() (state any, err error) {
	if l.cfg.Changed == nil {
		return nil, nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", errPanic, v)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	return l.cfg.Changed(ctx)
}
