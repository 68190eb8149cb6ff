// Package calllog records the calls that protected sites let pass: who has called what, when, and how it ended. Each
// node has a log of blocks with the hash of the block before. Events confirm the end of the log, so Verify finds calls
// that were changed or removed later. A call can also be an event by itself. Bodies, queries and credentials are not
// recorded. (docs/decisions/gateway.md#audit)
package calllog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/newest"
	"github.com/gatehouse-id/gatehouse/internal/periodic"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	flushEvery   = 500 * time.Millisecond
	sealEvery    = 10 * time.Second
	collectEvery = time.Minute
	stopWait     = 5 * time.Second

	maxWaiting = 16384 // calls in memory
	perBlock   = 512   // calls
	maxText    = 512   // bytes of a text
)

// Call is a request that a site has let pass.
type Call struct {
	At       time.Time     `cbor:"1,keyasint" json:"time"`
	Took     time.Duration `cbor:"2,keyasint,omitempty" json:"took_ns,omitempty"`
	Site     string        `cbor:"3,keyasint" json:"site"` // scheme and host
	Method   string        `cbor:"4,keyasint" json:"method"`
	Path     string        `cbor:"5,keyasint" json:"path"` // without the query
	Verdict  string        `cbor:"6,keyasint" json:"verdict"`
	Rule     string        `cbor:"7,keyasint,omitempty" json:"rule,omitempty"`     // that let it pass
	Status   int           `cbor:"8,keyasint,omitempty" json:"status,omitempty"`   // 0: another proxy has it
	Received int64         `cbor:"9,keyasint,omitempty" json:"received,omitempty"` // bytes of its body that were read
	Sent     int64         `cbor:"10,keyasint,omitempty" json:"sent,omitempty"`    // bytes of the body of the answer

	PersonID    string `cbor:"11,keyasint,omitempty" json:"person_id,omitempty"`
	Username    string `cbor:"12,keyasint,omitempty" json:"username,omitempty"`
	Partition   string `cbor:"13,keyasint,omitempty" json:"partition,omitempty"`
	ClientID    string `cbor:"14,keyasint,omitempty" json:"client_id,omitempty"`
	AppPassword string `cbor:"15,keyasint,omitempty" json:"app_password,omitempty"` // its id
	SessionID   string `cbor:"16,keyasint,omitempty" json:"-"`
	IP          string `cbor:"17,keyasint,omitempty" json:"ip,omitempty"`
	UserAgent   string `cbor:"18,keyasint,omitempty" json:"user_agent,omitempty"`

	// Chained makes it an event. Otherwise it is in the log.
	Chained bool `cbor:"-" json:"-"`
}

// Outcome says in words how the call ended.
func (c *Call) Outcome() string {
	out := c.Verdict
	if c.Rule != "" {
		out += " by " + c.Rule
	}
	if c.Status > 0 {
		out += fmt.Sprintf(", status %d, %d bytes received, %d sent", c.Status, c.Received, c.Sent)
	}
	return out
}

func (c *Call) trim() {
	for _, s := range []*string{&c.Site, &c.Method, &c.Path, &c.Rule, &c.Username, &c.ClientID, &c.IP, &c.UserAgent} {
		if *s = audit.Clean(*s); len(*s) > maxText {
			*s = strings.ToValidUTF8((*s)[:maxText], "")
		}
	}
	c.At = c.At.UTC().Truncate(time.Microsecond)
}

// Log records calls of this process. Its fields are set before its first use.
type Log struct {
	// Recorder makes the events. It returns nil while there is no configuration.
	Recorder func() *audit.Recorder
	// Lane returns the lane of this node. nil: the first
	Lane func() int

	store storage.Store
	now   func() time.Time
	log   *zap.Logger
	kept  newest.Of[time.Duration] // 0 or less: for ever

	written, lost atomic.Int64

	mu      sync.Mutex // guards what follows
	queue   []Call
	held    int   // in pending
	missing int64 // lost calls that no event tells yet

	flush   sync.Mutex // guards what follows
	pending []Call     // are being written
}

// New returns the log of a process. now is the system's clock if it is nil.
func New(store storage.Store, now func() time.Time, log *zap.Logger) *Log {
	if now == nil {
		now = time.Now
	}
	return &Log{store: store, now: now, log: log}
}

// Keep says how long calls are kept, until it is released or another configuration says so. 0 or less: for ever
func (l *Log) Keep(d time.Duration) (release func()) { return l.kept.Use(d) }

// Stats are the numbers of calls since the start: written, lost because too many waited, and waiting now.
func (l *Log) Stats() (written, lost, waiting int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.Load(), l.lost.Load(), int64(len(l.queue) + l.held)
}

// Add records a call. It never waits: a call for which there is no room is lost, and an event will tell how many were.
func (l *Log) Add(c *Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue)+l.held >= maxWaiting {
		l.missing++
		l.lost.Add(1)
		return
	}
	l.queue = append(l.queue, *c)
}

// Run writes what waits until ctx ends, and then the rest.
func (l *Log) Run(ctx context.Context) {
	var others sync.WaitGroup
	others.Go(func() {
		periodic.Every(ctx, sealEvery, l.log, "recorded calls not confirmed by an event; retrying", func() error { return l.Seal(ctx) })
	})
	others.Go(func() {
		periodic.Every(ctx, collectEvery, l.log, "recorded calls not collected; retrying", func() error { return l.Collect(ctx) })
	})
	periodic.Every(ctx, flushEvery, l.log, "calls are not recorded yet; they wait in memory", func() error { return l.Flush(ctx) })
	others.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if err := errors.Join(l.Flush(last), l.Seal(last)); err != nil {
		l.log.Error("the last calls are not recorded", zap.Error(err))
	}
}

