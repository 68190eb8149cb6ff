package pgstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

const (
	// maxWaiting bounds the closures that wait: more would only take up memory.
	maxWaiting = 8192
	// maxTogether bounds the closures of one transaction: when it conflicts with another node's, all run again.
	maxTogether = 64
)

// request is one Update on its way through the writer.
type request struct {
	fn    func(storage.Tx) error
	trail *storage.Trail
	done  chan struct{} // closed once everything below is final

	mu    sync.Mutex // held while fn runs, so that fn never uses its variables after its caller gave up
	state state      // guarded by mu
	left  bool       // its caller has gone: it must not run again; guarded by mu

	err      error
	panicked any
	exited   bool // fn called runtime.Goexit, as t.FailNow does
}

type state int

const (
	queued    state = iota
	abandoned       // given up by its caller before it ran
	ran
)

// Update implements storage.Store.
func (s *Store) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.history.trouble(); err != nil {
		return err
	}
	r := &request{fn: storage.Guard(ctx, fn), trail: storage.TrailOf(ctx), done: make(chan struct{})}
	if err := s.writer.enqueue(r); err != nil {
		return err
	}
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
	return r.err
}

// giveUp takes the request back if it has not run yet. It returns false if it ran and its outcome is unknown.
func (r *request) giveUp() bool {
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

// thrown tells whether the closure has ended its caller's goroutine, one way or the other.
func (r *request) thrown() bool { return r.panicked != nil || r.exited }

// writer runs the closures of all updates of this process. Those that wait together make up one transaction, in which
// each sees what those before it have written. So two nodes are two contenders at most, and many share one commit.
type writer struct {
	store *Store

	mu      sync.Mutex // guards queue and closed
	queue   []*request
	closed  bool
	wake    chan struct{} // holds a token when the queue is not empty or the writer must end
	stopped chan struct{} // closed once every request is answered

	session *session // of the writer alone; nil: not connected
	mute    bool     // the next try tells the nodes nothing
}

func newWriter(s *Store) *writer {
	return &writer{store: s, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
}

var errBusy = unavailable("too many transactions wait for the database")

func (w *writer) enqueue(r *request) error {
	w.mu.Lock()
	switch {
	case w.closed:
		w.mu.Unlock()
		return errClosed
	case len(w.queue) >= maxWaiting:
		w.mu.Unlock()
		return errBusy
	}
	w.queue = append(w.queue, r)
	w.mu.Unlock()
	w.poke()
	return nil
}

func (w *writer) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close lets the writer finish what is queued and refuses more.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.poke()
	<-w.stopped
}

// loop runs until close.
func (w *writer) loop() {
	defer close(w.stopped)
	defer w.leave()
	for {
		runtime.Gosched() // those who were just answered come back first
		batch := w.take(nil)
		if batch == nil {
			w.mu.Lock()
			ended := w.closed && len(w.queue) == 0
			w.mu.Unlock()
			if ended {
				return
			}
			<-w.wake
			continue
		}
		w.settle(batch)
	}
}

// take adds requests that wait to a batch, until it is full.
func (w *writer) take(batch []*request) []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxTogether-len(batch))
	batch = append(batch, w.queue[:n]...)
	w.queue = slices.Delete(w.queue, 0, n)
	return batch
}

// settle runs a batch until it is decided, and answers its callers.
func (w *writer) settle(batch []*request) {
	s := w.store
	for try := 1; ; try++ {
		var err error
		batch, err = w.attempt(batch, try == 1)
		if errors.Is(err, errAgain) {
			s.stats.retried[opUpdate].Add(1)
			if try < maxTries {
				_ = s.pause(context.Background(), try)
				continue
			}
			err = unavailable("other nodes write the same records all the time")
		}
		s.stats.updates.Add(uint64(len(batch)))
		for _, r := range batch {
			if err != nil {
				r.err = err
			}
			close(r.done)
		}
		return
	}
}

// attempt runs the closures of a batch in one transaction. Those that come meanwhile join it the first time, until it
// has read something: from then on it sees the records of a moment that is over, and a later caller may know of
// something that another node has answered since.
func (w *writer) attempt(batch []*request, more bool) ([]*request, error) {
	base := &transaction{store: w.store, begin: w.store.sql.beginUpdate, open: w.open}
	all, own := engine.NewOverlay(), engine.NewOverlay()
	for i := 0; i < len(batch); i++ {
		if w.call(batch[i], &tx{store: w.store, base: base, batch: all, own: own, trail: batch[i].trail}) {
			for e := range own.All() {
				all.Put(e)
			}
		}
		own.Reset()
		if base.err != nil {
			w.drop()
			return batch, base.err
		}
		if more && base.session == nil && i == len(batch)-1 && all.Size() < maxSize {
			batch = w.take(batch)
		}
	}
	return batch, w.commit(base, all)
}

