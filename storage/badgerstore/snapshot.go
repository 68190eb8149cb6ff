package badgerstore

import (
	"sync"

	"github.com/gatehouse-id/gatehouse/storage"
)

// snapshots knows which commits are still being read, so Badger keeps them and can drop the rest.
type snapshots struct {
	mu      sync.Mutex // guards everything below
	idle    sync.Cond  // signalled when the last view of a closed store ends
	oldest  *snapshot  // head of a list in the order of seq; current is always in it
	current *snapshot
	views   int
	closed  bool
}

// snapshot is one commit as seen by the views that opened on it.
type snapshot struct {
	seq        uint64
	views      int
	prev, next *snapshot
}

func (s *snapshots) init(seq uint64) {
	s.idle.L = &s.mu
	s.current = &snapshot{seq: seq}
	s.oldest = s.current
}

// open returns the last durable commit and keeps it readable until release.
func (s *snapshots) open() (*snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	s.views++
	s.current.views++
	return s.current, nil
}

func (s *snapshots) release(n *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.views--
	if n.views == 0 && n != s.current {
		s.unlink(n)
	}
	if s.views--; s.views == 0 && s.closed {
		s.idle.Broadcast()
	}
}

// advance makes seq the commit that new views see, and returns the oldest commit that is still being read.
func (s *snapshots) advance(seq uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.views == 0 {
		s.current.seq = seq
	} else {
		n := &snapshot{seq: seq, prev: s.current}
		s.current.next = n
		s.current = n
	}
	return s.oldest.seq
}

func (s *snapshots) unlink(n *snapshot) {
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		s.oldest = n.next
	}
	n.next.prev = n.prev // never nil: only current has no next
}

// close refuses further views and waits for those under way.
func (s *snapshots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.views > 0 {
		s.idle.Wait()
	}
}

func (s *snapshots) count() (views int, seq, oldest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.views, s.current.seq, s.oldest.seq
}

var errClosed = unavailable("the store is closed")

type unavailable string

func (u unavailable) Error() string { return storage.ErrUnavailable.Error() + ": " + string(u) }

func (u unavailable) Unwrap() error { return storage.ErrUnavailable }
