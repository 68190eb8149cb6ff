package outbox

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Lanes are all lanes of a table, one for each receiver. A lane begins with its first item and ends with its last, so
// receivers can come and go, and one that is down holds up no other. Lanes are safe for concurrent use, by several
// workers and several processes of one store.
type Lanes[T any] struct {
	all  *Queue[T] // of no lane: configuration, clock and wake
	most int
}

// NewLanes returns the lanes of a table of its own. now may be nil. Config.Lane is not used; AtOnce is for each lane,
// and most is how many lanes are worked on at a time.
func NewLanes[T any](table storage.Table[Record[T]], store storage.Store, now func() time.Time, c Config, most int) *Lanes[T] {
	return &Lanes[T]{all: New(table, store, now, c), most: most}
}

// Add puts an item into a lane, in tx. See Queue.Add.
func (l *Lanes[T]) Add(tx storage.Tx, lane, id string, at time.Time, v T) error {
	return l.lane(lane).Add(tx, id, at, v)
}

// Wake lets Run look soon. It never waits.
func (l *Lanes[T]) Wake() { l.all.look() }

// lane returns the queue of one lane.
func (l *Lanes[T]) lane(name string) *Queue[T] {
	q := *l.all
	q.Lane = name
	return &q
}

// Run sends what is due until ctx ends.
func (l *Lanes[T]) Run(ctx context.Context, send func(ctx context.Context, lane, id string, v T) error) {
	p := newPacer(l.all.Every)
	defer p.timer.Stop()
	for {
		if err := l.Send(ctx, send); err != nil && ctx.Err() == nil {
			l.all.Log.Error("outbox not read; it is tried again", zap.Error(err))
		}
		if !p.wait(ctx, l.all.wake, 0) {
			return
		}
	}
}

// Send tries what is due in every lane, round after round, until nothing is. A lane whose receiver took nothing in a
// round is left for the next call. An error is a failure of storage.
func (l *Lanes[T]) Send(ctx context.Context, send func(ctx context.Context, lane, id string, v T) error) error {
	down := map[string]bool{}
	for ctx.Err() == nil {
		due, err := l.due(ctx, down)
		if err != nil || len(due) == 0 {
			return err
		}
		sent, errs := make([]int, len(due)), make([]error, len(due))
		slots := make(chan struct{}, l.most)
		var wg sync.WaitGroup
		for i, name := range due {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				sent[i], _, errs[i] = l.lane(name).Round(ctx, l.all.AtOnce, func(ctx context.Context, id string, v T) error {
					return send(ctx, name, id, v)
				})
			})
		}
		wg.Wait()
		for i, name := range due {
			if errs[i] != nil {
				return errs[i]
			}
			down[name] = sent[i] == 0
		}
	}
	return ctx.Err()
}

// due returns the lanes with an item that is due, without those that are down.
func (l *Lanes[T]) due(ctx context.Context, down map[string]bool) (names []string, err error) {
	now := l.all.now()
	err = l.all.store.View(ctx, func(tx storage.Tx) error {
		names = nil
		var after []byte
		for {
			name := ""
			for e, err := range l.all.table.Scan(tx, storage.Range{After: after, Limit: 1}) {
				if err != nil {
					return err
				}
				name = storage.Parts(e.Key)[0]
				if at, _ := l.lane(name).parse(e.Key); !at.After(now) && !down[name] {
					names = append(names, name)
				}
			}
			if name == "" {
				return nil
			}
			after = append(storage.Prefix(name), 0xff) // after the lane: no time begins with this byte
		}
	})
	return names, err
}
