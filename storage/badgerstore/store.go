// Package badgerstore keeps records in a Badger database inside the process: nothing else to install or run.
//
// All updates pass one writer, which runs the waiting ones one after the other and makes them durable with one sync.
// They are serializable without conflicts or reruns, and views never wait for the disk. What Badger does not do is
// done here: a checksum bound to the key in every record, a watermark of free space, and a commit counter in two
// places, which finds at Open what a damaged disk has lost. The storage directory belongs to one process at a time.
package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// ErrRemoved says that the storage directory was removed or replaced while the store was open.
var ErrRemoved = errors.New("the storage directory was removed or replaced")

// errStuck says that Badger does not end.
var errStuck = errors.New("badger does not finish its writes")

// closeWait is the time that Close waits for Badger, which tries for ever to write a table.
const closeWait = 10 * time.Second

// defaultMinFree is the default watermark of free space in bytes. Badger writes through memory maps: on a full disk the
// process would die of SIGBUS, so writes are refused well before.
const defaultMinFree = 128 << 20

// Options of a store. Only Dir is needed.
type Options struct {
	// Dir is the storage directory; it is created with mode 0700. No other process may use it at the same time.
	Dir string
	// MinFree is the free space in bytes below which writes are refused with storage.ErrFull. A store that exists can be
	// opened below it, for reading. Half as much again is kept in a file. Default: 128 MiB.
	MinFree uint64
	// Log receives faults and Badger's own messages. Default: nothing is logged.
	Log *zap.Logger
	// Now is the clock that decides when a record can be collected. Default: time.Now.
	Now func() time.Time
	// FreeSpace returns the bytes available to this process on the file system of dir. Default: asks the operating
	// system.
	FreeSpace func(dir string) (uint64, error)
	// SweepEvery is the time between two collections of expired records. Default: 10 minutes; negative: never.
	SweepEvery time.Duration

	memory bool
	// collects makes Badger collect too, which it does by the machine's clock.
	collects bool
	// commit replaces badger.Txn.CommitAt in tests of its failures.
	commit func(*badger.Txn, uint64) error
	// sync replaces datasync.
	sync func(*os.File) error
	// failed is called when the store is poisoned.
	failed func()
	// atLeast is a commit that the directory must hold, of the store with the mark same.
	atLeast uint64
	same    mark
	// closeWait replaces the constant.
	closeWait time.Duration
	// marks is the number of marks for keys.
	marks int
	// spacePause replaces the constant.
	spacePause time.Duration
}

// Store is a storage.Store, storage.Backuper and storage.Checker on a directory.
type Store struct {
	opt       Options
	log       *zap.Logger
	now       func() time.Time
	db        *badger.DB
	lock      *dirLock // keeps other processes out; nil in memory
	dir       string   // a path to the directory that was opened, whatever happens to Options.Dir; see anchor
	side      *sideFile
	wal       *wal // nil: in memory, and where Badger syncs
	space     *space
	snapshots snapshots
	marks     *storage.Marks
	writer    *writer
	readOnly  bool // it was opened below the watermark
	commit    func(*badger.Txn, uint64) error

	maxSize  int64 // of a batch, in bytes as Badger counts them
	maxCount int   // of a batch, in records

	fault   atomic.Pointer[error] // the reason if the store is poisoned
	starved atomic.Pointer[error] // the reason if the last batch was refused for want of descriptors

	sweeping   sync.Mutex // one sweep at a time
	stopSweeps context.CancelFunc
	sweeps     sync.WaitGroup

	closing sync.Once
	closed  error

	statsMu sync.Mutex // guards stats
	stats   Stats
}

var (
	_ storage.Store    = (*Store)(nil)
	_ storage.Tracker  = (*Store)(nil)
	_ storage.Backuper = (*Store)(nil)
	_ storage.Checker  = (*Store)(nil)
)

// Stats are a store's counters, for metrics.
type Stats struct {
	Updates      uint64        // transactions answered, including those that failed or wrote nothing
	Commits      uint64        // synced batches
	Records      uint64        // records written or deleted by them
	LastBatch    int           // records of the last batch
	LastCommit   time.Duration // time that the last batch took, sync included
	TotalCommits time.Duration // time that all batches took
	Collected    uint64        // expired records that sweeps removed
	Seq          uint64        // number of the last durable commit
	Views        int           // views that are open now
	Reopenings   uint64        // times that it was opened again after a failed commit
	Free         uint64        // bytes free when last looked at
	LSMBytes     int64         // size of the tables on disk, looked at once a minute
}

// OpenMemory returns a store for tests that keeps everything in memory until Close. Each of opts changes its options,
// for instance its clock; Dir is not used.
func OpenMemory(opts ...func(*Options)) (*Store, error) {
	o := Options{memory: true, SweepEvery: -1, FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }}
	o.closeWait = time.Minute // there is no disk that could fail, but a busy machine
	for _, f := range opts {
		f(&o)
	}
	return open(o)
}