// Flush writes the calls that wait.
func (l *Log) Flush(ctx context.Context) error {
	l.flush.Lock()
	defer l.flush.Unlock()
	for {
		missing := l.take()
		if len(l.pending) == 0 && missing == 0 {
			return nil
		}
		some := l.pending[:min(len(l.pending), perBlock)]
		if err := l.write(ctx, some, missing); err != nil {
			return err
		}
		l.written.Add(int64(len(some)))
		l.pending = l.pending[len(some):]
		l.mu.Lock()
		l.held = len(l.pending)
		l.missing -= missing
		l.mu.Unlock()
	}
}

// take makes what waits pending if nothing is, and returns the number of lost calls.
func (l *Log) take() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		l.pending, l.queue, l.held = l.queue, nil, len(l.queue)
	}
	return l.missing
}

var errNoRecorder = errors.New("no configuration is running")

func (l *Log) write(ctx context.Context, calls []Call, missing int64) error {
	rec := l.Recorder()
	if rec == nil {
		return errNoRecorder
	}
	var events []audit.Event
	b := blockRecord{}
	for i := range calls {
		c := &calls[i]
		c.trim()
		if c.Chained {
			e, err := c.event(rec)
			if err != nil {
				return err
			}
			events = append(events, e)
			continue
		}
		line, err := encoding.Marshal(c)
		if err != nil {
			return fmt.Errorf("encode a call: %w", err)
		}
		b.add(line, c)
	}
	if missing > 0 {
		e, err := rec.New(eventLost, audit.Self)
		if err != nil {
			return err
		}
		e.Reason = fmt.Sprintf("%d calls were not recorded: storage was too slow or failed", missing)
		events = append(events, e)
	}
	lane := l.lane()
	for {
		head, err := l.head(ctx, lane)
		if err != nil {
			return err
		}
		b.follow(lane, &head)
		raced := false
		if err := l.store.Update(ctx, func(tx storage.Tx) error {
			for _, e := range events {
				if err := rec.Append(tx, e); err != nil {
					return err
				}
			}
			if b.Count == 0 {
				return nil
			}
			is, _, err := heads.Find(tx, laneKey(lane))
			if err != nil {
				return err
			}
			if raced = is.Last != head.Last; raced {
				return errRaced
			}
			if err := blocks.Create(tx, blockKey(lane, b.First), b, never); err != nil {
				return err
			}
			is.Block, is.Last, is.Hash = b.First, b.last(), b.Hash
			return heads.Put(tx, laneKey(lane), is, never)
		}); !raced {
			return err
		}
	}
}

// errRaced undoes what a node writes to a log that another one has written to. It is not returned.
var errRaced = errors.New("another node has written to the log")

func (l *Log) lane() int {
	if l.Lane == nil {
		return 0
	}
	return l.Lane()
}

func (l *Log) head(ctx context.Context, lane int) (head headRecord, err error) {
	err = l.store.View(ctx, func(tx storage.Tx) error {
		head, _, err = heads.Find(tx, laneKey(lane))
		return err
	})
	return head, err
}

// each calls do with the lane of each node that has a log. That includes nodes that are gone.
func (l *Log) each(ctx context.Context, do func(context.Context, int) error) error {
	var lanes []int
	if err := l.store.View(ctx, func(tx storage.Tx) error {
		lanes = nil
		for e, err := range heads.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			lanes = append(lanes, laneOf(e.Key))
		}
		return nil
	}); err != nil {
		return err
	}
	for _, lane := range lanes {
		if err := do(ctx, lane); err != nil {
			return err
		}
	}
	return nil
}

// Seal confirms the end of each log by an event, if it has grown since the last one.
func (l *Log) Seal(ctx context.Context) error { return l.each(ctx, l.seal) }

func (l *Log) seal(ctx context.Context, lane int) error {
	head, err := l.head(ctx, lane)
	if err != nil || head.Sealed == head.Last {
		return err
	}
	rec := l.Recorder()
	if rec == nil {
		return errNoRecorder
	}
	e, err := rec.New(eventSealed, audit.Self)
	if err != nil {
		return err
	}
	return l.store.Update(ctx, func(tx storage.Tx) error {
		is, _, err := heads.Find(tx, laneKey(lane))
		if err != nil || is.Sealed == is.Last {
			return err
		}
		e := e
		e.Reason = fmt.Sprintf(sealText, is.Last, lane+1, is.Block, is.Hash)
		is.Sealed = is.Last
		if err := heads.Put(tx, laneKey(lane), is, never); err != nil {
			return err
		}
		return rec.Append(tx, e)
	})
}

// Collect removes the blocks whose calls all ended longer ago than they are kept. What events do not confirm yet stays.
func (l *Log) Collect(ctx context.Context) error { return l.each(ctx, l.collect) }

func (l *Log) collect(ctx context.Context, lane int) error {
	keep := l.kept.Load()
	for more := keep > 0; more; {
		oldest := l.now().Add(-keep)
		at := l.now()
		if err := l.store.Update(ctx, func(tx storage.Tx) error {
			more = false
			head, _, err := heads.Find(tx, laneKey(lane))
			if err != nil || head.CutLast == head.Last {
				return err
			}
			b, found, err := blocks.Find(tx, blockKey(lane, head.CutLast+1))
			if err != nil || !found || b.last() > head.Sealed || !b.End.Before(oldest) {
				return err // Verify tells of a block that is missing
			}
			more = true
			head.CutLast, head.CutHash, head.CutAt = b.last(), b.Hash, at
			if err := blocks.Delete(tx, blockKey(lane, b.First)); err != nil {
				return err
			}
			return heads.Put(tx, laneKey(lane), head, never)
		}); err != nil {
			return err
		}
	}
	return nil
}
