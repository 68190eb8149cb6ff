// Package pgstore keeps records in a PostgreSQL database, for several nodes at once.
//
// Updates are serializable transactions that run again after a conflict. Those of one process that wait at the same
// time share a transaction. A View that reads once is one statement; one that reads more is a transaction on one
// snapshot. The statements need no state of a session, so a pooler such as PgBouncer may stand between, and are those
// that CockroachDB and YugabyteDB have too.
package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Options of a store. Only URL is needed.
type Options struct {
	// URL says where the database is: postgres://user:password@host:5432/database?sslmode=verify-full
	URL string
	// DirectURL leads to the same database without a pooler between. Default: URL.
	DirectURL string
	// Schema holds the tables. Default: the first of the search path.
	Schema string
	// Cluster is the name that the nodes have in common. A database of another name is refused. Default: gatehouse.
	Cluster string
	// Pool is the number of connections besides that of the writer. Default: 16.
	Pool int
	// Durability says which disks a commit waits for: on, the disk and the standbys that the server names as
	// synchronous; local, the disk of this server. Default: on.
	Durability string
	// Log receives faults. Default: nothing is logged.
	Log *zap.Logger
	// Now decides when a record can be collected. Default: the clock of the database.
	Now func() time.Time
	// SweepEvery is the time between two collections of expired records. Default: a minute; negative: never.
	SweepEvery time.Duration
}

const (
	defaultPool    = 16
	defaultCluster = "gatehouse"
	// maxTries is the maximum number of runs of a transaction that conflicts with others each time. One that writes goes
	// on for maxConflict: a node that stands still for want of a processor makes others conflict until it goes on.
	maxTries    = 10
	maxConflict = 3 * time.Second
	// maxPause is the longest time between two tries.
	maxPause = 50 * time.Millisecond
)

// Store is a storage.Store, storage.Backuper and storage.Checker on a database.
type Store struct {
	opt     Options
	log     *zap.Logger
	pool    *pool
	sql     *texts
	writer  *writer
	history *history
	leaving sync.WaitGroup // sessions that end a transaction before they are given back

	mu     sync.Mutex // guards closed
	closed bool
	views  sync.WaitGroup

	accepting bool // it was opened to accept a loss

	closing    sync.Once
	stopSweeps context.CancelFunc
	sweeps     sync.WaitGroup
	stats      counters

	foresight *foresight
	gather    *gather

	marks *storage.Marks
	ears  *notifications // nil: the server tells nothing
}

var (
	_ storage.Store    = (*Store)(nil)
	_ storage.Backuper = (*Store)(nil)
	_ storage.Checker  = (*Store)(nil)
)

type counters struct {
	updates, commits, records, collected atomic.Uint64
	commitTime, lastCommit               atomic.Int64 // nanoseconds
	lastFull, lastWrite                  atomic.Int64 // when a write was refused for want of room, and when one was not
	retried                              [operations]atomic.Uint64
}

// operation is an operation that runs again after a conflict or a lost connection.
type operation int

const (
	opUpdate operation = iota // with all closures of a transaction
	opView
	opSweep
	operations = iota
)

// Stats counts what a store has done since it was opened.
type Stats struct {
	Updates      uint64        // transactions answered, including those that failed or wrote nothing
	Commits      uint64        // transactions of the database that wrote for them
	Records      uint64        // records written or deleted by them
	LastCommit   time.Duration // time that the last commit took, with its writes
	TotalCommits time.Duration // time that all commits took
	RoundTrips   uint64        // to the database and back
	// Retries are the times that something ran again, by what it was: update, view, sweep.
	Retries map[string]uint64
	// Hears reports whether it is told at once what other nodes write.
	Hears bool
}