// openDir opens the store of a directory, or makes a new one if the directory is empty or missing. It refuses a
// directory that another process uses or that has lost data, and a new one without enough free space, and leaves it
// unchanged.
func openDir(ctx context.Context, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Dir == "" {
		return nil, errors.New("open storage: no directory given")
	}
	s, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("open storage %s: %w", o.Dir, err)
	}
	return s, nil
}

// Watermark returns MinFree, or its default.
func (o Options) Watermark() uint64 { return cmp.Or(o.MinFree, defaultMinFree) }

func (o *Options) defaults() {
	o.collects = o.Now == nil
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.MinFree == 0 {
		o.MinFree = defaultMinFree
	}
	if o.FreeSpace == nil {
		o.FreeSpace = freeSpace
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = 10 * time.Minute
	}
	if o.commit == nil {
		o.commit = func(txn *badger.Txn, seq uint64) error { return txn.CommitAt(seq, nil) }
	}
	if o.sync == nil {
		o.sync = datasync
	}
	if o.closeWait == 0 {
		o.closeWait = closeWait
	}
	o.marks = marksOnDisk
	if o.memory {
		o.marks = marksInMemory
	}
}

func open(o Options) (_ *Store, err error) {
	o.defaults()
	s := &Store{opt: o, log: o.Log, now: o.Now, commit: o.commit, marks: storage.NewMarks(o.marks)}
	s.space = &space{dir: o.Dir, min: o.MinFree, free: o.FreeSpace, log: o.Log, never: true}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	last := diskState{}
	if !o.memory {
		if last, err = s.prepare(); err != nil {
			return nil, err
		}
	}
	if s.db, err = openBadger(settings(o, s.dir).WithReadOnly(s.readOnly)); err != nil {
		return nil, err
	}
	seq, err := s.counter()
	if err != nil {
		return nil, err
	}
	if !o.memory && seq != last.seq {
		return nil, lost("the commit counter reads %d, the files say %d", seq, last.seq)
	}
	if !o.memory {
		if s.side, err = openSideFile(s.dir, o.Dir, seq); err != nil {
			return nil, err
		}
		if err := s.present(); err != nil { // it was replaced after it was locked
			return nil, err
		}
	}
	if !o.memory && syncsWAL && !s.readOnly {
		if s.wal, err = openWAL(s.dir, o.sync); err != nil {
			return nil, err
		}
	}
	// Half of what Badger accepts in one transaction, because its own count differs slightly.
	s.maxSize, s.maxCount = s.db.MaxBatchSize()/2, int(s.db.MaxBatchCount()/2)
	s.snapshots.init(seq)
	s.db.SetDiscardTs(seq)
	s.stats.Seq = seq
	if !o.memory && !s.readOnly {
		s.space.begin()
		_ = s.space.look() // takes the reserve; an error is what the first write meets
	}
	s.writer = newWriter(s, seq)
	go s.writer.loop()
	s.startSweeps()
	return s, nil
}

// prepare makes, locks and examines the directory, before Badger sees it: Badger discards what it cannot read.
func (s *Store) prepare() (diskState, error) {
	dir := s.opt.Dir
	if s.opt.atLeast > 0 {
		if err := s.opt.same.wantedIn(dir); err != nil {
			return diskState{}, err
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return diskState{}, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		s.log.Warn("storage directory may be open to others", zap.String("dir", dir), zap.Error(err))
	}
	var err error
	if s.lock, err = lockDir(dir); err != nil {
		return diskState{}, err
	}
	s.dir = anchor(s.lock, dir)
	s.space.dir = s.dir
	full := s.space.look()
	if full != nil && !errors.Is(full, storage.ErrFull) {
		return diskState{}, full
	}
	if _, err := os.Stat(filepath.Join(dir, restoring)); !errors.Is(err, fs.ErrNotExist) {
		return diskState{}, fmt.Errorf("a restore did not finish (%s is there): empty the directory and restore again", restoring)
	}
	if err := checkFormat(dir); err != nil {
		return diskState{}, err
	}
	last, err := examine(dir)
	if err != nil {
		return diskState{}, err
	}
	if err := checkSideFile(dir, last); err != nil {
		return diskState{}, err
	}
	if last.seq < s.opt.atLeast {
		return diskState{}, lost("commit %d was answered, but the last one found is %d", s.opt.atLeast, last.seq)
	}
	if full != nil {
		if last.seq == 0 {
			return diskState{}, full // there is nothing to read
		}
		s.readOnly = true
		s.log.Error("too little free space: the store is opened for reading", zap.Error(full))
		return last, trimLogs(dir, last)
	}
	if err := rewriteLogs(dir, last, s.opt.sync); err != nil {
		return diskState{}, err
	}
	return last, removeEmptyLogs(dir)
}

// abandon releases the resources of a failed Open.
func (s *Store) abandon() {
	s.wal.close()
	if s.db != nil {
		_ = s.db.Close()
	}
	if s.side != nil {
		_ = s.side.close()
	}
	if s.lock != nil {
		_ = s.lock.release()
	}
}

// counter reads the number of the last commit, 0 in a new store.
func (s *Store) counter() (uint64, error) {
	txn := s.db.NewTransactionAt(maxSeq, false)
	defer txn.Discard()
	item, err := txn.Get(counterKey)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the commit counter: %w", err)
	}
	var seq uint64
	err = item.Value(func(v []byte) error {
		seq, err = decodeCounter(v)
		return err
	})
	return seq, err
}

