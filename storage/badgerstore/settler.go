package badgerstore

import (
	"os"
	"time"

	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// pendingBatch is a batch that is in Badger and whose callers wait for an answer.
type pendingBatch struct {
	ran     []*engine.Request
	seq     uint64 // its commit; 0: it wrote nothing, or none of it was kept
	records int
	begun   time.Time
	log     *os.File // the log that holds it; nil: it needs no sync
	err     error    // it failed, and the store is poisoned
}

// settler makes batches durable, one after the other, and then answers their callers. Meanwhile the writer runs and
// writes the next batch, so under load the disk and the processors are busy at once.
type settler struct {
	store *Store
	queue chan pendingBatch // unbuffered: while the disk is busy, batches grow
	done  chan struct{}
	log   *os.File // the log that was synced last
}

func newSettler(s *Store) *settler {
	t := &settler{store: s, queue: make(chan pendingBatch), done: make(chan struct{})}
	if s.wal == nil {
		close(t.done)
		return t
	}
	t.log = s.wal.file
	go func() {
		defer close(t.done)
		for p := range t.queue {
			t.answer(p)
		}
		_ = t.log.Close()
	}()
	return t
}

// settle answers a batch after it is durable. It returns when the batch before is answered.
func (t *settler) settle(p pendingBatch) {
	if t.store.wal == nil {
		t.answer(p)
		return
	}
	t.queue <- p
}

// close returns when every batch is answered.
func (t *settler) close() {
	close(t.queue)
	<-t.done
}

func (t *settler) answer(p pendingBatch) {
	if p.err == nil {
		p.err = t.store.faulty() // an earlier batch is not durable, and this one may depend on it
	}
	if p.err == nil && p.seq > 0 {
		if err := t.sync(p); err != nil {
			p.err = t.store.poison(err)
		}
	}
	t.store.count(len(p.ran))
	for _, r := range p.ran {
		r.Answer(p.err)
	}
}

// sync makes the batch durable and then visible.
func (t *settler) sync(p pendingBatch) error {
	s := t.store
	if p.log != nil {
		if err := s.wal.sync(p.log); err != nil {
			return err
		}
		if t.log != p.log { // Badger has begun another log
			_ = t.log.Close()
			t.log = p.log
		}
	}
	// Before the callers are answered: a store that later opens with a lower number has lost data.
	if err := s.side.write(p.seq); err != nil {
		return err
	}
	s.db.SetDiscardTs(s.snapshots.advance(p.seq))
	s.marks.Visible(p.seq)
	s.committed(p.seq, p.records, time.Since(p.begun))
	return nil
}
