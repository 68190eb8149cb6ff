package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// A store that failed is opened again at once, then with growing pauses, so often within an hour.
const (
	reopenTries  = 30
	reopenWithin = time.Hour
	reopenPause  = time.Minute // the longest
)

// spacePause is the interval at which a store that was opened for reading looks for free space.
const spacePause = time.Second

// Lasting is the store of a directory over several openings. When a commit fails, it closes the directory and opens it
// again, which shows whether the commit is there. When the disk was full at the opening, it opens the directory again
// once there is space. Meanwhile its calls answer ErrUnavailable with the reason.
type Lasting struct {
	opt    Options
	log    *zap.Logger
	failed chan struct{} // holds a token when the store is poisoned
	cancel context.CancelFunc
	done   chan struct{} // closed when the worker has ended
	pause  func(context.Context, time.Duration)

	mu    sync.RWMutex // guards the fields below
	store *Store
	down  error              // why there is no store now; nil: there is one
	past  Stats              // of earlier openings
	tell  func(reason error) // nil: no one is told
	tries []time.Time        // openings after a failure
}

var (
	_ storage.Store    = (*Lasting)(nil)
	_ storage.Tracker  = (*Lasting)(nil)
	_ storage.Backuper = (*Lasting)(nil)
	_ storage.Checker  = (*Lasting)(nil)
)

// Open opens the store of a directory, or makes a new one if the directory is empty or missing. It refuses a directory
// that another process uses or that has lost data, and a new one without enough free space, and leaves it unchanged.
func Open(ctx context.Context, o Options) (*Lasting, error) {
	return openLasting(ctx, o, sleep)
}

func openLasting(ctx context.Context, o Options, pause func(context.Context, time.Duration)) (*Lasting, error) {
	l := &Lasting{log: zap.NewNop(), failed: make(chan struct{}, 1), done: make(chan struct{}), pause: pause}
	if o.Log != nil {
		l.log = o.Log
	}
	if o.spacePause == 0 {
		o.spacePause = spacePause
	}
	o.failed = func() {
		select {
		case l.failed <- struct{}{}:
		default:
		}
	}
	s, err := openDir(ctx, o)
	if err != nil {
		return nil, err
	}
	l.opt, l.store = o, s
	work, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.work(work)
	return l, nil
}

// OnReopen sets what is called with the reason after the store was opened again because a commit had failed. It is
// called outside of transactions.
func (l *Lasting) OnReopen(tell func(reason error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell = tell
}

// View implements storage.Store.
func (l *Lasting) View(ctx context.Context, fn func(storage.Tx) error) error {
	s, err := l.current()
	if err != nil {
		return err
	}
	return s.View(ctx, fn)
}

// Track implements storage.Tracker. What was read before the store was opened again does not hold any more.
func (l *Lasting) Track(ctx context.Context, fn func(storage.Tx) error) (*storage.Reading, error) {
	s, err := l.current()
	if err != nil {
		return nil, err
	}
	return s.Track(ctx, fn)
}

// Update implements storage.Store.
func (l *Lasting) Update(ctx context.Context, fn func(storage.Tx) error) error {
	s, err := l.current()
	if err != nil {
		return err
	}
	return s.Update(ctx, fn)
}

// Backup implements storage.Backuper.
func (l *Lasting) Backup(ctx context.Context, w io.Writer) error {
	s, err := l.current()
	if err != nil {
		return err
	}
	return s.Backup(ctx, w)
}

// Check implements storage.Checker.
func (l *Lasting) Check(ctx context.Context) error {
	s, err := l.current()
	if err != nil {
		return err
	}
	return s.Check(ctx)
}

// Stats returns what has been counted since Open.
func (l *Lasting) Stats() Stats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.past.plus(l.store.Stats())
}

// Close implements storage.Store.
func (l *Lasting) Close() error {
	l.cancel()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = errClosed
	return l.store.Close()
}

func (l *Lasting) current() (*Store, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.store, l.down
}

// work opens the store again when that is needed.
func (l *Lasting) work(ctx context.Context) {
	defer close(l.done)
	for ctx.Err() == nil {
		var look <-chan time.Time
		if l.store.readOnly {
			look = time.After(l.opt.spacePause)
		}
		select {
		case <-ctx.Done():
		case <-l.failed:
			if err := l.store.faulty(); err != nil { // otherwise of an earlier opening
				l.revive(ctx, err)
			}
		case <-look:
			if l.store.space.look() == nil {
				l.enlarge(ctx)
			}
		}
	}
}

// enlarge opens a store for writing that was opened for reading.
func (l *Lasting) enlarge(ctx context.Context) {
	cause := fmt.Errorf("%w: it is being opened for writing", storage.ErrUnavailable)
	l.set(cause)
	if err := l.reopen(ctx); err != nil {
		l.log.Error("storage could not be opened for writing", zap.Error(err))
		l.revive(ctx, fmt.Errorf("%w: %w", storage.ErrUnavailable, err))
		return
	}
	l.log.Info("there is space again: storage is open for writing")
}

// revive opens the store again after a failure, as often as is allowed.
func (l *Lasting) revive(ctx context.Context, cause error) {
	last := cause
	for {
		wait, ok := l.next(time.Now())
		if !ok {
			break
		}
		l.set(fmt.Errorf("it is being opened again: %w", last))
		l.pause(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		err := l.reopen(ctx)
		if err == nil {
			l.log.Warn("storage failed and was opened again", zap.NamedError("failure", cause))
			l.mu.Lock()
			l.past.Reopenings++
			tell := l.tell
			l.mu.Unlock()
			if tell != nil {
				tell(cause)
			}
			return
		}
		l.log.Error("storage could not be opened again", zap.Error(err))
		last = fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
		if errors.Is(err, errStuck) {
			break
		}
	}
	l.log.Error("storage is no longer reopened automatically: find the cause and restart", zap.Error(last))
	l.set(fmt.Errorf("restart when the cause is gone: %w", last))
	<-ctx.Done()
}

// next returns how long to wait before the next opening, and whether there can be one.
func (l *Lasting) next(now time.Time) (time.Duration, bool) {
	for len(l.tries) > 0 && now.Sub(l.tries[0]) > reopenWithin {
		l.tries = l.tries[1:]
	}
	n := len(l.tries)
	if n >= reopenTries {
		return 0, false
	}
	l.tries = append(l.tries, now)
	if n == 0 {
		return 0, true
	}
	return min(time.Second<<min(n-1, 10), reopenPause), true
}

// reopen closes the store and opens its directory again, which must hold every commit that was answered.
func (l *Lasting) reopen(ctx context.Context) error {
	old := l.store
	_, seq, _ := old.snapshots.count()
	if err := old.Close(); errors.Is(err, errStuck) {
		return err
	}
	o := l.opt
	o.atLeast, o.same = seq, old.side.mark
	s, err := openDir(ctx, o)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.past = l.past.plus(old.Stats())
	l.store, l.down = s, nil
	return nil
}

func (l *Lasting) set(down error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	l.store.marks.Void()
}

// plus adds the counts of a later opening.
func (s Stats) plus(later Stats) Stats {
	later.Updates += s.Updates
	later.Commits += s.Commits
	later.Records += s.Records
	later.TotalCommits += s.TotalCommits
	later.Collected += s.Collected
	later.Reopenings += s.Reopenings
	return later
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