// Close implements storage.Store. It waits for views and updates under way. Further calls return the result of the
// first.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.marks.Void()
		s.stopSweeps()
		s.writer.close()
		s.snapshots.close()
		s.sweeps.Wait()
		err := s.closeBadger()
		if !s.opt.memory {
			(&fileModes{dir: s.dir}).repair() // the last table
		}
		s.wal.close()
		if s.side != nil {
			err = errors.Join(err, s.side.close())
		}
		if s.lock != nil && !errors.Is(err, errStuck) { // otherwise Badger still writes there
			err = errors.Join(err, s.lock.release())
		}
		if err != nil {
			s.closed = fmt.Errorf("close storage: %w", err)
		}
	})
	return s.closed
}

// closeBadger waits a bounded time: whatever was answered is durable without it. It leaves Badger alone that would
// write by path into what took the place of its directory.
func (s *Store) closeBadger() error {
	if !s.opt.memory && s.dir == s.opt.Dir {
		if err := s.present(); err != nil {
			return fmt.Errorf("%w: %w", errStuck, err)
		}
	}
	done := make(chan error, 1)
	go func() {
		done <- s.db.Close()
		runtime.KeepAlive(s) // a collected descriptor of the lock would be reused, and Badger's paths lead through it
	}()
	timer := time.NewTimer(s.opt.closeWait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errStuck
	}
}

// Check implements storage.Checker.
func (s *Store) Check(context.Context) error {
	if err := s.faulty(); err != nil {
		return err
	}
	snap, err := s.snapshots.open()
	if err != nil {
		return err
	}
	defer s.snapshots.release(snap)
	if err := s.present(); err != nil {
		return s.poison(err)
	}
	if err := s.starved.Load(); err != nil {
		f, still := os.Open(s.opt.Dir)
		if still != nil {
			return *err
		}
		s.starved.Store(nil)
		_ = f.Close()
	}
	return s.writable()
}

// Stats returns what the store has counted since it was opened.
func (s *Store) Stats() Stats {
	views, _, _ := s.snapshots.count()
	lsm := int64(0)
	if snap, err := s.snapshots.open(); err == nil {
		lsm, _ = s.db.Size()
		s.snapshots.release(snap)
	}
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	st := s.stats
	st.Views, st.LSMBytes, st.Free = views, lsm, s.space.bytes()
	return st
}

func (s *Store) count(updates int) {
	s.statsMu.Lock()
	s.stats.Updates += uint64(updates)
	s.statsMu.Unlock()
}

func (s *Store) committed(seq uint64, records int, took time.Duration) {
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	s.stats.Seq = seq
	s.stats.Commits++
	s.stats.Records += uint64(records)
	s.stats.LastBatch = records
	s.stats.LastCommit = took
	s.stats.TotalCommits += took
}

// writable returns ErrFull when free space is below the watermark, or was when the store was opened.
func (s *Store) writable() error {
	if err := s.space.look(); err != nil || !s.readOnly {
		return err
	}
	return fmt.Errorf("%w: the store is open for reading", storage.ErrFull)
}

// present returns an error when the directory does not hold the files of this store any more. Writes to them would be
// answered and lost.
func (s *Store) present() error {
	if s.side == nil {
		return nil
	}
	return s.side.present()
}

// poison makes the store answer ErrUnavailable until it is opened again: only a fresh look at the disk can tell whether
// the last batch is there.
func (s *Store) poison(cause error) error {
	err := fmt.Errorf("%w: a commit failed and its outcome is unknown until the disk is looked at again: %w", storage.ErrUnavailable, cause)
	if s.fault.CompareAndSwap(nil, &err) {
		s.marks.Void()
		s.log.Error("storage failed and accepts no more requests until it is opened again", zap.Error(cause))
		if s.opt.failed != nil {
			s.opt.failed()
		}
	}
	return err
}

func (s *Store) faulty() error {
	if err := s.fault.Load(); err != nil {
		return *err
	}
	return nil
}
