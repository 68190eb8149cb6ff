package badgerstore

import (
	"os"
	"time"
)

// written is a batch that Badger has and whose closures wait to be answered.
type written struct {
	ran     []*request
	seq     uint64 // its commit; 0: it wrote nothing, or nothing of it came to be
	records int
	begun   time.Time
	log     *os.File // where it is; nil: it is as durable as it will ever be
	err     error    // it failed, and the store is poisoned
}

// settler makes batches durable, one after the other, and then answers their closures. The writer runs and writes the next batch meanwhile: where
// many write, the disk and the processors are busy at once.
type settler struct {
	store *Store
	queue chan written // without room: while the disk is busy, batches grow
	done  chan struct{}
	log   *os.File // the one that was synced last
}

func newSettler(s *Store) *settler {
	t := &settler{store: s, queue: make(chan written), done: make(chan struct{})}
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

// settle answers a batch once it is durable. It returns when the batch before is answered.
func (t *settler) settle(p written) {
	if t.store.wal == nil {
		t.answer(p)
		return
	}
	t.queue <- p
}

// close returns when everything is answered.
func (t *settler) close() {
	close(t.queue)
	<-t.done
}

func (t *settler) answer(p written) {
	if p.err == nil {
		p.err = t.store.faulty() // a batch before this one is not durable: this one may rest on it
	}
	if p.err == nil && p.seq > 0 {
		if err := t.sync(p); err != nil {
			p.err = t.store.poison(err)
		}
	}
	t.store.count(len(p.ran))
	for _, r := range p.ran {
		if p.err != nil {
			r.err = p.err
		}
		close(r.done)
	}
}

// sync makes the batch durable and then visible.
func (t *settler) sync(p written) error {
	s := t.store
	if p.log != nil {
		if err := s.wal.sync(p.log); err != nil {
			return err
		}
		if t.log != p.log { // Badger has begun another
			_ = t.log.Close()
			t.log = p.log
		}
	}
	// Before anybody is answered: a store that later opens with less has lost something.
	if err := s.side.write(p.seq); err != nil {
		return err
	}
	s.db.SetDiscardTs(s.snapshots.advance(p.seq))
	s.committed(p.seq, p.records, time.Since(p.begun))
	return nil
}
