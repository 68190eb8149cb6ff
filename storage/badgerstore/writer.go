package badgerstore

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// maxWaiting bounds the closures that wait for the disk: more would only take up memory.
const maxWaiting = 8192

// maxTogether bounds the closures of one batch, so that late ones do not delay the answer to the first.
const maxTogether = 1024

// request is one Update on its way through the writer.
type request struct {
	fn   func(storage.Tx) error
	done chan struct{} // closed once everything below is final

	mu    sync.Mutex // held while fn runs, so that fn never uses its variables after its caller gave up
	state state      // guarded by mu

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
	r := &request{fn: storage.Guard(ctx, fn), done: make(chan struct{})}
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
	if r.panicked != nil || r.exited {
		return true
	}
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// writer runs the closures of all updates, one after the other, and writes them in batches. The settler answers a batch
// once it is durable.
type writer struct {
	store   *Store
	settler *settler

	mu      sync.Mutex // guards queue and closed
	queue   []*request
	closed  bool
	wake    chan struct{} // holds a token when the queue is not empty or the writer must end
	stopped chan struct{} // closed once every request is answered

	// Only the goroutine of loop uses the fields below.
	todo  []*request // taken from the queue, not run yet
	ran   []*request // run, waiting for their batch to be written
	spare []*request // memory for the next queue
	seq   uint64     // the last commit that was written, durable or not
	batch *engine.Overlay
	own   *engine.Overlay
	known *recent
}

func newWriter(s *Store, seq uint64) *writer {
	return &writer{
		store: s, settler: newSettler(s), seq: seq, batch: engine.NewOverlay(), own: engine.NewOverlay(), known: newRecent(),
		wake: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
}

func (w *writer) enqueue(r *request) error {
	if err := w.store.faulty(); err != nil {
		return err
	}
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
	first := len(w.queue) == 1
	w.mu.Unlock()
	if first {
		w.poke()
	}
	return nil
}

var errBusy = unavailable("too many transactions wait for the disk")

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

// loop runs until close. A closure that calls runtime.Goexit ends the goroutine too; the next goroutine continues from
// there.
func (w *writer) loop() {
	finished := false
	defer func() {
		if finished {
			w.settler.close()
			close(w.stopped)
		} else {
			go w.loop()
		}
	}()
	for w.step() {
	}
	finished = true
}

// step runs and commits one batch. It returns false when the writer must end.
func (w *writer) step() bool {
	if len(w.todo) == 0 && len(w.ran) == 0 {
		// Let the callers that were just answered come back first: batches become twice as large, and throughput grows
		// by a quarter.
		runtime.Gosched()
		if !w.take(true) {
			return false
		}
	}
	if len(w.ran) == 0 {
		err := w.store.faulty()
		if err == nil {
			err = w.store.writable()
		}
		if err == nil {
			if err = w.store.wal.ready(); err != nil {
				w.store.starved.Store(&err)
			}
		}
		if err != nil {
			w.refuse(err)
			return true
		}
	}
	for len(w.todo) > 0 || len(w.ran) < maxTogether && w.take(false) {
		r := w.todo[0]
		w.todo = w.todo[1:]
		w.run(r)
	}
	w.commit()
	return true
}

// take fetches the queued requests. With wait it blocks until there is one, and returns false only when the writer must
// end.
func (w *writer) take(wait bool) bool {
	for {
		w.mu.Lock()
		if len(w.queue) > 0 {
			w.todo, w.queue, w.spare = w.queue, w.spare[:0], w.queue
			w.mu.Unlock()
			return true
		}
		closed := w.closed
		w.mu.Unlock()
		if !wait || closed {
			return false
		}
		<-w.wake
	}
}

// refuse answers every request that has not run yet.
func (w *writer) refuse(err error) {
	for _, r := range w.todo {
		r.mu.Lock()
		if r.state == queued {
			r.state, r.err = ran, err
		}
		r.mu.Unlock()
		close(r.done)
	}
	w.todo = nil
}

// run runs one closure and, if it succeeds, adds its writes to the batch.
func (w *writer) run(r *request) {
	t := &tx{store: w.store, seq: w.seq, batch: w.batch, own: w.own, known: w.known}
	if !w.call(r, t) {
		return
	}
	if w.batch.Size()+w.own.Size() > w.store.maxSize || w.batch.Len()+w.own.Len() > w.store.maxCount {
		// The batch is full. The closure has seen it, and nothing can come between, so the closure opens the next
		// batch.
		self := w.ran[len(w.ran)-1]
		w.ran = w.ran[:len(w.ran)-1]
		w.commit()
		w.ran = append(w.ran, self)
		if err := w.store.writable(); err != nil {
			self.err = err
			w.own.Reset()
			return
		}
	}
	for e := range w.own.All() {
		w.batch.Put(e)
	}
	w.own.Reset()
}

// call runs the closure and tells whether to keep its writes. Its bookkeeping is deferred, because the closure may
// panic or end the goroutine.
func (w *writer) call(r *request, t *tx) (keep bool) {
	r.mu.Lock()
	if r.state != queued {
		r.mu.Unlock()
		return false
	}
	returned := false
	defer func() {
		if !returned {
			if r.panicked = recover(); r.panicked == nil {
				r.exited = true
			} else {
				w.store.log.Error("panic in a transaction", zap.ByteString("stack", debug.Stack()))
			}
		}
		t.end()
		if !keep {
			w.own.Reset()
		}
		r.state = ran
		r.mu.Unlock()
		w.ran = append(w.ran, r)
	}()
	r.err = r.fn(t)
	returned = true
	if r.err == nil {
		r.err = t.fail
	}
	return r.err == nil
}

// commit writes the batch and leaves the answers to the settler. Even a closure that wrote nothing or returned an error
// waits, because it may have read a write that is not durable yet.
func (w *writer) commit() {
	p := pendingBatch{ran: w.ran}
	w.ran = make([]*request, 0, len(w.ran))
	if w.batch.Len() > 0 {
		p.begun, p.records = time.Now(), w.batch.Len()
		if p.err = w.store.faulty(); p.err == nil {
			if err := w.write(&p); err != nil {
				p.err = w.store.poison(err)
			}
		}
		w.batch.Reset()
	}
	w.settler.settle(p)
}

// write hands the batch and the commit counter to Badger in one transaction.
func (w *writer) write(p *pendingBatch) error {
	s, seq := w.store, w.seq+1
	txn := s.db.NewTransactionAt(w.seq, true)
	defer txn.Discard()
	for e := range w.batch.All() {
		if err := s.stage(txn, e); err != nil {
			return err
		}
		s.marks.Wrote(e.Key, seq) // before the settler makes the batch visible
	}
	if err := txn.SetEntry(badger.NewEntry(counterKey, encodeCounter(seq))); err != nil {
		return err
	}
	if err := s.wal.commit(w.batch.Size(), w.batch.Len()+1, func() error { return s.commit(txn, seq) }); err != nil {
		return err
	}
	w.seq, p.seq = seq, seq
	for e := range w.batch.All() {
		w.known.wrote(e)
	}
	if err := s.present(); err != nil {
		return err
	}
	var err error
	p.log, err = s.wal.written()
	return err
}
