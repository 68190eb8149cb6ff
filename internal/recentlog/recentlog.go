// Package recentlog keeps the newest records of one kind in storage, bounded in number, so strangers cannot fill a
// disk, and in rate, so they cannot keep it busy.
package recentlog

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/periodic"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// Size is the maximum number of records, unless Tables says something else.
	Size = 8192
	// PerSecond is the number of records that are kept in one second.
	PerSecond = 100

	maxWaits  = 10 * PerSecond // records that wait for storage
	writeWait = 500 * time.Millisecond
)

// Tables are the tables of the records. Slots are overwritten in order.
type Tables[T any] struct {
	Slots storage.Table[T]      // number of the slot, four hexadecimal digits -> record
	Next  storage.Table[uint64] // "" -> the number of the next record
	Size  uint64                // slots, at most 65,536. 0: Size
	Kept  time.Duration         // how long a record can be read
}

// Ring keeps records. Add never waits for storage.
type Ring[T any] struct {
	tables Tables[T]
	store  storage.Store
	log    *zap.Logger
	lost   atomic.Int64 // neither kept nor waiting

	// Complete, if not nil, adds to a record what storage knows, when the record is written. An error keeps the whole
	// batch from being written.
	Complete func(tx storage.Tx, record *T) error

	mu     sync.Mutex // guards what follows
	waits  []waiting[T]
	second int64 // that taken is about
	taken  int

	writing sync.Mutex // held while a batch is written

	reading sync.Mutex // guards what follows, and is held while records are read
	known   []*T       // the records that were read last, by their slots
	next    uint64     // the number of the first one that is not known
}

type waiting[T any] struct {
	at     time.Time
	record T
}

// New returns a ring that writes while Run runs. log is told when records cannot be written.
func New[T any](store storage.Store, t Tables[T], log *zap.Logger) *Ring[T] {
	if t.Size == 0 {
		t.Size = Size
	}
	return &Ring[T]{tables: t, store: store, log: log}
}

// Add lets a record of the time at wait for storage. One too many is lost, and counted.
func (r *Ring[T]) Add(at time.Time, record T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := at.Unix(); s != r.second {
		r.second, r.taken = s, 0
	}
	if r.taken >= PerSecond || len(r.waits) >= maxWaits {
		r.lost.Add(1)
		return
	}
	r.taken++
	r.waits = append(r.waits, waiting[T]{at, record})
}

// Lost is the number of records that are not kept, because there were too many in a second or storage failed.
func (r *Ring[T]) Lost() int64 { return r.lost.Load() }

// Run writes what waits, until ctx ends, and what waits then.
func (r *Ring[T]) Run(ctx context.Context) { periodic.Write(ctx, writeWait, time.Second, r.Flush) }

// Flush writes what waits, in one transaction. What cannot be written is lost, which the log is told.
func (r *Ring[T]) Flush(ctx context.Context) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	batch := r.waits
	r.waits = nil
	r.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	err := r.store.Update(ctx, func(tx storage.Tx) error {
		next, _, err := r.tables.Next.Find(tx, "")
		if err != nil {
			return err
		}
		for _, w := range batch {
			if r.Complete != nil {
				if err := r.Complete(tx, &w.record); err != nil {
					return err
				}
			}
			if err := r.tables.Slots.Put(tx, slotKey(next%r.tables.Size), w.record, w.at.Add(r.tables.Kept)); err != nil {
				return err
			}
			next++
		}
		return r.tables.Next.Put(tx, "", next, time.Time{})
	})
	if err != nil {
		r.lost.Add(int64(len(batch)))
		r.log.Warn("records are not kept", zap.Int("records", len(batch)), zap.Error(err))
	}
}

// Each writes what waits and calls keep with each record, in the order of the slots, until it returns false. begin is
// called before the first one. Records that have been read are kept in memory, and can be older than Tables.Kept; keep
// must not change them. An error is a failure of storage.
func (r *Ring[T]) Each(ctx context.Context, begin func(), keep func(*T) bool) error {
	r.Flush(ctx)
	r.reading.Lock()
	defer r.reading.Unlock()
	var slots []*T
	var next uint64
	err := r.store.View(ctx, func(tx storage.Tx) (err error) {
		if next, _, err = r.tables.Next.Find(tx, ""); err != nil {
			return err
		}
		slots, err = r.newest(tx, next)
		return err
	})
	if err != nil {
		return err
	}
	r.known, r.next = slots, next
	begin()
	for _, record := range slots {
		if record != nil && !keep(record) {
			break
		}
	}
	return nil
}

// fewNew is the number of new records that are read one by one.
const fewNew = 64

// newest returns the records by their slots. Those that are known are not read again, since a record never changes
// until another one takes its slot.
func (r *Ring[T]) newest(tx storage.Tx, next uint64) ([]*T, error) {
	out := make([]*T, r.tables.Size)
	if r.known != nil && next >= r.next && next-r.next <= fewNew {
		copy(out, r.known)
		for n := r.next; n < next; n++ {
			slot := n % r.tables.Size
			record, found, err := r.tables.Slots.Find(tx, slotKey(slot))
			if err != nil {
				return nil, err
			}
			if out[slot] = nil; found {
				out[slot] = &record
			}
		}
		return out, nil
	}
	for e, err := range r.tables.Slots.Scan(tx, storage.Range{}) {
		if err != nil {
			return nil, err
		}
		if slot, err := strconv.ParseUint(storage.Parts(e.Key)[0], 16, 16); err == nil && slot < r.tables.Size {
			out[slot] = &e.Value
		}
	}
	return out, nil
}

func slotKey(slot uint64) string { return fmt.Sprintf("%04x", slot) }
