// Package outbox keeps what is to be sent to others until it has been: an item is written in the transaction of its cause, so that it is neither
// forgotten nor waited for, claimed by a worker, tried again with growing waits, and deleted when it was taken.
package outbox

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// ErrRefused is what a send function returns, or wraps, when trying again is of no use: the item is dropped.
var ErrRefused = errors.New("outbox: refused for good")

// Record is a stored item.
type Record[T any] struct {
	Value   T         `cbor:"v"`
	AddedAt time.Time `cbor:"a"`
	Tries   int       `cbor:"t,omitempty"`
}

// Config says how a queue works. A zero member has its default.
type Config struct {
	// Lane keeps the items of several queues in one table apart: one receiver that is down holds up no other.
	Lane string
	// First is the wait after the first try; each further one doubles, up to Most. It is how long a claim lasts, so it is longer than
	// one try. Default: 10s and 1h.
	First, Most time.Duration
	// Tries is how often an item is tried, MaxAge how long. Default: 16 and 3 days.
	Tries  int
	MaxAge time.Duration
	// AtOnce is how many are sent at a time. Default: 8.
	AtOnce int
	// Every is how soon something new is seen, unless Wake says so. Default: 500ms.
	Every time.Duration
	// Tried is told of each try. nil: nobody counts.
	Tried func(err error)
	Log   *zap.Logger
}

// Queue is a lane of a table. It is safe for concurrent use, by several workers and several processes of one store.
type Queue[T any] struct {
	Config
	table storage.Table[Record[T]]
	store storage.Store
	now   func() time.Time
	wake  chan struct{}
}

// margin is how much longer than MaxAge an item of a lane that nobody works on is kept.
const margin = 24 * time.Hour

// New returns a queue over a table of its own, or a lane of one. now may be nil.
func New[T any](table storage.Table[Record[T]], store storage.Store, now func() time.Time, c Config) *Queue[T] {
	if now == nil {
		now = time.Now
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	c.First, c.Most = orElse(c.First, 10*time.Second), orElse(c.Most, time.Hour)
	c.Tries, c.MaxAge = orElse(c.Tries, 16), orElse(c.MaxAge, 72*time.Hour)
	c.AtOnce, c.Every = orElse(c.AtOnce, 8), orElse(c.Every, 500*time.Millisecond)
	return &Queue[T]{Config: c, table: table, store: store, now: now, wake: make(chan struct{}, 1)}
}

func orElse[V int | time.Duration](v, otherwise V) V {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Add puts an item into the queue, in tx. id is its name for good: the same one again replaces an item that was not tried yet. at is the
// time, taken before the transaction.
func (q *Queue[T]) Add(tx storage.Tx, id string, at time.Time, v T) error {
	return q.put(tx, q.key(at, id), Record[T]{Value: v, AddedAt: at})
}

func (q *Queue[T]) put(tx storage.Tx, key string, rec Record[T]) error {
	return q.table.Put(tx, key, rec, rec.AddedAt.Add(q.MaxAge+margin))
}

// key sorts by the time at which the item is due.
func (q *Queue[T]) key(due time.Time, id string) string {
	b := binary.BigEndian.AppendUint64(storage.Prefix(q.Lane), uint64(max(due.UnixMicro(), 0))) //nolint:gosec // not negative
	return string(append(b, id...))
}

// parse undoes key.
func (q *Queue[T]) parse(key string) (due time.Time, id string) {
	rest := key[len(storage.Prefix(q.Lane)):]
	return time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(rest[:8])))), rest[8:] //nolint:gosec // key made it of a time
}

// Wake lets Run look at once. It never waits.
func (q *Queue[T]) Wake() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Run sends what is due until ctx ends. While a receiver takes nothing it is tried with one item at a time, and ever more seldom.
func (q *Queue[T]) Run(ctx context.Context, send func(ctx context.Context, id string, v T) error) {
	pause := time.Duration(0)
	timer := time.NewTimer(q.Every)
	defer timer.Stop()
	for {
		most := q.AtOnce
		if pause > 0 {
			most = 1
		}
		sent, failed, err := q.Round(ctx, most, send)
		switch {
		case err != nil && ctx.Err() == nil:
			q.Log.Error("outbox not read; it is tried again", zap.String("lane", q.Lane), zap.Error(err))
			pause = 0
		case failed > 0 && sent == 0:
			pause = min(max(2*pause, time.Second), time.Minute)
		case sent > 0:
			pause = 0
			timer.Reset(0) // there may be more
		}
		if sent == 0 {
			timer.Reset(max(q.Every, pause))
		}
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		case <-timer.C:
		}
	}
}

