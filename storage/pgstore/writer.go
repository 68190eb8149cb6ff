package pgstore

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// maxTogether bounds the closures of one transaction: when it conflicts with another node's, all run again.
const maxTogether = 64

// Update implements storage.Store.
func (s *Store) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.history.trouble(); err != nil {
		return err
	}
	r := engine.NewRequest(ctx, fn)
	if err := s.writer.queue.Add(r); err != nil {
		return err
	}
	return r.Wait(ctx)
}

// writer runs the closures of all updates of this process. Those that wait together make up one transaction, in which
// each sees what those before it have written. So two nodes are two contenders at most, and many share one commit.
type writer struct {
	store   *Store
	queue   *engine.Queue
	stopped chan struct{} // closed once every request is answered

	session *session // of the writer alone; nil: not connected
	mute    bool     // the next try tells the nodes nothing
}

func newWriter(s *Store) *writer {
	return &writer{store: s, queue: engine.NewQueue(errClosed, errBusy), stopped: make(chan struct{})}
}

var errBusy = unavailable("too many transactions wait for the database")

// close lets the writer finish what is queued and refuses more.
func (w *writer) close() {
	w.queue.Close()
	<-w.stopped
}

// loop runs until close.
func (w *writer) loop() {
	defer close(w.stopped)
	defer w.leave()
	for w.queue.Wait() {
		runtime.Gosched() // those who were just answered come back first
		w.settle(w.queue.Take(nil, maxTogether))
	}
}

// settle runs a batch until it is decided, and answers its callers.
func (w *writer) settle(batch []*engine.Request) {
	s, begun := w.store, time.Now()
	for try := 1; ; try++ {
		var err error
		batch, err = w.attempt(batch, try == 1)
		if errors.Is(err, errAgain) {
			s.stats.retried[opUpdate].Add(1)
			if try < maxTries || time.Since(begun) < maxConflict {
				_ = s.pause(context.Background(), try)
				continue
			}
			err = unavailable("other nodes write the same records all the time")
		}
		s.stats.updates.Add(uint64(len(batch)))
		for _, r := range batch {
			r.Answer(err)
		}
		return
	}
}

// attempt runs the closures of a batch in one transaction. Those that come meanwhile join it the first time, until it
// has read something: from then on it sees the records of a moment that is over, and a later caller may know of
// something that another node has answered since.
func (w *writer) attempt(batch []*engine.Request, more bool) ([]*engine.Request, error) {
	base := &transaction{store: w.store, begin: w.store.sql.beginUpdate, open: w.open}
	all, own := engine.NewOverlay(), engine.NewOverlay()
	for i := 0; i < len(batch); i++ {
		if w.call(batch[i], &tx{Writes: writes(all, own), store: w.store, base: base, trail: batch[i].Trail}) {
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
			batch = w.queue.Take(batch, maxTogether)
		}
	}
	return batch, w.commit(base, all)
}

// call runs a closure and reports whether to keep its writes. It has a goroutine of its own, because it may panic or
// end it.
func (w *writer) call(r *engine.Request, t *tx) (keep bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(t, w.store.log, func(ok bool) { keep = ok })
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
	case sqlState(err) == "54000": // so much was told that is not heard yet. No beat is heard either, so no one relies on it
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