// Stats returns what has been counted.
func (s *Store) Stats() Stats {
	c := &s.stats
	return Stats{
		Updates: c.updates.Load(), Commits: c.commits.Load(), Records: c.records.Load(),
		LastCommit: time.Duration(c.lastCommit.Load()), TotalCommits: time.Duration(c.commitTime.Load()), RoundTrips: s.pool.trips.Load(),
		Retries: map[string]uint64{"update": c.retried[opUpdate].Load(), "view": c.retried[opView].Load(), "sweep": c.retried[opSweep].Load()},
		Hears:   s.marks.Hears(),
	}
}

// Open opens the store of a database, and makes its tables if there are none. It refuses a database in which a promise
// could not be kept, and says what to do; it has written nothing then.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open storage postgres: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, o Options) (*Store, error) { return openWith(ctx, o, false) }

func openWith(ctx context.Context, o Options, accepting bool) (*Store, error) {
	o.Pool, o.Cluster, o.Durability = cmp.Or(o.Pool, defaultPool), cmp.Or(o.Cluster, defaultCluster), cmp.Or(o.Durability, "on")
	o.SweepEvery = cmp.Or(o.SweepEvery, time.Minute)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Durability != "on" && o.Durability != "local" {
		return nil, fmt.Errorf("durability %q: it is on or local", o.Durability)
	}
	config, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	direct := config
	if o.DirectURL != "" {
		if direct, err = parseURL(o.DirectURL); err != nil {
			return nil, fmt.Errorf("direct_url: %w", err)
		}
	}
	s := &Store{
		opt: o, log: o.Log, pool: newPool(config, o.Pool), sql: newTexts(o.Schema), marks: storage.NewSharedMarks(marksKept),
		foresight: newForesight(), accepting: accepting,
	}
	s.pool.greet = s.examineHistory
	s.gather = &gather{store: s}
	channel, err := s.prepare(ctx)
	if err != nil {
		s.pool.close()
		return nil, err
	}
	if channel != "" {
		s.listen(direct, channel)
	}
	s.writer = newWriter(s)
	go s.writer.loop()
	s.startSweeps()
	return s, nil
}

// View implements storage.Store.
func (s *Store) View(ctx context.Context, fn func(storage.Tx) error) error {
	return s.view(ctx, func(t *tx) error { return fn(t) })
}

func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.views.Add(1)
	return nil
}

func (s *Store) leave() { s.views.Done() }

// Close implements storage.Store. It waits for views and updates under way.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.ears.close()
		s.stopSweeps()
		s.sweeps.Wait()
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.writer.close()
		s.views.Wait()
		s.leaving.Wait()
		s.pool.close()
		s.marks.Void()
	})
	return nil
}

// Check implements storage.Checker.
func (s *Store) Check(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	for try := 1; ; try++ {
		err := s.ask(ctx)
		if try == 3 || !errors.Is(err, errAgain) {
			return err
		}
	}
}

// ask asks the server whether it takes writes, and keeps them.
func (s *Store) ask(ctx context.Context) error {
	if s.history.trouble() != nil {
		if _, err := s.askClock(ctx); err != nil { // otherwise the loss was accepted a moment ago
			return err
		}
	}
	c, err := s.pool.get(ctx)
	if err != nil {
		return err
	}
	defer s.pool.put(c)
	results, err := c.run(statement{sql: s.sql.healthText})
	if err != nil {
		return s.failed(c, err)
	}
	row := results[0].Rows[0]
	switch {
	case string(row[0]) != "off":
		s.pool.reset(c.era)
		return unavailable("the database is read-only: it is a standby, or was told so")
	case string(row[1]) == "off":
		return unavailable("the database has fsync = off by now: when its machine fails it loses acknowledged writes")
	case string(row[2]) != "true":
		return errNoRight
	}
	return s.full()
}

// pause waits before another try, longer each time, and never as long as others do.
func (s *Store) pause(ctx context.Context, try int) error {
	most := min(time.Millisecond<<min(try, 10), maxPause)
	timer := time.NewTimer(rand.N(most)) //nolint:gosec // nothing secret
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
