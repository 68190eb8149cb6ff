// Package outbox delivers items to other systems without losing them and without making the caller wait. An item is
// written in the transaction of its cause, claimed by a worker, retried with growing pauses, and deleted once it is
// delivered. One that cannot be delivered can be kept for a while (held.go).
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

// ErrRefused is returned or wrapped by a send function when a retry would be useless: the item is dropped.
var ErrRefused = errors.New("outbox: rejected permanently")

// ErrAlone is returned or wrapped by a send function when the failure is about this item alone: it is tried again, and
// the others do not wait.
var ErrAlone = errors.New("outbox: about this item alone")

// errLate says that an item was not tried, because the claim on it is over.
var errLate = errors.New("outbox: the claim is over")

// Record is a stored item.
type Record[T any] struct {
	Value   T         `cbor:"v"`
	AddedAt time.Time `cbor:"a"`
	Tries   int       `cbor:"t,omitempty"`
	// Tried is the start of the current try. Zero: none is, or the lane keeps nothing.
	Tried time.Time `cbor:"b,omitzero"`
	// Problem is why the last try failed, where the lane keeps what is given up.
	Problem string `cbor:"p,omitempty"`
}

// Config says how a queue works. A zero field means its default.
type Config struct {
	// Lane separates the items of several queues in one table, so a receiver that is down holds up no other.
	Lane string
	// First is the wait after the first try; each further wait doubles, up to Most. It is also how long a claim lasts,
	// so it must be longer than one try takes. Default: 10s and 1h.
	First, Most time.Duration
	// Tries is the maximum number of tries of an item, MaxAge their maximum duration. Default: 16 and 3 days.
	Tries  int
	MaxAge time.Duration
	// Keep is the time during which an item that was given up can still be looked at and sent again. 0: it is deleted
	// at once
	Keep time.Duration
	// AtOnce is the number of items that are sent in parallel. Default: 8.
	AtOnce int
	// Every is the time until Run sees an item that another process has added or that has become due. Default: 500ms.
	Every time.Duration
	// Tried is called after each try. nil: tries are not counted.
	Tried func(err error)
	Log   *zap.Logger
}

// Queue is a lane of a table. It is safe for concurrent use, by several workers and by several processes with one
// store.
type Queue[T any] struct {
	Config
	table storage.Table[Record[T]]
	store storage.Store
	now   func() time.Time
	wake  chan struct{}
}

// margin is the time beyond MaxAge that storage keeps an item of a lane without a worker.
const margin = 24 * time.Hour

// New returns a queue over a table, or over one lane of it. now can be nil.
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

// Add puts an item into the queue, in tx, and wakes Run, which then looks until the transaction is committed. id
// identifies the item: adding the same id again replaces an item that has not been tried yet. at is the current time,
// taken before the transaction.
func (q *Queue[T]) Add(tx storage.Tx, id string, at time.Time, v T) error {
	q.look()
	return q.put(tx, q.key(at, id), Record[T]{Value: v, AddedAt: at})
}

func (q *Queue[T]) put(tx storage.Tx, key string, rec Record[T]) error {
	return q.table.Put(tx, key, rec, rec.AddedAt.Add(q.MaxAge+margin))
}

// key sorts by the time when the item is due.
func (q *Queue[T]) key(due time.Time, id string) string {
	b := binary.BigEndian.AppendUint64(storage.Prefix(q.Lane), uint64(max(due.UnixMicro(), 0))) //nolint:gosec // not negative
	return string(append(b, id...))
}

// parse is the inverse of key.
func (q *Queue[T]) parse(key string) (due time.Time, id string) {
	rest := key[len(storage.Prefix(q.Lane)):]
	return time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(rest[:8])))), rest[8:] //nolint:gosec // key made it of a time
}

// look lets Run look soon. It never waits.
func (q *Queue[T]) look() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// soon is the delay of Run after it was woken. While it finds nothing it looks again after twice the time, up to Every:
// the item is in a transaction that is not committed yet.
const soon = 2 * time.Millisecond

// pacer says when the next look is due.
type pacer struct {
	every, next time.Duration
	timer       *time.Timer
}

func newPacer(every time.Duration) *pacer {
	return &pacer{every: every, next: every, timer: time.NewTimer(every)}
}

// wait returns true when the next look is due, and false when ctx has ended. During a pause it is not woken.
func (p *pacer) wait(ctx context.Context, wake <-chan struct{}, pause time.Duration) bool {
	p.timer.Reset(max(p.next, pause))
	p.next = min(2*p.next, p.every)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-wake:
			// 0: something was delivered, so it looks at once, and that can be too early for this item
			if pause == 0 && (p.next == 0 || p.next > 2*soon) {
				p.next = 2 * soon
				p.timer.Reset(soon)
			}
		case <-p.timer.C:
			return true
		}
	}
}

