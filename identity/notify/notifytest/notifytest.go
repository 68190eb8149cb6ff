// Package notifytest has senders for tests. Like the real ones they write in the transaction of the cause: what was
// sent by a transaction that was rolled back, or by a run that was repeated, was never sent.
package notifytest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Notices is a notify.Sender. It writes notify.Nothing like any other kind, and leaves it out of what Take returns.
type Notices struct{ box[notify.Notice] }

// Send implements notify.Sender.
func (n *Notices) Send(tx storage.Tx, v notify.Notice) error {
	return n.add(tx, v, v.Kind != notify.Nothing)
}

// Texts is a notify.SMSSender. It writes notify.Nothing like any other kind, and leaves it out of what Take returns.
type Texts struct{ box[notify.SMS] }

// Send implements notify.SMSSender.
func (t *Texts) Send(tx storage.Tx, v notify.SMS) error {
	return t.add(tx, v, v.Kind != notify.Nothing)
}

// Prompts is a notify.PushSender.
type Prompts struct{ box[notify.Push] }

// Send implements notify.PushSender.
func (p *Prompts) Send(tx storage.Tx, v notify.Push) error { return p.add(tx, v, true) }

// box holds what a sender was given. The transaction writes only an id; the id tells later whether the transaction was
// committed.
type box[T any] struct {
	store storage.Store

	mu     sync.Mutex   // guards values
	values map[uint64]T // by id
}

// lastID makes ids that are unique in all boxes, since several may share a store.
var lastID atomic.Uint64

func key(id uint64) string { return fmt.Sprintf("%020d", id) }

// In names the store of the transactions that Send is called in. It must be called before Take.
func (b *box[T]) In(store storage.Store) { b.store = store }

func (b *box[T]) add(tx storage.Tx, v T, keep bool) error {
	id := lastID.Add(1)
	if keep {
		b.mu.Lock()
		if b.values == nil {
			b.values = map[uint64]T{}
		}
		b.values[id] = v
		b.mu.Unlock()
	}
	return sent.Put(tx, key(id), struct{}{}, time.Time{})
}

// Take returns what was sent since the last call, in order.
func (b *box[T]) Take() (out []T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.values) == 0 {
		return nil
	}
	var committed []uint64
	err := b.store.View(context.Background(), func(tx storage.Tx) error {
		committed = nil
		for _, id := range slices.Sorted(maps.Keys(b.values)) {
			there, err := sent.Has(tx, key(id))
			if err != nil {
				return err
			}
			if there {
				committed = append(committed, id)
			}
		}
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("notifytest: %v", err))
	}
	for _, id := range committed {
		out = append(out, b.values[id])
		delete(b.values, id)
	}
	return out
}