// call runs a closure and tells whether to keep its writes. It has a goroutine of its own, because it may panic or end
// it.
func (w *writer) call(r *request, t *tx) (keep bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == abandoned || r.left || r.thrown() {
		return false
	}
	r.state = ran
	done := make(chan struct{})
	go func() {
		returned := false
		defer close(done)
		defer func() {
			t.end()
			if returned {
				return
			}
			if r.panicked = recover(); r.panicked == nil {
				r.exited = true
			} else {
				w.store.log.Error("panic in a transaction", zap.ByteString("stack", debug.Stack()))
			}
		}()
		r.err = r.fn(t)
		returned = true
		if r.err == nil {
			r.err = t.fail
		}
		keep = r.err == nil
	}()
	<-done
	return keep
}

// open returns the session of the writer.
func (w *writer) open() (*session, error) {
	if c := w.session; c != nil && !w.store.pool.outdated(c) && c.usable() {
		return c, nil
	}
	w.drop()
	ctx, cancel := context.WithTimeout(context.Background(), roundTripTimeout)
	defer cancel()
	c, err := w.store.pool.connect(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = unavailable("the database does not answer")
	}
	if w.session = c; err == nil {
		w.store.history.stored = c.tally
	}
	return c, err
}

// drop ends the transaction, and the session if it is of no more use.
func (w *writer) drop() {
	c := w.session
	if c == nil || !w.store.pool.outdated(c) && c.rollBack() {
		return
	}
	c.close()
	w.session = nil
}

// leave ends the transaction and the session.
func (w *writer) leave() {
	if w.session != nil {
		w.session.close()
		w.session = nil
	}
}

// errUnknown is the answer to those whose transaction may be durable or not.
var errUnknown = unavailable("the connection to the database was lost during a commit: its outcome is unknown")

// commit sends the writes and the commit in one round trip. Even a batch that wrote nothing needs it: before that
// what its closures have read may not fit together.
func (w *writer) commit(base *transaction, all *engine.Overlay) error {
	if base.session == nil && all.Len() == 0 {
		return nil
	}
	var list []statement
	if base.session == nil {
		c, err := w.open()
		if err != nil {
			return err
		}
		base.session, list = c, append(list, c.begins(base.begin)...)
	}
	entries := slices.SortedFunc(all.All(), func(a, b *engine.Entry) int { return strings.Compare(a.Key, b.Key) })
	list = append(list, w.store.sql.write(entries)...)
	if w.store.ears != nil && len(entries) > 0 && !w.mute {
		list = append(list, w.store.notice(entries))
	}
	w.mute = false
	h, is := w.store.history, ""
	if len(entries) > 0 {
		is = h.next()
		list = append(list, w.store.sql.tallied(h.own, h.stored, is))
	}
	list = append(list, statement{sql: "COMMIT"})
	c := base.session
	c.warned.Store(false)
	closed := c.conn.IsClosed() // otherwise something may have been sent: pgconn.SafeToRetry is no help with a batch
	begun := time.Now()
	results, err := c.run(list...)
	took := int64(time.Since(begun))
	switch {
	case sqlState(err) == "54000": // so much was told that is not heard yet. No beat is heard either, so nobody relies on it
		w.mute = true
		err = errAgain
	case sqlState(err) == goneBack: // the next session tells
		c.close()
		err = errAgain
	case err != nil && (refused(err) || len(entries) == 0 || closed):
		err = w.store.failed(c, err)
	case err != nil:
		w.store.log.Error("the outcome of a commit is unknown", zap.Error(safe(err)))
		w.store.pool.reset(c.era)
		err = errUnknown
	case results[len(results)-1].CommandTag.String() != "COMMIT":
		err = errAgain
	case len(entries) > 0 && rowWasMissing(results[len(results)-2]): // the next session tells more
		c.close()
		err = errUnknown
	case c.warned.Load(): // such as: a standby was not waited for
		w.store.log.Error("the database warned at a commit: it may not be where it has to be")
		h.stored = is
		err = errUnknown
	}
	if err != nil {
		w.drop()
		return err
	}
	if len(entries) > 0 {
		h.counted(is)
		w.store.stats.commits.Add(1)
		w.store.stats.lastCommit.Store(took)
		w.store.stats.lastWrite.Store(time.Now().UnixNano())
		w.store.stats.commitTime.Add(took)
		w.store.stats.records.Add(uint64(len(entries)))
	}
	return nil
}