// Run sends what is due until ctx ends. While the receiver accepts nothing, Run tries one item at a time, with growing
// pauses. The failure of a single item is no reason for one.
func (q *Queue[T]) Run(ctx context.Context, send func(ctx context.Context, id string, v T) error) {
	pause := time.Duration(0)
	p := newPacer(q.Every)
	defer p.timer.Stop()
	for {
		most := q.AtOnce
		if pause > 0 {
			most = 1
		}
		n, err := q.round(ctx, most, send)
		switch {
		case err != nil && ctx.Err() == nil:
			q.Log.Error("outbox not read; it is tried again", zap.String("lane", q.Lane), zap.Error(err))
			pause, p.next = 0, q.Every
		case n.sent+n.alone > 0:
			pause, p.next = 0, 0 // there may be more
		case n.failed > 0:
			pause = min(max(2*pause, time.Second), time.Minute)
		default: // nothing is due
			if pause = 0; p.next == 0 {
				p.next = q.Every
			}
		}
		if !p.wait(ctx, q.wake, pause) {
			return
		}
	}
}

// claim is an item that this worker has reserved for one try.
type claim[T any] struct {
	key, id string
	rec     Record[T]
}

// Round tries up to most items that are due, in parallel, and returns how many were delivered and how many were not. An
// error is a failure of storage.
func (q *Queue[T]) Round(ctx context.Context, most int, send func(ctx context.Context, id string, v T) error) (sent, failed int,
	err error,
) {
	n, err := q.round(ctx, most, send)
	return n.sent, n.failed, err
}

// outcome counts the items of a round.
type outcome struct{ sent, failed, alone int } // alone: of failed, those whose failure is about them alone

func (q *Queue[T]) round(ctx context.Context, most int, send func(ctx context.Context, id string, v T) error) (n outcome, err error) {
	due, err := q.reserve(ctx, most)
	if err != nil {
		return n, err
	}
	var wg sync.WaitGroup
	results := make([]error, len(due))
	for i, c := range due {
		wg.Go(func() {
			// A worker that was paused meanwhile has lost its claim: another one may have sent the item.
			if until, _ := q.parse(c.key); !q.now().Before(until) {
				results[i] = errLate
				return
			}
			results[i] = send(ctx, c.id, c.rec.Value)
		})
	}
	wg.Wait()
	var done []string
	var missed []miss[T]
	for i, c := range due {
		if errors.Is(results[i], errLate) {
			continue // the next look decides
		}
		if q.Tried != nil {
			q.Tried(results[i])
		}
		if errors.Is(results[i], ErrRefused) || errors.Is(results[i], ErrAlone) {
			n.alone++
		}
		fields := []zap.Field{zap.String("lane", q.Lane), zap.String("id", c.id), zap.Int("tries", c.rec.Tries), zap.Error(results[i])}
		switch {
		case results[i] == nil:
			n.sent++
			done = append(done, c.key)
		case errors.Is(results[i], ErrRefused), c.rec.Tries >= q.Tries, q.now().Sub(c.rec.AddedAt) >= q.MaxAge:
			n.failed++
			if q.Keep > 0 {
				missed = append(missed, miss[T]{c, results[i].Error(), true})
			} else {
				done = append(done, c.key)
			}
			q.Log.Error("not taken; given up", fields...)
		default:
			n.failed++
			if q.Keep > 0 {
				missed = append(missed, miss[T]{c, results[i].Error(), false})
			}
			q.Log.Warn("not taken; it is sent again", fields...)
		}
	}
	if len(done)+len(missed) == 0 {
		return n, nil
	}
	at := q.now()
	// Delivered items are deleted even if the worker is told to stop meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return n, q.store.Update(ctx, func(tx storage.Tx) error {
		for _, key := range done {
			if err := q.table.Delete(tx, key); err != nil {
				return err
			}
		}
		for _, m := range missed {
			if err := q.note(tx, m, at); err != nil {
				return err
			}
		}
		return nil
	})
}

// reserve takes items that are due, the longest due first. The same transaction puts each one off to its next try, so
// no other worker tries it too, and the item of a worker that dies is tried again.
func (q *Queue[T]) reserve(ctx context.Context, most int) (list []claim[T], err error) {
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
			if q.Keep > 0 {
				rec.Tried = now
			}
			c := claim[T]{key: q.key(now.Add(wait), id), id: id, rec: rec}
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

// Waiting returns how many items wait, including those being tried, and counts no further than most.
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
