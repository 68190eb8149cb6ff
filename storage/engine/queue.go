package engine

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// MaxWaiting bounds the closures that wait for the writer of an engine: more would only take up memory.
const MaxWaiting = 8192

// Request is one Update on its way through the writer of an engine.
type Request struct {
	Trail *storage.Trail // of the caller; can be nil
	Err   error          // of the closure or of its batch; final once answered

	fn   func(storage.Tx) error
	done chan struct{} // closed once everything else is final

	mu    sync.Mutex // held while fn runs, so fn never uses its variables after its caller gave up
	state state      // guarded by mu
	left  bool       // its caller has gone: it must not run again; guarded by mu

	panicked any
	exited   bool // fn called runtime.Goexit, as t.FailNow does
}

type state int

const (
	queued    state = iota
	abandoned       // given up by its caller before it ran
	ran
)

// NewRequest returns a request for a closure of a caller.
func NewRequest(ctx context.Context, fn func(storage.Tx) error) *Request {
	return &Request{fn: storage.Guard(ctx, fn), Trail: storage.TrailOf(ctx), done: make(chan struct{})}
}

// Wait returns what the writer answers, or panics or exits as the closure did. If the context ends first, the error
// says whether the outcome is known.
func (r *Request) Wait(ctx context.Context) error {
	select {
	case <-r.done:
	case <-ctx.Done():
		if !r.giveUp() {
			return fmt.Errorf("outcome of the transaction is unknown: %w", ctx.Err())
		}
		if r.state == abandoned {
			return ctx.Err()
		}
	}
	switch {
	case r.panicked != nil:
		panic(r.panicked)
	case r.exited:
		runtime.Goexit()
	}
	return r.Err
}

// giveUp takes the request back if it has not run yet. It returns false if it ran and its outcome is unknown.
func (r *Request) giveUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == queued {
		r.state = abandoned
		return true
	}
	if r.thrown() {
		return true
	}
	select {
	case <-r.done:
		return true
	default:
		r.left = true
		return false
	}
}

// thrown reports whether the closure has ended its caller's goroutine, one way or the other.
func (r *Request) thrown() bool { return r.panicked != nil || r.exited }

// A Transaction is what a closure writes to.
type Transaction interface {
	storage.Tx

	// Failed returns the error of a write that was refused: nothing of the closure is kept then.
	Failed() error

	// End makes the transaction unusable.
	End()
}

// Run calls the closure, unless its caller has given up, and then ended, even if the closure panics or ends the
// goroutine: keep reports whether to keep what it wrote.
func (r *Request) Run(t Transaction, log *zap.Logger, ended func(keep bool)) {
	r.mu.Lock()
	if r.state == abandoned || r.left || r.thrown() {
		r.mu.Unlock()
		return
	}
	returned := false
	defer func() {
		if !returned {
			if r.panicked = recover(); r.panicked == nil {
				r.exited = true
			} else {
				log.Error("panic in a transaction", zap.ByteString("stack", debug.Stack()))
			}
		}
		t.End()
		r.state = ran
		ended(returned && r.Err == nil)
		r.mu.Unlock()
	}()
	r.Err = r.fn(t)
	if r.Err == nil {
		r.Err = t.Failed()
	}
	returned = true
}

// Refuse answers a request that has not run.
func (r *Request) Refuse(err error) {
	r.mu.Lock()
	if r.state == queued {
		r.state, r.Err = ran, err
	}
	r.mu.Unlock()
	close(r.done)
}

// Answer ends the wait of the caller. err is that of the batch; nil: the closure's own holds.
func (r *Request) Answer(err error) {
	if err != nil {
		r.Err = err
	}
	close(r.done)
}

// Queue holds the requests that wait for the writer of an engine.
type Queue struct {
	closedErr, busyErr error

	mu     sync.Mutex // guards list and closed
	list   []*Request
	closed bool
	wake   chan struct{} // holds a token when the list is not empty or the writer must end
}

// NewQueue returns an empty queue, and the errors with which it refuses requests when it is closed and when it is full.
func NewQueue(closed, busy error) *Queue {
	return &Queue{closedErr: closed, busyErr: busy, wake: make(chan struct{}, 1)}
}

// Add appends a request.
func (q *Queue) Add(r *Request) error {
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		return q.closedErr
	case len(q.list) >= MaxWaiting:
		q.mu.Unlock()
		return q.busyErr
	}
	q.list = append(q.list, r)
	first := len(q.list) == 1
	q.mu.Unlock()
	if first {
		q.poke()
	}
	return nil
}

func (q *Queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Len is the number of requests that wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list)
}

// Close refuses more requests. The writer finishes those that wait.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.poke()
}

// Take appends requests that wait to a batch, until it has most.
func (q *Queue) Take(batch []*Request, most int) []*Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := max(0, min(len(q.list), most-len(batch)))
	batch = append(batch, q.list[:n]...)
	q.list = slices.Delete(q.list, 0, n)
	return batch
}

// Wait blocks until a request waits. It returns false once the queue is closed and empty. Only the writer calls it.
func (q *Queue) Wait() bool {
	for {
		q.mu.Lock()
		some, closed := len(q.list) > 0, q.closed
		q.mu.Unlock()
		if some || closed {
			return some
		}
		<-q.wake
	}
}
