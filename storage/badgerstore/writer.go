package badgerstore

import (
	"context"
	"runtime"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// maxTogether bounds the closures of one batch, so late ones do not delay the answer to the first.
const maxTogether = 1024

// Update implements storage.Store.
func (s *Store) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.faulty(); err != nil {
		return err
	}
	r := engine.NewRequest(ctx, fn)
	if err := s.writer.queue.Add(r); err != nil {
		return err
	}
	return r.Wait(ctx)
}

// writer runs the closures of all updates, one after the other, and writes them in batches. The settler answers a batch
// once it is durable.
type writer struct {
	store   *Store
	settler *settler
	queue   *engine.Queue
	stopped chan struct{} // closed once every request is answered

	// Only the goroutine of loop uses the fields below.
	todo  []*engine.Request // taken from the queue, not run yet
	ran   []*engine.Request // run, waiting for their batch to be written
	taken []*engine.Request // the memory of todo
	seq   uint64            // the last commit that was written, durable or not
	batch *engine.Overlay
	own   *engine.Overlay
	known *recent
}

func newWriter(s *Store, seq uint64) *writer {
	return &writer{
		store: s, settler: newSettler(s), seq: seq, batch: engine.NewOverlay(), own: engine.NewOverlay(), known: newRecent(),
		queue: engine.NewQueue(errClosed, errBusy), stopped: make(chan struct{}),
	}
}

var errBusy = unavailable("too many transactions wait for the disk")

// close lets the writer finish what is queued and refuses more.
func (w *writer) close() {
	w.queue.Close()
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
		if !w.queue.Wait() {
			return false
		}
		w.take()
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
	for len(w.todo) > 0 || len(w.ran) < maxTogether && w.take() {
		r := w.todo[0]
		w.todo = w.todo[1:]
		w.run(r)
	}
	w.commit()
	return true
}

// take fetches the queued requests, and reports whether there are any.
func (w *writer) take() bool {
	clear(w.taken)
	w.taken = w.queue.Take(w.taken[:0], engine.MaxWaiting)
	w.todo = w.taken
	return len(w.todo) > 0
}

// refuse answers every request that has not run yet.
func (w *writer) refuse(err error) {
	for _, r := range w.todo {
		r.Refuse(err)
	}
	w.todo = nil
}

// run runs one closure and, if it succeeds, adds its writes to the batch.
func (w *writer) run(r *engine.Request) {
	t := &tx{
		Writes: engine.Writes{Batch: w.batch, Own: w.own, MaxSize: w.store.maxSize, MaxCount: w.store.maxCount},
		store:  w.store, seq: w.seq, known: w.known,
	}
	kept := false
	r.Run(t, w.store.log, func(keep bool) {
		if kept = keep; !keep {
			w.own.Reset()
		}
		w.ran = append(w.ran, r)
	})
	if !kept {
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
			self.Err = err
			w.own.Reset()
			return
		}
	}
	for e := range w.own.All() {
		w.batch.Put(e)
	}
	w.own.Reset()
}

// commit writes the batch and leaves the answers to the settler. Even a closure that wrote nothing or returned an error
// waits, because it may have read a write that is not durable yet.
func (w *writer) commit() {
	p := pendingBatch{ran: w.ran}
	w.ran = make([]*engine.Request, 0, len(w.ran))
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