// claimed is an item that this worker alone tries now.
type claimed[T any] struct {
	key, id string
	rec     Record[T]
}

// Round tries at most so many items that are due, at the same time, and returns how many were taken and how many were not. An error is a failure of
// storage.
func (q *Queue[T]) Round(ctx context.Context, most int, send func(ctx context.Context, id string, v T) error) (sent, failed int, err error) {
	due, err := q.claim(ctx, most)
	if err != nil {
		return 0, 0, err
	}
	var wg sync.WaitGroup
	results := make([]error, len(due))
	for i, c := range due {
		wg.Go(func() { results[i] = send(ctx, c.id, c.rec.Value) })
	}
	wg.Wait()
	var done []string
	for i, c := range due {
		if q.Tried != nil {
			q.Tried(results[i])
		}
		fields := []zap.Field{zap.String("lane", q.Lane), zap.String("id", c.id), zap.Int("tries", c.rec.Tries), zap.Error(results[i])}
		switch {
		case results[i] == nil:
			sent++
			done = append(done, c.key)
		case errors.Is(results[i], ErrRefused), c.rec.Tries >= q.Tries, q.now().Sub(c.rec.AddedAt) >= q.MaxAge:
			failed++
			done = append(done, c.key)
			q.Log.Error("not taken; given up", fields...)
		default:
			failed++
			q.Log.Warn("not taken; it is sent again", fields...)
		}
	}
	if len(done) == 0 {
		return sent, failed, nil
	}
	// What was sent is crossed off even when the worker is told to end in between.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return sent, failed, q.store.Update(ctx, func(tx storage.Tx) error {
		for _, key := range done {
			if err := q.table.Delete(tx, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// claim takes items that are due, the longest first. Each is put off to its next try in the same transaction: no other worker tries it too, and
// one whose worker dies comes again.
func (q *Queue[T]) claim(ctx context.Context, most int) (list []claimed[T], err error) {
	now := q.now()
	waits := false
	err = q.store.View(ctx, func(tx storage.Tx) error {
		for _, err := range q.due(tx, now, 1) {
			if err != nil {
				return err
			}
			waits = true
		}
		return nil
	})
	if err != nil || !waits {
		return nil, err
	}
	err = q.store.Update(ctx, func(tx storage.Tx) error {
		list = nil
		for e, err := range q.due(tx, now, most) {
			if err != nil {
				return err
			}
			_, id := q.parse(e.Key)
			rec := e.Value
			wait := min(q.First<<min(rec.Tries, 30), q.Most)
			if wait <= 0 { // shifted out
				wait = q.Most
			}
			rec.Tries++
			c := claimed[T]{key: q.key(now.Add(wait), id), id: id, rec: rec}
			if err := q.table.Delete(tx, e.Key); err != nil {
				return err
			}
			if err := q.put(tx, c.key, rec); err != nil {
				return err
			}
			list = append(list, c)
		}
		return nil
	})
	return list, err
}

// due yields the items whose time has come.
func (q *Queue[T]) due(tx storage.Tx, now time.Time, most int) func(yield func(storage.Entry[Record[T]], error) bool) {
	return func(yield func(storage.Entry[Record[T]], error) bool) {
		for e, err := range q.table.Scan(tx, storage.Range{Prefix: storage.Prefix(q.Lane), Limit: most}) {
			if err == nil {
				if at, _ := q.parse(e.Key); at.After(now) {
					return
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Waiting returns how many items wait, those that are being tried included, counting no more than most.
func (q *Queue[T]) Waiting(ctx context.Context, most int) (n int, err error) {
	err = q.store.View(ctx, func(tx storage.Tx) error {
		n = 0
		for _, err := range q.table.Scan(tx, storage.Range{Prefix: storage.Prefix(q.Lane), Limit: most}) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}
